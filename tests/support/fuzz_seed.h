// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>

namespace taproot::testing {

// The seed of a model test: TAPROOT_FUZZ_SEED replays a failure, TAPROOT_FUZZ_ROUNDS (a factor)
// runs longer.
inline std::uint64_t fuzz_seed(std::uint64_t fallback = 1) {
    const char* text = std::getenv("TAPROOT_FUZZ_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 0) : fallback;
}

inline int fuzz_rounds(int rounds) {
    const char* text = std::getenv("TAPROOT_FUZZ_ROUNDS");
    return text != nullptr ? rounds * std::atoi(text) : rounds;
}

}  // namespace taproot::testing
