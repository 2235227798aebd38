// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace taproot::config {

// Numbers as people write them in a configuration. Each is empty when `text` has another form or
// the value does not fit 64 bits; signs, exponents and digit separators are other forms.

// "4096"
std::optional<std::uint64_t> parse_count(std::string_view text);

// Bytes: "4096", "512MiB", "4 GiB", "1.5GiB", "10MB" (10^6). Units: B, KiB, MiB, GiB, TiB, kB/KB,
// MB, GB, TB, in any case. A fraction must come to whole bytes.
std::optional<std::uint64_t> parse_size(std::string_view text);

// Milliseconds: "250", "50ms", "1.5s", "30 s", "5min" or "5m", "1h", "7d".
std::optional<std::uint64_t> parse_time_ms(std::string_view text);

// The shortest exact form that the parsers above read back: "512MiB", "1536KiB", "1000".
std::string format_size(std::uint64_t bytes);
std::string format_time_ms(std::uint64_t ms);

}  // namespace taproot::config
