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
    // Reads a whole number of KiB, 64-byte aligned, from the first byte to the last.
    float (*read)(const std::byte* data, std::size_t bytes);
    // Reads kReadStreams parts of it side by side, fetching each 1 KiB ahead: more requests under
    // way than one stream keeps up, since prefetchers stop at every page. A multiple of 32 KiB.
    float (*read_streams)(const std::byte* data, std::size_t bytes);
    // Multiply-adds of bfloat16 into float32 sums; null where the instruction set has none (and
    // the CPU may still lack what this one needs: cpu_features().avx512_bf16).
    float (*bf16)(std::int64_t rounds) = nullptr;
    std::int64_t bf16_ops = 0;
};

inline constexpr int kReadStreams = 16;

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
