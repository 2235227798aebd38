// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/text.h"

namespace taproot::jinja {

struct ListData;
struct DictData;
struct NamespaceData;
struct CallableData;
struct LoopData;
struct UndefinedInfo;

// What kind of Python object a sequence stands for. They iterate alike and print, index and compare
// as Python's do. A generator gives its items once.
enum class SequenceKind : std::uint8_t {
    kList,
    kTuple,
    kRange,
    kKeys,
    kValues,
    kItems,
    kGenerator
};

enum class Kind : std::uint8_t {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kBigInt,  // an integer beyond 64 bits from JSON: prints and compares, no arithmetic
    kFloat,
    kString,
    kList,
    kDict,
    kNamespace,
    kCallable,
    kLoop,
};

// A template value. Copies are cheap: everything larger than a number is shared.
//
// Values made by the static functions below are what a caller builds from C++ or JSON; templates
// never change them (append and update work only on what the template itself made), so one context
// may be rendered by several threads at once.
class Value {
public:
    Value();  // undefined without a name

    static Value none();
    static Value boolean(bool value);
    static Value integer(std::int64_t value);
    static Value big_integer(std::string digits);
    static Value number(double value);
    // Text that came with a request: can never become a control token.
    static Value user_string(std::string bytes);
    // Text that belongs to the template's side (role names, bos_token).
    static Value template_string(std::string bytes);
    static Value string(Text text);
    static Value list(std::vector<Value> items, SequenceKind kind = SequenceKind::kList);
    static Value dict(std::vector<std::pair<Value, Value>> entries = {});

    [[nodiscard]] Kind kind() const { return static_cast<Kind>(data_.index()); }
    [[nodiscard]] bool is(Kind wanted) const { return kind() == wanted; }
    [[nodiscard]] bool is_undefined() const { return is(Kind::kUndefined); }
    [[nodiscard]] bool is_none() const { return is(Kind::kNone); }
    [[nodiscard]] bool is_string() const { return is(Kind::kString); }
    [[nodiscard]] bool is_list() const { return is(Kind::kList); }
    [[nodiscard]] bool is_dict() const { return is(Kind::kDict); }
    // Bool, int or float: what arithmetic takes.
    [[nodiscard]] bool is_number() const {
        return is(Kind::kBool) || is(Kind::kInt) || is(Kind::kFloat);
    }
    [[nodiscard]] bool is_integral() const { return is(Kind::kBool) || is(Kind::kInt); }

    // REQUIRES the kind; anything else is a bug and aborts.
    [[nodiscard]] bool as_bool() const;
    [[nodiscard]] std::int64_t as_int() const;  // bool or int
    [[nodiscard]] double as_double() const;     // bool, int or float
    [[nodiscard]] const std::string& big_digits() const;
    [[nodiscard]] const Text& text() const;
    [[nodiscard]] std::string_view view() const { return text().view(); }
    [[nodiscard]] ListData& list_data() const;
    [[nodiscard]] DictData& dict_data() const;
    [[nodiscard]] NamespaceData& namespace_data() const;
    [[nodiscard]] CallableData& callable() const;
    [[nodiscard]] const std::shared_ptr<LoopData>& loop() const;
    [[nodiscard]] const UndefinedInfo* undefined_info() const;  // nullptr: nothing known

    // The text, writable, when no other value shares it; nullptr otherwise. Lets `a + b + c` append
    // instead of copying.
    [[nodiscard]] Text* unshared_text();
    // Identity of the shared storage (nullptr for numbers): `is sameas` and cycle checks.
    [[nodiscard]] const void* identity() const;

    // Builders for a caller's dict, in insertion order; the key must be new. REQUIRES kDict.
    void set(std::string key, Value value);       // a key of the template's side ("role")
    void set_user(std::string key, Value value);  // a key that came with a request
    [[nodiscard]] const Value* find(std::string_view key) const;  // nullptr unless a dict with it

private:
    friend Value make_undefined(UndefinedInfo info);
    friend Value make_namespace(std::shared_ptr<NamespaceData> data);
    friend Value make_callable(std::shared_ptr<CallableData> data);
    friend Value make_loop(std::shared_ptr<LoopData> data);

    struct None {};
    struct BigInt {
        std::string digits;
    };
    std::variant<std::shared_ptr<const UndefinedInfo>, None, bool, std::int64_t,
                 std::shared_ptr<const BigInt>, double, std::shared_ptr<Text>,
                 std::shared_ptr<ListData>, std::shared_ptr<DictData>,
                 std::shared_ptr<NamespaceData>, std::shared_ptr<CallableData>,
                 std::shared_ptr<LoopData>>
        data_;
};

// Why a value is undefined; message() is what an error says when it is used.
struct UndefinedInfo {
    std::string hint = {};        // the whole message, when set
    const char* owner = nullptr;  // "dict object": looked up in a value; nullptr: a variable
    std::string name = {};        // variable, attribute, or repr of the element
    bool element = false;         // looked up by a key that is no string
    bool forbidden = false;       // the attribute exists but templates may not use it

    [[nodiscard]] std::string message() const;
};

struct ListData {
    explicit ListData(std::vector<Value> values, SequenceKind sequence_kind)
        : items(std::move(values)), kind(sequence_kind) {}
    ~ListData();
    ListData(const ListData&) = delete;
    ListData& operator=(const ListData&) = delete;

    [[nodiscard]] std::size_t size() const { return items.size() - next; }
    [[nodiscard]] bool is_sequence() const {  // has len() and positions
        return kind == SequenceKind::kList || kind == SequenceKind::kTuple ||
               kind == SequenceKind::kRange;
    }
    [[nodiscard]] bool is_generator() const { return kind == SequenceKind::kGenerator; }

    std::vector<Value> items;
    std::size_t next = 0;    // generator: items before it are used up; 0 for all others
    std::string label = {};  // how a range or generator prints
    SequenceKind kind;
    bool writable = false;  // made by the template being rendered
};

struct DictData {
    using Entry = std::pair<Value, Value>;

    explicit DictData(std::vector<Entry> initial);
    ~DictData();
    DictData(const DictData&) = delete;
    DictData& operator=(const DictData&) = delete;

    // Cost: a scan up to 8 entries, then one hash. nullptr when absent.
    [[nodiscard]] const Value* find(std::string_view key) const;
    [[nodiscard]] const Value* find(const Value& key) const;  // key must be hashable
    // Replaces the value of an equal key, else appends.
    void set(Value key, Value value);
    void erase(std::size_t position);
    [[nodiscard]] std::size_t position(const Value& key) const;  // entries.size() when absent

    std::vector<Entry> entries;  // insertion order
    bool writable = false;

private:
    void index_from(std::size_t first);
    [[nodiscard]] std::size_t string_position(std::string_view key) const;

    std::unordered_map<std::string_view, std::size_t> index_;  // string keys, once past 8 entries
};

struct NamespaceData {
    std::vector<std::pair<std::string, Value>> entries;

    [[nodiscard]] const Value* find(std::string_view name) const;
    void set(std::string_view name, Value value);
};

Value make_undefined(UndefinedInfo info);
Value make_namespace(std::shared_ptr<NamespaceData> data);
Value make_callable(std::shared_ptr<CallableData> data);
Value make_loop(std::shared_ptr<LoopData> data);

// "dict", "NoneType", "dict_items": Python's type(x).__name__.
const char* type_name(const Value& value);
// "dict object", "None": how an undefined attribute names its owner.
const char* owner_name(const Value& value);

bool is_truthy(const Value& value);
// Python's ==. Throws (see raise.h) when nested deeper than 200 levels.
bool values_equal(const Value& left, const Value& right, int depth = 0);
// -1, 0, 1, as Python's < orders them; throws TypeError for kinds without an order. `symbol` is the
// operator named in that error.
int compare_values(const Value& left, const Value& right, const char* symbol, int depth = 0);
// Throws TypeError for lists, dicts and what holds them.
void require_hashable(const Value& value, int depth = 0);

}  // namespace taproot::jinja
