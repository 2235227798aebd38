// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/value.h"

#include <algorithm>

#include "base/assert.h"
#include "text/jinja/callable.h"
#include "text/jinja/raise.h"

namespace taproot::jinja {
namespace {

// Values nest as deep as a template likes (ns.x = [ns.x] in a loop), so destroying them must not
// recurse: children are moved to a list of this thread and destroyed one after the other.
template <typename T>
void bury(std::vector<T>&& children) {
    thread_local std::vector<std::vector<T>>* graveyard = nullptr;
    if (children.empty()) return;
    if (graveyard != nullptr) {
        graveyard->push_back(std::move(children));
        return;
    }
    std::vector<std::vector<T>> waiting;
    graveyard = &waiting;
    children.clear();
    while (!waiting.empty()) {
        const std::vector<T> next = std::move(waiting.back());
        waiting.pop_back();
    }
    graveyard = nullptr;
}

constexpr std::size_t kIndexAbove = 8;

}  // namespace

Value::Value() : data_(std::shared_ptr<const UndefinedInfo>()) {}

Value Value::none() {
    Value out;
    out.data_ = None{};
    return out;
}

Value Value::boolean(bool value) {
    Value out;
    out.data_ = value;
    return out;
}

Value Value::integer(std::int64_t value) {
    Value out;
    out.data_ = value;
    return out;
}

Value Value::big_integer(std::string digits) {
    Value out;
    out.data_ = std::make_shared<const BigInt>(BigInt{std::move(digits)});
    return out;
}

Value Value::number(double value) {
    Value out;
    out.data_ = value;
    return out;
}

Value Value::user_string(std::string bytes) {
    return string(Text(std::move(bytes), Origin::kUser));
}

Value Value::template_string(std::string bytes) {
    return string(Text(std::move(bytes)));
}

Value Value::string(Text text) {
    Value out;
    out.data_ = std::make_shared<Text>(std::move(text));
    return out;
}

Value Value::list(std::vector<Value> items, SequenceKind kind) {
    Value out;
    out.data_ = std::make_shared<ListData>(std::move(items), kind);
    return out;
}

Value Value::dict(std::vector<std::pair<Value, Value>> entries) {
    Value out;
    out.data_ = std::make_shared<DictData>(std::move(entries));
    return out;
}

bool Value::as_bool() const {
    TAPROOT_ASSERT(is(Kind::kBool));
    return *std::get_if<bool>(&data_);
}

std::int64_t Value::as_int() const {
    if (is(Kind::kBool)) return as_bool() ? 1 : 0;
    TAPROOT_ASSERT(is(Kind::kInt));
    return *std::get_if<std::int64_t>(&data_);
}

double Value::as_double() const {
    return is(Kind::kFloat) ? *std::get_if<double>(&data_) : static_cast<double>(as_int());
}

const std::string& Value::big_digits() const {
    TAPROOT_ASSERT(is(Kind::kBigInt));
    return (*std::get_if<std::shared_ptr<const BigInt>>(&data_))->digits;
}

const Text& Value::text() const {
    TAPROOT_ASSERT(is_string());
    return **std::get_if<std::shared_ptr<Text>>(&data_);
}

ListData& Value::list_data() const {
    TAPROOT_ASSERT(is_list());
    return **std::get_if<std::shared_ptr<ListData>>(&data_);
}

DictData& Value::dict_data() const {
    TAPROOT_ASSERT(is_dict());
    return **std::get_if<std::shared_ptr<DictData>>(&data_);
}

NamespaceData& Value::namespace_data() const {
    TAPROOT_ASSERT(is(Kind::kNamespace));
    return **std::get_if<std::shared_ptr<NamespaceData>>(&data_);
}

CallableData& Value::callable() const {
    TAPROOT_ASSERT(is(Kind::kCallable));
    return **std::get_if<std::shared_ptr<CallableData>>(&data_);
}

const std::shared_ptr<LoopData>& Value::loop() const {
    TAPROOT_ASSERT(is(Kind::kLoop));
    return *std::get_if<std::shared_ptr<LoopData>>(&data_);
}

const UndefinedInfo* Value::undefined_info() const {
    TAPROOT_ASSERT(is_undefined());
    return std::get_if<std::shared_ptr<const UndefinedInfo>>(&data_)->get();
}

Text* Value::unshared_text() {
    auto* text = std::get_if<std::shared_ptr<Text>>(&data_);
    return text != nullptr && text->use_count() == 1 ? text->get() : nullptr;
}

const void* Value::identity() const {
    return std::visit(
        [](const auto& held) -> const void* {
            if constexpr (requires { held.get(); }) {
                return held.get();
            } else {
                return nullptr;
            }
        },
        data_);
}

void Value::set(std::string key, Value value) {
    dict_data().set(template_string(std::move(key)), std::move(value));
}

void Value::set_user(std::string key, Value value) {
    dict_data().set(user_string(std::move(key)), std::move(value));
}

const Value* Value::find(std::string_view key) const {
    return is_dict() ? dict_data().find(key) : nullptr;
}

Value make_undefined(UndefinedInfo info) {
    Value out;
    out.data_ = std::make_shared<const UndefinedInfo>(std::move(info));
    return out;
}

Value make_namespace(std::shared_ptr<NamespaceData> data) {
    Value out;
    out.data_ = std::move(data);
    return out;
}

Value make_callable(std::shared_ptr<CallableData> data) {
    Value out;
    out.data_ = std::move(data);
    return out;
}

Value make_loop(std::shared_ptr<LoopData> data) {
    Value out;
    out.data_ = std::move(data);
    return out;
}

std::string UndefinedInfo::message() const {
    if (!hint.empty()) return hint;
    if (owner == nullptr) return "'" + name + "' is undefined";
    if (element) return std::string(owner) + " has no element " + name;
    return "'" + std::string(owner) + "' has no attribute '" + name + "'";
}

ListData::~ListData() {
    bury(std::move(items));
}

DictData::DictData(std::vector<Entry> initial) : entries(std::move(initial)) {
    index_from(0);
}

DictData::~DictData() {
    bury(std::move(entries));
}

void DictData::index_from(std::size_t first) {
    if (entries.size() <= kIndexAbove) return;
    if (index_.empty()) first = 0;
    for (std::size_t i = first; i < entries.size(); ++i) {
        if (entries[i].first.is_string()) index_.emplace(entries[i].first.view(), i);
    }
}

std::size_t DictData::string_position(std::string_view key) const {
    if (entries.size() > kIndexAbove) {
        const auto found = index_.find(key);
        return found == index_.end() ? entries.size() : found->second;
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].first.is_string() && entries[i].first.view() == key) return i;
    }
    return entries.size();
}

std::size_t DictData::position(const Value& key) const {
    if (key.is_string()) return string_position(key.view());
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!entries[i].first.is_string() && values_equal(entries[i].first, key)) return i;
    }
    return entries.size();
}

const Value* DictData::find(std::string_view key) const {
    const std::size_t at = string_position(key);
    return at == entries.size() ? nullptr : &entries[at].second;
}

const Value* DictData::find(const Value& key) const {
    const std::size_t at = position(key);
    return at == entries.size() ? nullptr : &entries[at].second;
}

void DictData::set(Value key, Value value) {
    const std::size_t at = position(key);
    if (at < entries.size()) {
        entries[at].second = std::move(value);
        return;
    }
    entries.emplace_back(std::move(key), std::move(value));
    index_from(entries.size() - 1);
}

void DictData::erase(std::size_t position) {
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(position));
    index_.clear();
    index_from(0);
}

const Value* NamespaceData::find(std::string_view name) const {
    for (const auto& [key, value] : entries) {
        if (key == name) return &value;
    }
    return nullptr;
}

void NamespaceData::set(std::string_view name, Value value) {
    for (auto& [key, held] : entries) {
        if (key == name) {
            held = std::move(value);
            return;
        }
    }
    entries.emplace_back(std::string(name), std::move(value));
}

}  // namespace taproot::jinja
