// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/value.h"

namespace taproot::jinja {

// left op right, as Python computes it. `left` is consumed so that a chain of string additions
// appends in place. Throws TypeError, ZeroDivisionError, OverflowError (64-bit integers).
Value arithmetic(ArithmeticOp op, Value left, const Value& right);
Value negate(const Value& operand);
Value plus(const Value& operand);

bool compare(CompareOp op, const Value& left, const Value& right);
bool contains(const Value& container, const Value& item);

// printf-style "%s %d" % values.
Value format_percent(const Text& format, const Value& values);

// object.name: a method or attribute first, then a key.
Value get_attribute(const Value& object, std::string_view name, bool strict_sandbox);
// object[key]: a key or position first, then an attribute. `key_user`: see Value.
Value get_item(const Value& object, const Value& key, bool strict_sandbox);
// object[start:stop:step]; absent bounds are none.
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step);

}  // namespace taproot::jinja
