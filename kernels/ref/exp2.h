// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/exp2_constants.h"

// The definition, to the bit, of the exponentials every instruction set uses.
namespace taproot::ref {

// 2^(n + f) for an integer n and |f| <= 1/2: polynomial, then n added to the exponent bits.
// REQUIRES: the result is a normal number.
inline float exp2_parts(float n, float f) {
    float p = std::fma(f, kExp2C6, kExp2C5);
    p = std::fma(f, p, kExp2C4);
    p = std::fma(f, p, kExp2C3);
    p = std::fma(f, p, kExp2C2);
    p = std::fma(f, p, kExp2C1);
    p = std::fma(f, p, 1.0f);
    auto shift = static_cast<std::uint32_t>(static_cast<std::int32_t>(n)) << 23;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) + shift);
}

// 2^x: below one unit in the last place off. x < -126 gives 0, x >= 128 infinity, NaN stays NaN.
inline float exp2(float x) {
    if (x != x) return x + x;
    if (x < kExp2Underflow) return 0.0f;
    if (x >= kExp2Overflow) return std::numeric_limits<float>::infinity();
    float n = std::nearbyint(x);  // ties to even
    return exp2_parts(n, x - n);
}

// e^x, with log2(e) in two parts so that the error does not grow with |x|.
inline float exp(float x) {
    if (x != x) return x + x;
    float t = x * kLog2E;
    if (t < kExp2Underflow) return 0.0f;
    if (t >= kExp2Overflow) return std::numeric_limits<float>::infinity();
    float n = std::nearbyint(t);
    float f = std::fma(x, kLog2E, -n);
    return exp2_parts(n, std::fma(x, kLog2ELow, f));
}

}  // namespace taproot::ref
