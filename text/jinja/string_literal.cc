// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/string_literal.h"

#include "text/jinja/unicode.h"

namespace taproot::jinja {
namespace {

// One-letter escapes and what they stand for.
constexpr std::string_view kLetters = "abfnrtv\\'\"";
constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\'\"";

// `count` hex digits at `pos`, or -1.
long parse_hex(std::string_view text, std::size_t pos, std::size_t count) {
    if (pos + count > text.size()) return -1;
    long value = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const int digit = hex_digit(text[pos + i]);
        if (digit < 0) return -1;
        value = value * 16 + digit;
    }
    return value;
}

std::size_t hex_count(char escape) {
    return escape == 'x' ? 2 : escape == 'u' ? 4 : 8;
}

// Appends \xHH, \uHHHH or \UHHHHHHHH whose letter is at `pos`; returns the position after it.
Result<std::size_t> append_hex_escape(std::string& out, std::string_view text, std::size_t pos) {
    const std::size_t count = hex_count(text[pos]);
    long value = parse_hex(text, pos + 1, count);
    if (value < 0 || value > 0x10FFFF) {
        return invalid_argument(std::string("a string has a broken \\") + text[pos] + " escape");
    }
    std::size_t end = pos + 1 + count;
    if (value >= 0xD800 && value < 0xE000) {
        const bool followed = value < 0xDC00 && text.substr(end, 2) == "\\u";
        const long low = followed ? parse_hex(text, end + 2, 4) : -1;
        if (low >= 0xDC00 && low < 0xE000) {
            value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
            end += 6;
        } else {
            value = 0xFFFD;
        }
    }
    append_utf8(out, static_cast<char32_t>(value));
    return end;
}

std::size_t append_octal_escape(std::string& out, std::string_view text, std::size_t pos) {
    char32_t value = 0;
    const std::size_t limit = pos + 3;
    for (; pos < text.size() && pos < limit && text[pos] >= '0' && text[pos] <= '7'; ++pos) {
        value = value * 8 + static_cast<char32_t>(text[pos] - '0');
    }
    append_utf8(out, value);
    return pos;
}

}  // namespace

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

Result<std::string> unescape_string(std::string_view literal) {
    std::string out;
    out.reserve(literal.size());
    for (std::size_t pos = 0; pos < literal.size();) {
        if (literal[pos] != '\\' || pos + 1 == literal.size()) {
            out += literal[pos++];
            continue;
        }
        const char escape = literal[pos + 1];
        const std::size_t known = kLetters.find(escape);
        if (known != std::string_view::npos) {
            out += kMeanings[known];
            pos += 2;
        } else if (escape == '\n') {
            pos += 2;
        } else if (escape == 'x' || escape == 'u' || escape == 'U') {
            TAPROOT_TRY(pos, append_hex_escape(out, literal, pos + 1));
        } else if (escape >= '0' && escape <= '7') {
            pos = append_octal_escape(out, literal, pos + 1);
        } else {
            out += '\\';
            ++pos;
        }
    }
    return out;
}

}  // namespace taproot::jinja
