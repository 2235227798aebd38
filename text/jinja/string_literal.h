// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace taproot::jinja {

// Value of a hex digit, or -1.
int hex_digit(char c);

// The inside of a quoted literal, with Python's escapes resolved: \n \t \\ \' \" \a \b \f \r \v, up
// to three octal digits, \xHH, \uHHHH, \UHHHHHHHH, and a backslash before a newline (dropped). An
// unknown escape stays as written. Pairs of surrogates join; a lone one becomes U+FFFD.
Result<std::string> unescape_string(std::string_view literal);

}  // namespace taproot::jinja
