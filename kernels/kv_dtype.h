// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace taproot {

// How cached keys and values are stored. F16 unless configured; the numbers are part of
// CpuExecutor::kv_layout_digest(). kInt8: one float32 scale for each token's vector of a head.
enum class KvDType : std::uint8_t { kF16 = 0, kF32 = 1, kBf16 = 2, kInt8 = 3 };

inline constexpr int kKvDTypes = 4;

// "f16", "f32", "bf16", "int8": the names of the configuration.
std::string_view to_string(KvDType dtype);
std::optional<KvDType> parse_kv_dtype(std::string_view name);

}  // namespace taproot
