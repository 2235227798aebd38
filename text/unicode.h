// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace taproot {

// One character of UTF-8 text. `bytes` is 1..4, or 0 when the bytes are no valid character
// (overlong forms, surrogates and values above U+10FFFF included).
struct DecodedChar {
    char32_t code_point = 0;
    std::uint32_t bytes = 0;
};

// Decodes the character at text[pos]; pos < end <= text.size(). Never reads at or past `end`.
DecodedChar decode_utf8(const unsigned char* text, std::size_t pos, std::size_t end);

// Appends the UTF-8 form of `code_point` (which must be a scalar value) to `out`.
void append_utf8(char32_t code_point, std::string* out);

bool is_valid_utf8(std::string_view text);

// What the split patterns of tokenizers ask about a character, as bits. kAny is set for every
// character, so that "end of text" (no bits) never equals a character of no class.
enum CharBits : std::uint16_t {
    kLetter = 1 << 0,               // \p{L}
    kNumber = 1 << 1,               // \p{N}
    kSpace = 1 << 2,                // \s: the White_Space property
    kNewline = 1 << 3,              // [\r\n]
    kMark = 1 << 4,                 // \p{M}
    kPunctuation = 1 << 5,          // \p{P}
    kSymbol = 1 << 6,               // \p{S}
    kUpperLike = 1 << 7,            // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
    kLowerLike = 1 << 8,            // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
    kHanKana = 1 << 9,              // [U+4E00-U+9FA5 U+3040-U+30FF], as DeepSeek's pattern has it
    kDefaultPunctuation = 1 << 10,  // [\p{P}\$\+<=>\^~\|]
    kAsciiLetter = 1 << 11,         // [A-Za-z]
    kAsciiDigit = 1 << 12,          // [0-9]
    kAny = 1 << 15,
};

// Classes of all code points: a two-stage table made once per process from utf8proc's categories
// (Unicode 15.0 in Debian 12). Immutable after construction, so any thread may read it.
// Cost of a lookup: one load for ASCII, two for the rest. About 40 KiB.
class CharTable {
public:
    static const CharTable& instance();

    [[nodiscard]] std::uint16_t ascii(unsigned char byte) const { return ascii_[byte]; }
    [[nodiscard]] std::uint16_t of(char32_t code_point) const {
        return blocks_[(static_cast<std::size_t>(index_[code_point >> 8]) << 8) |
                       (code_point & 0xFF)];
    }

private:
    CharTable();

    std::array<std::uint16_t, 128> ascii_{};
    std::array<std::uint16_t, 0x1100> index_{};  // [code_point >> 8] -> block
    std::vector<std::uint16_t> blocks_;          // [block][256]
};

}  // namespace taproot
