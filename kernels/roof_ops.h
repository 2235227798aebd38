// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Straight-line loops that show what one core can do at most; see roofs.h and attention_ops.h for
// the rules of such files. Each returns a value that depends on all its work.
namespace taproot {

struct RoofOps {
    // Multiply-adds of 8-bit integers into 32-bit sums.
    float (*int8)(std::int64_t rounds);
    std::int64_t int8_ops;  // per round; one multiply-add counts as two
    // Fused multiply-adds of float32.
    float (*fp32)(std::int64_t rounds);
    std::int64_t fp32_ops;
    // Reads a whole number of KiB, 64-byte aligned.
    float (*read)(const std::byte* data, std::size_t bytes);
};

namespace ref {
const RoofOps& roof_ops();
}
namespace avx2 {
const RoofOps& roof_ops();
}
namespace avx512 {
const RoofOps& roof_ops();
}

}  // namespace taproot
