// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "text/jinja/value.h"

namespace taproot::jinja {

// Python's str(): what {{ value }} prints. Strings are themselves, undefined is empty, lists and
// dicts print as repr. Throws beyond kMaxNesting.
Text to_text(const Value& value);
void append_text(Text& out, const Value& value);

// Python's repr(). `user` becomes true when any of it came from a user.
void append_repr(std::string& out, const Value& value, bool& user, int depth = 0);
std::string repr(const Value& value);
std::string repr_string(std::string_view text);

// Shortest digits that read back the same, in Python's layout: 1.0, 0.1, 1e+16, 1e-05, inf, nan.
std::string float_repr(double value);

}  // namespace taproot::jinja
