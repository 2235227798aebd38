// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/jinja/text.h"
#include "text/jinja/value.h"

// Python's string operations over Text: every byte keeps its origin. Shared by methods and filters.
namespace taproot::jinja {

enum class Side : std::uint8_t { kLeft, kRight, kBoth };

// `chars` empty-optional (nullptr): white space; else any of those characters.
Text strip(const Text& text, Side side, const Text* chars);
// count < 0: all.
Text replace(const Text& text, std::string_view old_part, const Text& new_part, std::int64_t count);
// Pieces between `separator` (not empty), at most max_splits cuts (< 0: all), from the left or
// right.
std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t max_splits);
std::vector<Text> split_right(const Text& text, std::string_view separator,
                              std::int64_t max_splits);
// Words between runs of white space.
std::vector<Text> split_space(const Text& text, std::int64_t max_splits);
std::vector<Text> split_space_right(const Text& text, std::int64_t max_splits);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
Text join(const Text& separator, const std::vector<Value>& items);
std::int64_t count_occurrences(std::string_view text, std::string_view part);

// A result whose bytes were made anew (upper, title): the user's if any of the source was.
Value blended(const Text& source, std::string bytes);
Value string_list(std::vector<Text> pieces, SequenceKind kind = SequenceKind::kList);

}  // namespace taproot::jinja
