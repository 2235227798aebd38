// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/callable.h"

#include "text/jinja/raise.h"

namespace taproot::jinja {

const Value* CallArgs::find_named(std::string_view name) const {
    for (const auto& [key, value] : named) {
        if (key == name) return &value;
    }
    return nullptr;
}

const char* CallableData::python_type() const {
    switch (kind) {
        case Kind::kGlobal:
            return "function";
        case Kind::kMethod:
            return "builtin_function_or_method";
        case Kind::kMacro:
            return "Macro";
    }
    return "function";
}

const char* CallableData::python_owner() const {
    switch (kind) {
        case Kind::kGlobal:
            return "function object";
        case Kind::kMethod:
            return "builtin_function_or_method object";
        case Kind::kMacro:
            return "jinja2.runtime.Macro object";
    }
    return "function object";
}

const Value* ArgReader::optional(std::string_view name) {
    const Value* by_name = args_.find_named(name);
    if (next_ < args_.positional.size()) {
        if (by_name != nullptr) {
            raise("TypeError", std::string(callee_) + "() got multiple values for argument '" +
                                   std::string(name) + "'");
        }
        return &args_.positional[next_++];
    }
    if (by_name != nullptr) ++named_used_;
    return by_name;
}

const Value& ArgReader::required(std::string_view name) {
    const Value* value = optional(name);
    if (value == nullptr) {
        raise("TypeError", std::string(callee_) + "() missing 1 required positional argument: '" +
                               std::string(name) + "'");
    }
    return *value;
}

void ArgReader::finish() const {
    if (next_ < args_.positional.size()) {
        raise("TypeError", std::string(callee_) + "() takes at most " + std::to_string(next_) +
                               " arguments (" + std::to_string(args_.positional.size()) +
                               " given)");
    }
    if (named_used_ < args_.named.size()) {
        raise("TypeError", std::string(callee_) + "() got an unexpected keyword argument");
    }
}

}  // namespace taproot::jinja
