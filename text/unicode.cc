// SPDX-License-Identifier: Apache-2.0
#include "text/unicode.h"

#include <utf8proc.h>

#include <map>

namespace taproot {
namespace {

bool in_range(char32_t c, char32_t low, char32_t high) {
    return c >= low && c <= high;
}

// The White_Space property of the Unicode character database. utf8proc's categories do not give it:
// it holds some controls and none of the format characters (U+200B is not a space).
bool is_space(char32_t c) {
    return in_range(c, 0x09, 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           in_range(c, 0x2000, 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

std::uint16_t category_bits(utf8proc_category_t category) {
    switch (category) {
        case UTF8PROC_CATEGORY_LU:
        case UTF8PROC_CATEGORY_LT:
            return kLetter | kUpperLike;
        case UTF8PROC_CATEGORY_LL:
            return kLetter | kLowerLike;
        case UTF8PROC_CATEGORY_LM:
        case UTF8PROC_CATEGORY_LO:
            return kLetter | kUpperLike | kLowerLike;
        case UTF8PROC_CATEGORY_MN:
        case UTF8PROC_CATEGORY_MC:
        case UTF8PROC_CATEGORY_ME:
            return kMark | kUpperLike | kLowerLike;
        case UTF8PROC_CATEGORY_ND:
        case UTF8PROC_CATEGORY_NL:
        case UTF8PROC_CATEGORY_NO:
            return kNumber;
        case UTF8PROC_CATEGORY_PC:
        case UTF8PROC_CATEGORY_PD:
        case UTF8PROC_CATEGORY_PS:
        case UTF8PROC_CATEGORY_PE:
        case UTF8PROC_CATEGORY_PI:
        case UTF8PROC_CATEGORY_PF:
        case UTF8PROC_CATEGORY_PO:
            return kPunctuation | kDefaultPunctuation;
        case UTF8PROC_CATEGORY_SM:
        case UTF8PROC_CATEGORY_SC:
        case UTF8PROC_CATEGORY_SK:
        case UTF8PROC_CATEGORY_SO:
            return kSymbol;
        default:
            return 0;
    }
}

std::uint16_t classify(char32_t c) {
    std::uint32_t bits = kAny | category_bits(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    if (is_space(c)) bits |= kSpace;
    if (c == '\r' || c == '\n') bits |= kNewline;
    if (in_range(c, 0x4E00, 0x9FA5) || in_range(c, 0x3040, 0x30FF)) bits |= kHanKana;
    if (c < 0x80 && c != 0 &&
        std::string_view("$+<=>^~|").find(static_cast<char>(c)) != std::string_view::npos)
        bits |= kDefaultPunctuation;
    if (in_range(c, 'A', 'Z') || in_range(c, 'a', 'z')) bits |= kAsciiLetter;
    if (in_range(c, '0', '9')) bits |= kAsciiDigit;
    return static_cast<std::uint16_t>(bits);
}

bool is_continuation(unsigned char byte) {
    return (byte & 0xC0) == 0x80;
}

}  // namespace

DecodedChar decode_utf8(const unsigned char* text, std::size_t pos, std::size_t end) {
    const unsigned char* p = text + pos;
    const std::size_t left = end - pos;
    const unsigned char lead = p[0];
    if (lead < 0x80) return {lead, 1};
    if (lead < 0xC2 || lead > 0xF4) return {};
    if (left < 2 || !is_continuation(p[1])) return {};
    if (lead < 0xE0) return {static_cast<char32_t>((lead & 0x1F) << 6 | (p[1] & 0x3F)), 2};
    if (left < 3 || !is_continuation(p[2])) return {};
    if (lead < 0xF0) {
        const auto c =
            static_cast<char32_t>((lead & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F));
        if (c < 0x800 || in_range(c, 0xD800, 0xDFFF)) return {};
        return {c, 3};
    }
    if (left < 4 || !is_continuation(p[3])) return {};
    const auto c = static_cast<char32_t>((lead & 0x07) << 18 | (p[1] & 0x3F) << 12 |
                                         (p[2] & 0x3F) << 6 | (p[3] & 0x3F));
    if (c < 0x10000 || c > 0x10FFFF) return {};
    return {c, 4};
}

void append_utf8(char32_t c, std::string* out) {
    const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xC0 | c >> 6);
        put(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        put(0xE0 | c >> 12);
        put(0x80 | (c >> 6 & 0x3F));
        put(0x80 | (c & 0x3F));
    } else {
        put(0xF0 | c >> 18);
        put(0x80 | (c >> 12 & 0x3F));
        put(0x80 | (c >> 6 & 0x3F));
        put(0x80 | (c & 0x3F));
    }
}

bool is_valid_utf8(std::string_view text) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    for (std::size_t pos = 0; pos < text.size();) {
        const DecodedChar c = decode_utf8(bytes, pos, text.size());
        if (c.bytes == 0) return false;
        pos += c.bytes;
    }
    return true;
}

const CharTable& CharTable::instance() {
    static const CharTable table;
    return table;
}

CharTable::CharTable() {
    std::map<std::vector<std::uint16_t>, std::uint16_t> known;
    std::vector<std::uint16_t> block(256);
    for (std::uint32_t high = 0; high < index_.size(); ++high) {
        for (std::uint32_t low = 0; low < 256; ++low) block[low] = classify(high << 8 | low);
        const auto next = static_cast<std::uint16_t>(known.size());
        const auto [found, is_new] = known.emplace(block, next);
        if (is_new) blocks_.insert(blocks_.end(), block.begin(), block.end());
        index_[high] = found->second;
    }
    for (std::uint32_t c = 0; c < ascii_.size(); ++c) ascii_[c] = of(c);
}

}  // namespace taproot
