// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/field_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace taproot::gateway {

namespace json = boost::json;

std::optional<std::int64_t> exact_integer(const json::value& value) {
    if (value.is_int64()) return value.get_int64();
    if (value.is_uint64()) return std::nullopt;  // beyond int64: no field allows it
    if (value.is_double()) {
        double d = value.get_double();
        if (std::floor(d) == d && std::fabs(d) < 9007199254740992.0)
            return static_cast<std::int64_t>(d);
    }
    return std::nullopt;
}

std::string_view json_kind(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return "null";
        case json::kind::bool_:
            return "a boolean";
        case json::kind::int64:
        case json::kind::uint64:
        case json::kind::double_:
            return "a number";
        case json::kind::string:
            return "a string";
        case json::kind::array:
            return "an array";
        case json::kind::object:
            return "an object";
    }
    return "a value";
}

FieldReader::FieldReader(const json::object& object, std::string where)
    : object_(object), where_(std::move(where)) {
    known_.reserve(object.size());
}

std::string FieldReader::path(std::string_view name) const {
    if (name.empty()) return where_;
    return where_.empty() ? std::string(name) : fmt::format("{}.{}", where_, name);
}

void FieldReader::fail(std::string_view name, std::string message, ErrorCode code) {
    if (!error_) error_ = Error{code, std::move(message), path(name)};
}

const json::value* FieldReader::find(std::string_view name) {
    auto it = object_.find(json::string_view(name.data(), name.size()));
    if (it == object_.end()) return nullptr;
    known_.emplace_back(it->key().data(), it->key().size());
    return it->value().is_null() || error_ ? nullptr : &it->value();
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_bool()) return value->get_bool();
    fail(name, fmt::format("'{}' must be true or false, not {}", path(name), json_kind(*value)));
    return std::nullopt;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, std::int64_t low,
                                                 std::int64_t high) {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    std::optional<std::int64_t> number = exact_integer(*value);
    if (number && *number >= low && *number <= high) return number;
    fail(name, fmt::format("'{}' must be an integer in {}..{}", path(name), low, high));
    return std::nullopt;
}

std::optional<double> FieldReader::number(std::string_view name, double low, double high,
                                          LowEnd low_end) {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (value->is_number()) {
        double number = value->to_number<double>();
        bool above = low_end == LowEnd::kOpen ? number > low : number >= low;
        if (std::isfinite(number) && above && number <= high) return number;
    }
    fail(name, fmt::format("'{}' must be a number {} {} and at most {}", path(name),
                           low_end == LowEnd::kOpen ? "above" : "of at least", low, high));
    return std::nullopt;
}

std::optional<std::string> FieldReader::string(std::string_view name, std::size_t bytes_max) {
    const json::value* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) {
        fail(name, fmt::format("'{}' must be a string, not {}", path(name), json_kind(*value)));
        return std::nullopt;
    }
    const json::string& text = value->get_string();
    if (text.size() > bytes_max) {
        fail(name, fmt::format("'{}' must have at most {} bytes", path(name), bytes_max));
        return std::nullopt;
    }
    return std::string(text.data(), text.size());
}

const json::object* FieldReader::object(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return nullptr;
    if (value->is_object()) return &value->get_object();
    fail(name, fmt::format("'{}' must be an object, not {}", path(name), json_kind(*value)));
    return nullptr;
}

const json::array* FieldReader::array(std::string_view name) {
    const json::value* value = find(name);
    if (value == nullptr) return nullptr;
    if (value->is_array()) return &value->get_array();
    fail(name, fmt::format("'{}' must be an array, not {}", path(name), json_kind(*value)));
    return nullptr;
}

std::vector<std::string_view> FieldReader::unknown() const {
    std::vector<std::string_view> out;
    for (const auto& member : object_) {
        std::string_view key(member.key().data(), member.key().size());
        if (std::find(known_.begin(), known_.end(), key) == known_.end() &&
            !member.value().is_null())
            out.push_back(key);
    }
    return out;
}

}  // namespace taproot::gateway
