// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/attention_ops.h"

// Rows of a tile in blocks that fill the registers. Only for attention.cc of this folder.
namespace taproot::avx512 {
namespace {

constexpr int kRows = 6;  // rows of a register block: 6 x 4 accumulators

inline int min(int a, int b) {
    return a < b ? a : b;
}
inline int max(int a, int b) {
    return a > b ? a : b;
}

inline void prefetch(const std::byte* at) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

// Up to kRows rows that are computed together.
struct RowBlock {
    int first;
    int count;
    int lowest;  // smallest and largest limit of its rows
    int highest;
};

inline RowBlock block_at(const AttentionTile& tile, int first, int end) {
    RowBlock block = {first, min(kRows, end - first), kTileTokens, 0};
    for (int r = first; r < first + block.count; ++r) {
        block.lowest = min(block.lowest, max(tile.limits[r], 0));
        block.highest = max(block.highest, tile.limits[r]);
    }
    return block;
}

}  // namespace
}  // namespace taproot::avx512
