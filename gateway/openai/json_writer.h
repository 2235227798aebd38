// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace taproot::gateway {

// Appends JSON to a reused string: responses are written once, left to right, without a tree.
// Cost: a copy; escapes only where needed.

// "text" with quotes. `text` must be valid UTF-8 (the detokenizer guarantees it).
void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, std::int64_t number);
// Shortest text that reads back as the same double; never NaN or Infinity (written as -9999.0).
void append_json_number(std::string& out, double number);

}  // namespace taproot::gateway
