// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "text/jinja/callable.h"

namespace taproot::jinja {

// Built-ins by name; nullptr when there is none. Looked up while parsing.
FilterFunction find_filter(std::string_view name);
TestFunction find_test(std::string_view name);

// The global functions (range, namespace, ...), or nullptr.
GlobalFunction find_global(std::string_view name);

// A method of the value's type. `known` says whether Python's type has that attribute at all (it
// then hides a key of the same name); `function` is nullptr when we do not offer it.
struct MethodEntry {
    const char* name = nullptr;
    MethodFunction function = nullptr;
    bool mutates = false;
};
const MethodEntry* find_method(const Value& self, std::string_view name);

// One table per file, joined by builtins.cc.
struct FilterEntry {
    const char* name;
    FilterFunction function;
};
struct Filters {
    const FilterEntry* begin;
    const FilterEntry* end;
};
Filters text_filters();
Filters sequence_filters();
Filters value_filters();
std::string range_label(std::int64_t start, std::int64_t stop, std::int64_t step);
const MethodEntry* find_string_method(std::string_view name);
const MethodEntry* find_container_method(const Value& self, std::string_view name);

}  // namespace taproot::jinja
