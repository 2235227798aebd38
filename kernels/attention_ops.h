// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kv_dtype.h"

// What one instruction set provides for attention.cc. Plain data and function pointers only: the
// files that implement it are compiled with flags that must not leak into other code.
namespace taproot {

inline constexpr int kTileTokens = 128;  // = kAttentionTileTokens
inline constexpr int kTileGroups = 8;    // blocks of 16 tokens in a tile

// New tokens of one kv head that fall into one block.
struct KvBlockRows {
    std::byte* k_plane;  // [head_dim][16], then with int8 16 scales
    std::byte* v_plane;  // [16][head_dim], then with int8 16 scales
    const float* k;      // [count][stride], head_dim values of this head used
    const float* v;
    std::int64_t k_stride;
    std::int64_t v_stride;
    int slot;   // of the first token, 0..15
    int count;  // slot + count <= 16
    int head_dim;
    KvDType dtype;
};

// Query rows against one tile of one kv head. Row r sees the first limits[r] tokens of the tile;
// a row with limits[r] <= 0 is skipped, its results stay as they were. Tokens at or beyond a row's
// limit never influence it, whatever bits lie there.
struct AttentionTile {
    const std::byte* const* k;  // K planes of the blocks that the largest limit reaches
    const std::byte* const* v;
    const std::byte* const* next_k;  // K planes of the tile that comes next, to prefetch; or null
    int next_groups;
    int head_dim;  // a multiple of 16
    KvDType dtype;
    int rows;
    const float* q;     // [rows][head_dim], multiplied by scale * log2(e) already
    const int* limits;  // [rows], at most 128
    float* max;         // [rows] largest score
    float* sum;         // [rows] of 2^(score - max)
    float* out;         // [rows][head_dim] sum of 2^(score - max) * V, not yet divided by sum
    float* scratch;     // attention_scratch_floats(head_dim), 64-byte aligned
};

// A tile's results, or those of several tiles merged.
struct AttentionState {
    float* max;
    float* sum;
    float* out;  // [rows][head_dim]
};

struct AttentionOps {
    void (*append)(const KvBlockRows& rows);
    void (*tile)(const AttentionTile& tile);
    // state := state merged with the later tile `next`. Changes state only.
    void (*merge)(int rows, int head_dim, const AttentionState& state, const AttentionState& next);
    // to[d] = out[d] * (1 / sum)
    void (*finish)(int head_dim, const float* out, float sum, float* to);
};

// Room for K and V of a tile in float32, and for the scores of 96 rows.
constexpr std::int64_t attention_scratch_floats(int head_dim) {
    return 2 * std::int64_t{kTileTokens} * head_dim + 96 * std::int64_t{kTileTokens};
}

namespace ref {
const AttentionOps& attention_ops();
}
namespace avx2 {
const AttentionOps& attention_ops();
}
namespace avx512 {
const AttentionOps& attention_ops();
}

}  // namespace taproot
