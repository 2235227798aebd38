// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace taproot {

// exp and log that give the same bits on every machine: only IEEE additions, multiplications and
// divisions in a written order (the build sets -ffp-contract=off). The C library picks FMA variants
// by CPU, whose last bits differ, and a draw must not depend on the CPU. Vectorised copies of these
// functions give the same bits too, because each lane does the same operations.

// e^x for x <= 0, relative error below 1e-15; 0 below -708 (the smallest normal double).
// Method: x = k ln2 + r with |r| <= ln2/2, Taylor polynomial of degree 13 in r (truncation 4e-18).
inline double exact_exp(double x) {
    constexpr double kLog2E = 1.4426950408889634;
    constexpr double kLn2High = 0.693147180369123816490;  // 33 bits, so k * kLn2High is exact
    constexpr double kLn2Low = 1.90821492927058770002e-10;
    constexpr double kRound = 0x1.8p52;  // adding and subtracting it rounds to an integer

    double clamped = x < -708.0 ? -708.0 : x;
    double shifted = clamped * kLog2E + kRound;
    double k = shifted - kRound;
    double r = (clamped - k * kLn2High) - k * kLn2Low;

    double p = 1.0 / 6227020800.0;
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;

    // 2^k: the low bits of `shifted` hold k as an integer.
    std::uint64_t bits = std::bit_cast<std::uint64_t>(shifted);
    double scale = std::bit_cast<double>((bits + 1023) << 52);
    double result = p * scale;
    return x < -708.0 ? 0.0 : result;
}

// ln x for a normal x > 0, absolute error below 1e-15 near 1. Method: x = 2^e m with m in
// [sqrt(1/2), sqrt(2)), ln m = 2 artanh((m-1)/(m+1)) as a series.
inline double exact_log(double x) {
    constexpr double kLn2 = 0.69314718055994530942;
    std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
    int exponent = static_cast<int>(bits >> 52) - 1023;
    double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent += 1;
    }
    double s = (m - 1.0) / (m + 1.0);
    double s2 = s * s;
    double p = 1.0 / 25.0;
    for (int n = 23; n >= 1; n -= 2) p = p * s2 + 1.0 / static_cast<double>(n);
    return static_cast<double>(exponent) * kLn2 + 2.0 * s * p;
}

}  // namespace taproot
