// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace taproot::jinja {

enum class TokenKind : std::uint8_t {
    kData,        // text between tags, white space control already applied
    kPrintBegin,  // {{
    kPrintEnd,
    kBlockBegin,  // {%
    kBlockEnd,
    kName,
    kString,   // unescaped
    kInteger,  // digits without underscores, prefix kept
    kFloat,
    kOperator,  // text is the operator itself
    kEnd,
};

struct Token {
    TokenKind kind;
    std::string text;
    int line;
};

// Splits a template as jinja2 does with trim_blocks and lstrip_blocks on:
//   - "\r\n" and "\r" become "\n"; one newline at the very end is dropped;
//   - {%- -%} {{- -}} {#- -#} eat white space (newlines too) on their side; {%+ +%} keep it;
//   - the newline right after %} or #} is dropped, blanks before {% or {# at a line's start too;
//   - comments vanish, {% raw %} gives data.
// The last token is kEnd. Cost: linear. Errors: kInvalidArgument, where = "line N".
Result<std::vector<Token>> tokenize(std::string_view source);

}  // namespace taproot::jinja
