// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"

// Inside text/jinja a failing expression unwinds by exception: every operation of a template can
// fail, and nearly none does. Template::parse and Template::render catch it and return the Error;
// nothing else in the folder catches, and it never leaves the folder.
namespace taproot::jinja {

class Value;

struct Raised {
    Error error;
};

// The message reads as Python's would: raise("TypeError", "...") -> "TypeError: ...".
[[noreturn]] void raise(const char* type, const std::string& message);
// A limit of ours was reached (steps, depth, bytes).
[[noreturn]] void raise_limit(const std::string& message);
// Exactly this message, as raise_exception() gives it.
[[noreturn]] void raise_message(std::string message);
// Uses an undefined value: UndefinedError, or SecurityError for a forbidden attribute.
[[noreturn]] void raise_undefined(const Value& value);

inline constexpr int kMaxNesting = 200;  // of values: printing, comparing, JSON

}  // namespace taproot::jinja
