// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

namespace taproot {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that spreads every input bit.
constexpr std::uint64_t mix64(std::uint64_t x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

// A draw that depends only on its coordinates: the same (seed, stream, position) gives the same
// bits in any batch, after a preemption, on any worker. Used by the sampler.
constexpr std::uint64_t counter_random(std::uint64_t seed, std::uint64_t stream,
                                       std::uint64_t position) {
    return mix64(mix64(mix64(seed) ^ stream) ^ position);
}

// [0, 1) with 53 bits.
constexpr double to_unit_double(std::uint64_t bits) {
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

// A small sequential generator (SplitMix64) for tests, policies and simulations: seeded, copyable.
class Random {
public:
    explicit constexpr Random(std::uint64_t seed) : state_(seed) {}

    constexpr std::uint64_t next() {
        std::uint64_t out = mix64(state_);
        state_ += 0x9E3779B97F4A7C15ull;
        return out;
    }
    // Uniform in [0, n); n > 0. The bias of the multiply-shift method is below 2^-32 for n < 2^32.
    constexpr std::uint64_t below(std::uint64_t n) {
        return static_cast<std::uint64_t>((static_cast<unsigned __int128>(next()) * n) >> 64);
    }
    constexpr std::int64_t between(std::int64_t low, std::int64_t high) {
        return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
    }
    constexpr double unit() { return to_unit_double(next()); }
    constexpr bool chance(double p) { return unit() < p; }

private:
    std::uint64_t state_;
};

}  // namespace taproot
