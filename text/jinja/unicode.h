// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// Python's view of a string over UTF-8 bytes: lengths and positions are code points, white space
// and letters are Unicode's. A byte that is not valid UTF-8 counts as one code point of its own and
// is carried through unchanged. All functions are pure.
namespace taproot::jinja {

// Decodes the code point at `pos` (< text.size()); returns how many bytes it takes (1 to 4). An
// invalid byte gives kInvalidCodePoint and length 1.
inline constexpr char32_t kInvalidCodePoint = 0xFFFFFFFF;
std::size_t decode_code_point(std::string_view text, std::size_t pos, char32_t& code_point);

void append_utf8(std::string& out, char32_t code_point);

// Byte length of the code point that ends right before `pos` (> 0).
std::size_t previous_length(std::string_view text, std::size_t pos);

bool is_ascii(std::string_view text);
std::size_t count_code_points(std::string_view text);

// Byte offset of the n-th code point, or text.size() when there are fewer.
std::size_t byte_offset(std::string_view text, std::size_t n);

bool is_space(char32_t code_point);   // str.isspace of one character
bool is_letter(char32_t code_point);  // str.isalpha
bool is_digit(char32_t code_point);   // decimal digits (Nd)
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);
bool is_word(char32_t code_point);       // \w: letters, digits, marks' bases and underscore
bool is_printable(char32_t code_point);  // str.isprintable of one character: what repr keeps

std::string to_upper(std::string_view text);
std::string to_lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title_case(std::string_view text);  // str.title()
std::string swap_case(std::string_view text);

// Offsets of the text without white space on the left / right side.
std::size_t skip_space_left(std::string_view text);
std::size_t skip_space_right(std::string_view text);

}  // namespace taproot::jinja
