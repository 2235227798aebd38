// SPDX-License-Identifier: Apache-2.0
#pragma once

// For kernels whose accumulators must live in registers: a loop whose index is a constant.
#define TAPROOT_INLINE inline __attribute__((always_inline))
// After the parameter list of a lambda that must dissolve into its caller.
#define TAPROOT_INLINE_LAMBDA __attribute__((always_inline))

namespace taproot {

template <int I>
struct Index {
    static constexpr int value = I;
};

// Calls body(Index<0>{}), body(Index<1>{}), ... body(Index<kCount - 1>{}).
template <int kCount, int kFrom = 0, typename Body>
TAPROOT_INLINE void unroll(Body&& body) {
    if constexpr (kFrom < kCount) {
        body(Index<kFrom>{});
        unroll<kCount, kFrom + 1>(body);
    }
}

}  // namespace taproot
