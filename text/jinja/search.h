// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace taproot::jinja {

// Position of the first / last `needle` at or after `from`, or npos. Linear: what users send cannot
// make them slow (each match of find_last costs the needle's length again, and spends it).
std::size_t find_bytes(std::string_view text, std::string_view needle, std::size_t from);
std::size_t find_last_bytes(std::string_view text, std::string_view needle);

}  // namespace taproot::jinja
