// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace taproot {

// Bits of |x| decide what a block of activations is: as unsigned integers they order like the
// values, and infinities and NaNs come last, whatever the order of comparing.
inline constexpr std::uint32_t kAbsMask = 0x7fffffffu;
inline constexpr std::uint32_t kNotFiniteBits = 0x7f800000u;  // from here on: infinity, NaN
// 2^-110. Smaller blocks become zero: 127/amax must stay finite, and nothing that small matters.
inline constexpr std::uint32_t kTinyBits = (127u - 110u) << 23;

}  // namespace taproot
