// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace taproot {

// Scalar conversions between storage bits and float32. To float32 is exact for every value (NaN
// stays NaN). No arithmetic, so that they do not depend on rounding or denormal modes.
constexpr float half_to_float(std::uint16_t bits) {
    std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    std::uint32_t exponent = (bits >> 10) & 0x1fu;
    std::uint32_t mantissa = bits & 0x3ffu;
    if (exponent == 0x1f) {
        // A signalling NaN becomes quiet, as the hardware conversion does.
        std::uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
        return std::bit_cast<float>(sign | 0x7f800000u | quiet | (mantissa << 13));
    }
    if (exponent == 0) {
        if (mantissa == 0) return std::bit_cast<float>(sign);
        int shift = std::countl_zero(mantissa) - 21;  // brings the leading one to bit 10
        mantissa = (mantissa << shift) & 0x3ffu;
        return std::bit_cast<float>(sign | static_cast<std::uint32_t>(113 - shift) << 23 |
                                    (mantissa << 13));
    }
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | (mantissa << 13));
}

constexpr float bfloat16_to_float(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace taproot
