// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "text/jinja/text.h"
#include "text/jinja/value.h"

namespace taproot::jinja {

// What both "%05.1f" and "{:05.1f}" say about one field.
struct FieldFormat {
    char fill = ' ';
    char align = 0;   // '<' '>' '^' '=' or 0: the type's own
    char sign = '-';  // '-' '+' ' '
    bool alternate = false;
    bool grouped = false;  // ',' between thousands
    int width = 0;
    int precision = -1;
    char type = 0;
};

inline constexpr int kMaxFieldWidth = 100'000;

// Digits of an integer in the field's base (d x X o b), with its sign and prefix; not padded.
std::string format_integer(std::int64_t value, const FieldFormat& field);
// A number in e E f F g G or % form with its sign; not padded.
std::string format_float(double value, const FieldFormat& field);
// Pads to the width in code points; '=' pads between sign and digits. Origins are kept.
Text pad_field(Text text, const FieldFormat& field, char default_align);

// The integer that %d of a number prints (floats are cut); throws TypeError naming `type`.
std::int64_t integer_of(const Value& value, char type);

}  // namespace taproot::jinja
