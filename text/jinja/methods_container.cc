// SPDX-License-Identifier: Apache-2.0
// The methods of dict, list, tuple, range and float.
#include <algorithm>
#include <array>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/dict_build.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"

namespace taproot::jinja {
namespace {

std::int64_t index_argument(const Value& value) {
    if (!value.is_integral()) {
        raise("TypeError",
              std::string("'") + type_name(value) + "' object cannot be interpreted as an integer");
    }
    return value.as_int();
}

Value writable(Value container) {
    if (container.is_list()) container.list_data().writable = true;
    if (container.is_dict()) container.dict_data().writable = true;
    return container;
}

// Templates may change only what they made themselves.
void prepare_change(Interpreter& interpreter, const Value& self, const char* method) {
    const bool allowed = self.is_list() ? self.list_data().writable : self.dict_data().writable;
    if (!allowed) {
        raise("SecurityError", std::string("access to attribute '") + method + "' of '" +
                                   type_name(self) + "' object is unsafe.");
    }
    interpreter.will_mutate(self);
}

Value dict_get(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("get", args);
    const Value& key = reader.required("key");
    const Value* fallback = reader.optional("default");
    reader.finish();
    require_hashable(key);
    const Value* found = self.dict_data().find(key);
    if (found != nullptr) return *found;
    return fallback != nullptr ? *fallback : Value::none();
}

template <SequenceKind kView>
Value dict_view(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader("items", args).finish();
    std::vector<Value> items;
    items.reserve(self.dict_data().entries.size());
    spend_steps(self.dict_data().entries.size());
    for (const auto& [key, value] : self.dict_data().entries) {
        if (kView == SequenceKind::kKeys) items.push_back(key);
        if (kView == SequenceKind::kValues) items.push_back(value);
        if (kView == SequenceKind::kItems)
            items.push_back(Value::list({key, value}, SequenceKind::kTuple));
    }
    return Value::list(std::move(items), kView);
}

Value dict_copy(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader("copy", args).finish();
    spend_steps(self.dict_data().entries.size());
    return writable(Value::dict(self.dict_data().entries));
}

Value dict_update(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    prepare_change(interpreter, self, "update");
    fill_dict(self.dict_data(), "update", args);
    return Value::none();
}

Value dict_setdefault(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader reader("setdefault", args);
    const Value& key = reader.required("key");
    const Value* fallback = reader.optional("default");
    reader.finish();
    prepare_change(interpreter, self, "setdefault");
    require_hashable(key);
    if (const Value* found = self.dict_data().find(key)) return *found;
    self.dict_data().set(key, fallback != nullptr ? *fallback : Value::none());
    return fallback != nullptr ? *fallback : Value::none();
}

Value dict_pop(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader reader("pop", args);
    const Value& key = reader.required("key");
    const Value* fallback = reader.optional("default");
    reader.finish();
    prepare_change(interpreter, self, "pop");
    require_hashable(key);
    DictData& dict = self.dict_data();
    const std::size_t at = dict.position(key);
    if (at == dict.entries.size()) {
        if (fallback == nullptr) raise("KeyError", repr(key));
        return *fallback;
    }
    spend_steps(dict.entries.size());
    Value value = dict.entries[at].second;
    dict.erase(at);
    return value;
}

Value dict_clear(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader("clear", args).finish();
    prepare_change(interpreter, self, "clear");
    while (!self.dict_data().entries.empty())
        self.dict_data().erase(self.dict_data().entries.size() - 1);
    return Value::none();
}

Value list_append(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader reader("append", args);
    const Value& item = reader.required("object");
    reader.finish();
    prepare_change(interpreter, self, "append");
    self.list_data().items.push_back(item);
    return Value::none();
}

Value list_extend(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader reader("extend", args);
    const std::vector<Value> more = collect(reader.required("iterable"));
    reader.finish();
    prepare_change(interpreter, self, "extend");
    auto& items = self.list_data().items;
    items.insert(items.end(), more.begin(), more.end());
    return Value::none();
}

Value list_insert(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader reader("insert", args);
    std::int64_t at = index_argument(reader.required("index"));
    const Value& item = reader.required("object");
    reader.finish();
    prepare_change(interpreter, self, "insert");
    auto& items = self.list_data().items;
    const auto size = static_cast<std::int64_t>(items.size());
    spend_steps(items.size() / 16 + 1);
    if (at < 0) at += size;
    items.insert(items.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::int64_t>(at, 0, size)),
                 item);
    return Value::none();
}

Value list_pop(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader reader("pop", args);
    const Value* position = reader.optional("index");
    reader.finish();
    prepare_change(interpreter, self, "pop");
    auto& items = self.list_data().items;
    if (items.empty()) raise("IndexError", "pop from empty list");
    const auto size = static_cast<std::int64_t>(items.size());
    std::int64_t at = position == nullptr ? size - 1 : index_argument(*position);
    if (at < 0) at += size;
    if (at < 0 || at >= size) raise("IndexError", "pop index out of range");
    spend_steps(items.size() / 16 + 1);
    Value item = items[static_cast<std::size_t>(at)];
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
    return item;
}

Value list_reverse(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader("reverse", args).finish();
    prepare_change(interpreter, self, "reverse");
    spend_steps(self.list_data().items.size());
    std::reverse(self.list_data().items.begin(), self.list_data().items.end());
    return Value::none();
}

Value list_clear(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    ArgReader("clear", args).finish();
    prepare_change(interpreter, self, "clear");
    self.list_data().items.clear();
    return Value::none();
}

Value list_copy(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader("copy", args).finish();
    spend_steps(self.list_data().items.size());
    return writable(Value::list(self.list_data().items));
}

Value list_count(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("count", args);
    const Value& wanted = reader.required("value");
    reader.finish();
    const auto& items = self.list_data().items;
    spend_steps(items.size());
    return Value::integer(std::count_if(items.begin(), items.end(), [&wanted](const Value& item) {
        return values_equal(item, wanted);
    }));
}

Value list_index(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("index", args);
    const Value& wanted = reader.required("value");
    reader.finish();
    const auto& items = self.list_data().items;
    spend_steps(items.size());
    const auto found = std::find_if(items.begin(), items.end(), [&wanted](const Value& item) {
        return values_equal(item, wanted);
    });
    if (found == items.end()) raise("ValueError", repr(wanted) + " is not in " + type_name(self));
    return Value::integer(found - items.begin());
}

Value list_remove(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    const Value at = list_index(interpreter, self, args);
    prepare_change(interpreter, self, "remove");
    auto& items = self.list_data().items;
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(at.as_int()));
    return Value::none();
}

Value float_is_integer(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader("is_integer", args).finish();
    const double value = self.as_double();
    return Value::boolean(std::isfinite(value) && value == std::floor(value));
}

constexpr auto kDictMethods = std::to_array<MethodEntry>({
    {"clear", dict_clear, true},
    {"copy", dict_copy},
    {"fromkeys", nullptr},
    {"get", dict_get},
    {"items", dict_view<SequenceKind::kItems>},
    {"keys", dict_view<SequenceKind::kKeys>},
    {"pop", dict_pop, true},
    {"popitem", nullptr, true},
    {"setdefault", dict_setdefault, true},
    {"update", dict_update, true},
    {"values", dict_view<SequenceKind::kValues>},
});

constexpr auto kListMethods = std::to_array<MethodEntry>({
    {"append", list_append, true},
    {"clear", list_clear, true},
    {"copy", list_copy},
    {"count", list_count},
    {"extend", list_extend, true},
    {"index", list_index},
    {"insert", list_insert, true},
    {"pop", list_pop, true},
    {"remove", list_remove, true},
    {"reverse", list_reverse, true},
    {"sort", nullptr, true},
});

constexpr auto kTupleMethods = std::to_array<MethodEntry>({
    {"count", list_count},
    {"index", list_index},
});

constexpr auto kFloatMethods = std::to_array<MethodEntry>({
    {"as_integer_ratio", nullptr},
    {"hex", nullptr},
    {"is_integer", float_is_integer},
});

constexpr auto kIntMethods = std::to_array<MethodEntry>({
    {"as_integer_ratio", nullptr},
    {"bit_count", nullptr},
    {"bit_length", nullptr},
    {"conjugate", nullptr},
    {"from_bytes", nullptr},
    {"to_bytes", nullptr},
});

template <std::size_t kCount>
const MethodEntry* find_in(const std::array<MethodEntry, kCount>& methods, std::string_view name) {
    const auto found =
        std::find_if(methods.begin(), methods.end(),
                     [name](const MethodEntry& method) { return name == method.name; });
    return found == methods.end() ? nullptr : &*found;
}

}  // namespace

const MethodEntry* find_container_method(const Value& self, std::string_view name) {
    switch (self.kind()) {
        case Kind::kDict:
            return find_in(kDictMethods, name);
        case Kind::kList:
            if (self.list_data().kind == SequenceKind::kList) return find_in(kListMethods, name);
            return self.list_data().is_sequence() ? find_in(kTupleMethods, name) : nullptr;
        case Kind::kFloat:
            return find_in(kFloatMethods, name);
        case Kind::kBool:
        case Kind::kInt:
        case Kind::kBigInt:
            return find_in(kIntMethods, name);
        default:
            return nullptr;
    }
}

}  // namespace taproot::jinja
