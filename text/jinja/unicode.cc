// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace taproot::jinja {
namespace {

bool is_continuation(char c) {
    return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

utf8proc_int32_t to_signed(char32_t c) {
    return static_cast<utf8proc_int32_t>(c);
}

utf8proc_category_t category(char32_t c) {
    return c > 0x10FFFF ? UTF8PROC_CATEGORY_CN : utf8proc_category(to_signed(c));
}

// The upper forms that are longer than one character and that real text has.
const char* long_upper(char32_t c) {
    switch (c) {
        case 0xDF:
            return "SS";
        case 0x149:
            return "\xCA\xBCN";
        case 0xFB00:
            return "FF";
        case 0xFB01:
            return "FI";
        case 0xFB02:
            return "FL";
        case 0xFB03:
            return "FFI";
        case 0xFB04:
            return "FFL";
        case 0xFB05:
            return "ST";
        case 0xFB06:
            return "ST";
        default:
            return nullptr;
    }
}

void append_upper(std::string& out, char32_t c) {
    if (const char* longer = long_upper(c)) {
        out += longer;
    } else {
        append_utf8(out, static_cast<char32_t>(utf8proc_toupper(to_signed(c))));
    }
}

void append_title(std::string& out, char32_t c) {
    if (const char* longer = long_upper(c)) {
        std::string lowered = to_lower(longer);
        lowered[0] = longer[0];
        out += lowered;
    } else {
        append_utf8(out, static_cast<char32_t>(utf8proc_totitle(to_signed(c))));
    }
}

void append_lower(std::string& out, char32_t c) {
    if (c == 0x130) {
        out += "i\xCC\x87";
    } else {
        append_utf8(out, static_cast<char32_t>(utf8proc_tolower(to_signed(c))));
    }
}

// Calls map(out, code point) for every character; invalid bytes are copied.
template <typename Map>
std::string map_text(std::string_view text, Map map) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t pos = 0; pos < text.size();) {
        char32_t c = 0;
        const std::size_t length = decode_code_point(text, pos, c);
        if (c == kInvalidCodePoint) {
            out.append(text.substr(pos, length));
            map(out, c, false);
        } else {
            map(out, c, true);
        }
        pos += length;
    }
    return out;
}

bool is_cased(char32_t c) {
    return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT;
}

}  // namespace

std::size_t decode_code_point(std::string_view text, std::size_t pos, char32_t& code_point) {
    const auto lead = static_cast<unsigned char>(text[pos]);
    if (lead < 0x80) {
        code_point = lead;
        return 1;
    }
    code_point = kInvalidCodePoint;
    const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
    if (length == 0 || lead > 0xF4 || pos + length > text.size()) return 1;
    char32_t value = lead & (0xFFU >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if (!is_continuation(text[pos + i])) return 1;
        value = (value << 6) | (static_cast<unsigned char>(text[pos + i]) & 0x3FU);
    }
    constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < kSmallest[length] || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
        return 1;
    code_point = value;
    return length;
}

void append_utf8(std::string& out, char32_t c) {
    if (c < 0x80) {
        out += static_cast<char>(c);
    } else if (c < 0x800) {
        out += static_cast<char>(0xC0 | (c >> 6));
        out += static_cast<char>(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        out += static_cast<char>(0xE0 | (c >> 12));
        out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
        out += static_cast<char>(0x80 | (c & 0x3F));
    } else {
        out += static_cast<char>(0xF0 | (c >> 18));
        out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
        out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
        out += static_cast<char>(0x80 | (c & 0x3F));
    }
}

std::size_t previous_length(std::string_view text, std::size_t pos) {
    for (std::size_t length = 2; length <= 4 && length <= pos; ++length) {
        if (is_continuation(text[pos - length])) continue;
        char32_t c = 0;
        return decode_code_point(text.substr(0, pos), pos - length, c) == length ? length : 1;
    }
    return 1;
}

bool is_ascii(std::string_view text) {
    return std::all_of(text.begin(), text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::size_t count_code_points(std::string_view text) {
    std::size_t count = 0;
    for (std::size_t pos = 0; pos < text.size(); ++count) {
        char32_t c = 0;
        pos += decode_code_point(text, pos, c);
    }
    return count;
}

std::size_t byte_offset(std::string_view text, std::size_t n) {
    std::size_t pos = 0;
    for (; n > 0 && pos < text.size(); --n) {
        char32_t c = 0;
        pos += decode_code_point(text, pos, c);
    }
    return pos;
}

bool is_space(char32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_letter(char32_t c) {
    if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const utf8proc_category_t kind = category(c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t c) {
    return c < 0x80 ? c >= '0' && c <= '9' : category(c) == UTF8PROC_CATEGORY_ND;
}

bool is_upper(char32_t c) {
    return c < 0x80 ? c >= 'A' && c <= 'Z' : category(c) == UTF8PROC_CATEGORY_LU;
}

bool is_lower(char32_t c) {
    return c < 0x80 ? c >= 'a' && c <= 'z'
                    : category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

bool is_word(char32_t c) {
    if (c == '_' || is_letter(c) || is_digit(c)) return true;
    const utf8proc_category_t kind = category(c);
    return kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_printable(char32_t c) {
    if (c < 0x80) return c >= 0x20 && c < 0x7F;
    switch (category(c)) {
        case UTF8PROC_CATEGORY_CN:
        case UTF8PROC_CATEGORY_CC:
        case UTF8PROC_CATEGORY_CF:
        case UTF8PROC_CATEGORY_CS:
        case UTF8PROC_CATEGORY_CO:
        case UTF8PROC_CATEGORY_ZS:
        case UTF8PROC_CATEGORY_ZL:
        case UTF8PROC_CATEGORY_ZP:
            return false;
        default:
            return true;
    }
}

std::string to_upper(std::string_view text) {
    return map_text(text, [](std::string& out, char32_t c, bool valid) {
        if (valid) append_upper(out, c);
    });
}

std::string to_lower(std::string_view text) {
    return map_text(text, [](std::string& out, char32_t c, bool valid) {
        if (valid) append_lower(out, c);
    });
}

std::string capitalize(std::string_view text) {
    bool first = true;
    return map_text(text, [&first](std::string& out, char32_t c, bool valid) {
        if (valid && first) append_title(out, c);
        if (valid && !first) append_lower(out, c);
        first = false;
    });
}

std::string title_case(std::string_view text) {
    bool after_cased = false;
    return map_text(text, [&after_cased](std::string& out, char32_t c, bool valid) {
        if (valid && after_cased) append_lower(out, c);
        if (valid && !after_cased) append_title(out, c);
        after_cased = valid && is_cased(c);
    });
}

std::string swap_case(std::string_view text) {
    return map_text(text, [](std::string& out, char32_t c, bool valid) {
        if (!valid) return;
        if (is_upper(c)) {
            append_lower(out, c);
        } else {
            is_lower(c) ? append_upper(out, c) : append_utf8(out, c);
        }
    });
}

std::size_t skip_space_left(std::string_view text) {
    std::size_t pos = 0;
    while (pos < text.size()) {
        char32_t c = 0;
        const std::size_t length = decode_code_point(text, pos, c);
        if (!is_space(c)) break;
        pos += length;
    }
    return pos;
}

std::size_t skip_space_right(std::string_view text) {
    std::size_t end = text.size();
    while (end > 0) {
        char32_t c = 0;
        const std::size_t length = previous_length(text, end);
        decode_code_point(text, end - length, c);
        if (!is_space(c)) break;
        end -= length;
    }
    return end;
}

}  // namespace taproot::jinja
