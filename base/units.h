// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace taproot {

constexpr std::uint64_t operator""_KiB(unsigned long long n) {
    return n << 10;
}
constexpr std::uint64_t operator""_MiB(unsigned long long n) {
    return n << 20;
}
constexpr std::uint64_t operator""_GiB(unsigned long long n) {
    return n << 30;
}

template <std::integral T>
constexpr T div_ceil(T a, T b) {
    return static_cast<T>((a + b - 1) / b);
}

template <std::integral T>
constexpr T round_up(T a, T multiple) {
    return static_cast<T>(div_ceil(a, multiple) * multiple);
}

// Products and sums of sizes read from outside. Empty on overflow.
constexpr std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) {
    std::uint64_t out = 0;
    if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
    return out;
}
constexpr std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) {
    std::uint64_t out = 0;
    if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
    return out;
}

}  // namespace taproot
