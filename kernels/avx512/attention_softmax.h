// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/attention_ops.h"
#include "kernels/avx512/exp2.h"

// Softmax of rows within a tile. Only for attention.cc of this folder.
namespace taproot::avx512 {
namespace {

// kR rows of the tile from `first` on that reach into kG groups: their chains overlap, and scores
// stay in registers. Scores become weights in place: 2^(s - max), with kScaled (int8) of s times
// the key's scale, and then times the value's.
template <bool kScaled, int kR, int kG, bool kTail = true>
void softmax(const AttentionTile& tile, int first, float* s) {
    const int* limits = tile.limits + first;
    const long scales_at = 16L * tile.head_dim;
    const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
    __m512 v[kR][kG];
    __m512 shift[kR];
    __m512 sum[kR];
    __mmask16 tail[kR];  // tokens of the last group
    __m512 factor[kG];
    for (int g = 0; g < kG; ++g) {
        if constexpr (kScaled) factor[g] = _mm512_loadu_ps(tile.k[g] + scales_at);
    }
    for (int r = 0; r < kR; ++r) {
        const float* row = s + r * kTileTokens;
        tail[r] = kTail ? first_lanes(limits[r] - (kG - 1) * 16) : static_cast<__mmask16>(0xffff);
        v[r][kG - 1] = _mm512_mask_loadu_ps(lowest, tail[r], row + (kG - 1) * 16);
        if constexpr (kScaled) {
            v[r][kG - 1] = _mm512_mask_mul_ps(lowest, tail[r], v[r][kG - 1], factor[kG - 1]);
        }
        __m512 top = _mm512_max_ps(v[r][kG - 1], lowest);  // a NaN score is no maximum
        for (int g = 0; g < kG - 1; ++g) {
            v[r][g] = _mm512_load_ps(row + g * 16);
            if constexpr (kScaled) v[r][g] = _mm512_mul_ps(v[r][g], factor[g]);
            top = _mm512_max_ps(v[r][g], top);
        }
        tile.max[first + r] = max_lanes(top);
        shift[r] = _mm512_set1_ps(tile.max[first + r]);
        sum[r] = _mm512_setzero_ps();
    }
    for (int g = 0; g < kG; ++g) {
        if constexpr (kScaled) factor[g] = _mm512_loadu_ps(tile.v[g] + scales_at);
        for (int r = 0; r < kR; ++r) {
            __m512 p = exp2_not_positive(_mm512_sub_ps(v[r][g], shift[r]));
            if (kTail && g == kG - 1)
                p = _mm512_maskz_mov_ps(tail[r], p);  // -inf minus -inf is NaN
            sum[r] = _mm512_add_ps(sum[r], p);
            if constexpr (kScaled) p = _mm512_mul_ps(p, factor[g]);
            _mm512_store_ps(s + r * kTileTokens + g * 16, p);
        }
    }
    for (int r = 0; r < kR; ++r) tile.sum[first + r] = sum_lanes(sum[r]);
}

using Softmax = void (*)(const AttentionTile&, int, float*);
template <bool kS>
constexpr Softmax kSoftmax[2][kTileGroups] = {
    {softmax<kS, 1, 1>, softmax<kS, 1, 2>, softmax<kS, 1, 3>, softmax<kS, 1, 4>, softmax<kS, 1, 5>,
     softmax<kS, 1, 6>, softmax<kS, 1, 7>, softmax<kS, 1, 8>},
    {softmax<kS, 2, 1>, softmax<kS, 2, 2>, softmax<kS, 2, 3>, softmax<kS, 2, 4>, softmax<kS, 2, 5>,
     softmax<kS, 2, 6>, softmax<kS, 2, 7>, softmax<kS, 2, 8>}};

// Rows [begin, end) of the tile, whose scores begin at s.
template <bool kScaled>
void softmax_rows(const AttentionTile& tile, int begin, int end, float* s) {
    for (int r = begin; r < end;) {
        if (r + 1 < end && tile.limits[r] == kTileTokens && tile.limits[r + 1] == kTileTokens) {
            softmax<kScaled, 2, kTileGroups, false>(tile, r, s);
            r += 2;
            s += 2 * kTileTokens;
            continue;
        }
        const int groups = (tile.limits[r] + 15) / 16;
        const int rows = r + 1 < end && (tile.limits[r + 1] + 15) / 16 == groups ? 2 : 1;
        if (tile.limits[r] > 0) {
            kSoftmax<kScaled>[rows - 1][groups - 1](tile, r, s);
            r += rows;
            s += rows * kTileTokens;
        } else {
            ++r;
            s += kTileTokens;
        }
    }
}

}  // namespace
}  // namespace taproot::avx512
