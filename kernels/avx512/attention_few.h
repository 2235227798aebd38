// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/attention_ops.h"
#include "kernels/avx512/attention_rows.h"
#include "kernels/avx512/attention_softmax.h"
#include "kernels/avx512/attention_vectors.h"

// A tile with few rows (decode): K and V are converted as they stream in; all 8 groups of 16 tokens
// and up to 3 rows at once fill the registers. Roof: memory, or the two slots that converting a
// vector takes (f16, 3 rows: about 13 bytes per cycle; int8 half of that, for as many values).
// Only for attention.cc of this folder.
namespace taproot::avx512 {
namespace {

template <KvDType kType>
constexpr int kLinesApart = static_cast<int>(4 / kElementBytes<kType>);  // vectors per cache line

// ---- scores: s[r][16g + lane] = fma chain over d ascending of q[r][d] * k[g][d][lane] ----

template <KvDType kType, int kR, int kG>
inline void scores_direct(const AttentionTile& tile, int first, int group, float* s) {
    __m512 sum[kR][kG];
    for (int r = 0; r < kR; ++r) {
        for (int g = 0; g < kG; ++g) sum[r][g] = _mm512_setzero_ps();
    }
    const int dims = tile.head_dim;
    const std::byte* planes[kG];
    const std::byte* soon[kG];  // V has K's size: its lines are fetched at K's pace
    for (int g = 0; g < kG; ++g) {
        planes[g] = tile.k[group + g];
        soon[g] = tile.v[group + g];
    }
    const float* rows = tile.q + first * static_cast<long>(dims);
    for (int d = 0; d < dims; ++d) {
        __m512 q[kR];
        for (int r = 0; r < kR; ++r) q[r] = _mm512_set1_ps(rows[r * static_cast<long>(dims) + d]);
        for (int g = 0; g < kG; ++g) {
            if (d % kLinesApart<kType> == 0) prefetch(soon[g] + d * 16L * kElementBytes<kType>);
            const __m512 k = load<kType>(planes[g], d * 16L);
            for (int r = 0; r < kR; ++r) sum[r][g] = _mm512_fmadd_ps(q[r], k, sum[r][g]);
        }
    }
    if constexpr (kType == KvDType::kInt8) {
        for (int g = 0; g < kG; ++g) prefetch(soon[g] + dims * 16L);  // scales
    }
    for (int r = 0; r < kR; ++r) {
        for (int g = 0; g < kG; ++g) {
            _mm512_store_ps(s + r * kTileTokens + (group + g) * 16, sum[r][g]);
        }
    }
}

// ---- values: out[r][d] = fma chain over tokens ascending of p[r][t] * v[t][d] ----

// Tokens [begin, end) of vectors [first, first + kN) of a row block. Starts from zero when begin is
// 0, else goes on from out.
template <KvDType kType, int kR, int kN>
inline void values_direct(const AttentionTile& tile, const float* p, int begin, int end, int first,
                          float* out) {
    constexpr long kBytes = kElementBytes<kType>;
    const int dims = tile.head_dim;
    __m512 sum[kR][kN];
    for (int r = 0; r < kR; ++r) {
        for (int n = 0; n < kN; ++n) {
            sum[r][n] = begin == 0
                            ? _mm512_setzero_ps()
                            : _mm512_loadu_ps(out + r * static_cast<long>(dims) + (first + n) * 16);
        }
    }
    for (int t = begin; t < end;) {
        const int group = t / 16;
        const long at = kBytes * ((t % 16) * static_cast<long>(dims) + first * 16);
        const std::byte* row = tile.v[group] + at;
        if (kType == KvDType::kInt8 && group < tile.next_groups) {
            prefetch(tile.next_k[group] + dims * 16L);  // scales
        }
        for (const int stop = min(end, (group + 1) * 16); t < stop; ++t) {
            __m512 weights[kR];
            for (int r = 0; r < kR; ++r) weights[r] = _mm512_set1_ps(p[r * kTileTokens + t]);
            // The next tile's keys are fetched at this one's pace, all groups side by side: as many
            // streams keep more of the memory busy.
            const int next = t % kTileGroups;
            const std::byte* soon =
                next < tile.next_groups
                    ? tile.next_k[next] +
                          kBytes * (t / kTileGroups * static_cast<long>(dims) + first * 16)
                    : row;
            for (int n = 0; n < kN; ++n) {
                if (n % kLinesApart<kType> == 0) prefetch(soon + n * 16 * kBytes);
                const __m512 v = load<kType>(row, n * 16);
                for (int r = 0; r < kR; ++r) sum[r][n] = _mm512_fmadd_ps(weights[r], v, sum[r][n]);
            }
            row += kBytes * dims;
        }
    }
    for (int r = 0; r < kR; ++r) {
        for (int n = 0; n < kN; ++n) {
            _mm512_storeu_ps(out + r * static_cast<long>(dims) + (first + n) * 16, sum[r][n]);
        }
    }
}

template <KvDType kType, int kR>
void scores_few(const AttentionTile& tile, int first, int groups, float* s) {
    int g = 0;
    if constexpr (kR <= 3) {
        for (; g + 8 <= groups; g += 8) scores_direct<kType, kR, 8>(tile, first, g, s);
    }
    for (; g + 4 <= groups; g += 4) scores_direct<kType, kR, 4>(tile, first, g, s);
    for (; g + 2 <= groups; g += 2) scores_direct<kType, kR, 2>(tile, first, g, s);
    for (; g < groups; ++g) scores_direct<kType, kR, 1>(tile, first, g, s);
}

template <KvDType kType, int kR>
void values_few(const AttentionTile& tile, const float* p, int begin, int end, float* out) {
    const int vectors = tile.head_dim / 16;
    int n = 0;
    if constexpr (kR <= 3) {
        for (; n + 8 <= vectors; n += 8) values_direct<kType, kR, 8>(tile, p, begin, end, n, out);
    }
    for (; n + 4 <= vectors; n += 4) values_direct<kType, kR, 4>(tile, p, begin, end, n, out);
    for (; n < vectors; ++n) values_direct<kType, kR, 1>(tile, p, begin, end, n, out);
}

template <KvDType kType, int kR>
void block_few(const AttentionTile& tile, const RowBlock& block) {
    float* s = tile.scratch;
    float* out = tile.out + block.first * static_cast<long>(tile.head_dim);
    scores_few<kType, kR>(tile, block.first, (block.highest + 15) / 16, s);
    softmax_rows<kType == KvDType::kInt8>(tile, block.first, block.first + kR, s);
    // Tokens that all rows see, then what each sees beyond.
    if (block.lowest > 0) values_few<kType, kR>(tile, s, 0, block.lowest, out);
    for (int r = 0; r < kR; ++r) {
        const int limit = tile.limits[block.first + r];
        if (limit <= block.lowest) continue;
        values_few<kType, 1>(tile, s + r * kTileTokens, block.lowest, limit,
                             out + r * static_cast<long>(tile.head_dim));
    }
}

using BlockFew = void (*)(const AttentionTile&, const RowBlock&);
template <KvDType kType>
constexpr BlockFew kBlockFew[kRows] = {block_few<kType, 1>, block_few<kType, 2>,
                                       block_few<kType, 3>, block_few<kType, 4>,
                                       block_few<kType, 5>, block_few<kType, 6>};

// In equal blocks: 7 rows are 4 and 3, not 6 and 1.
template <KvDType kType>
void tile_few(const AttentionTile& tile) {
    const int blocks = (tile.rows + kRows - 1) / kRows;
    const int rows = (tile.rows + blocks - 1) / blocks;
    for (int first = 0; first < tile.rows; first += rows) {
        const RowBlock block = block_at(tile, first, min(first + rows, tile.rows));
        if (block.highest > 0) kBlockFew<kType>[block.count - 1](tile, block);
    }
}

}  // namespace
}  // namespace taproot::avx512
