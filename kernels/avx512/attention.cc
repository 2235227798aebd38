// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "kernels/attention_ops.h"
#include "kernels/avx512/attention_append.h"
#include "kernels/avx512/exp2.h"

// Two ways through a tile, with the same order of operations for every value:
//   few rows (decode)  K and V are converted from f16 as they stream in; all 8 groups of 16 tokens
//                      and up to 3 rows at once fill the registers. Roof: memory (or the two
//                      conversion slots per vector, at about 13 bytes per cycle for 3 rows).
//   many rows          K and V go to float32 scratch once, then blocks of 6 rows x 64 tokens and
//                      6 rows x 64 dims run from the caches. Roof: 2 fma of 16 lanes per cycle.
namespace taproot::avx512 {
namespace {

constexpr int kRows = 6;       // rows of a register block: 6 x 4 accumulators
constexpr int kRowsFew = 12;   // up to here, converting twice beats a detour through scratch
constexpr int kRowsMany = 96;  // rows that share one conversion of the tile
constexpr int kQuadTokens = 64;
constexpr long kHalfBytes = 2;

inline int min(int a, int b) {
    return a < b ? a : b;
}
inline int max(int a, int b) {
    return a > b ? a : b;
}

template <bool kF16>
inline __m512 load(const std::byte* plane, long index) {
    if constexpr (kF16) {
        return _mm512_cvtph_ps(
            _mm256_loadu_si256(reinterpret_cast<const __m256i*>(plane + 2 * index)));
    } else {
        return _mm512_loadu_ps(reinterpret_cast<const float*>(plane) + index);
    }
}

inline void prefetch(const std::byte* at) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
}

// ---- scores: s[r][16g + lane] = fma chain over d ascending of q[r][d] * k[g][d][lane] ----

template <int kR, int kG>
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
            if (d % 2 == 0) prefetch(soon[g] + d * 16L * kHalfBytes);
            const __m512 k = load<true>(planes[g], d * 16L);
            for (int r = 0; r < kR; ++r) sum[r][g] = _mm512_fmadd_ps(q[r], k, sum[r][g]);
        }
    }
    for (int r = 0; r < kR; ++r) {
        for (int g = 0; g < kG; ++g) {
            _mm512_store_ps(s + r * kTileTokens + (group + g) * 16, sum[r][g]);
        }
    }
}

// keys: [head_dim][64 tokens]
template <int kR, int kG>
inline void scores_scratch(const float* q, const float* keys, int dims, float* s) {
    __m512 sum[kR][kG];
    for (int r = 0; r < kR; ++r) {
        for (int g = 0; g < kG; ++g) sum[r][g] = _mm512_setzero_ps();
    }
    for (int d = 0; d < dims; ++d) {
        __m512 k[kG];
        for (int g = 0; g < kG; ++g) k[g] = _mm512_load_ps(keys + d * kQuadTokens + g * 16);
        for (int r = 0; r < kR; ++r) {
            const __m512 b = _mm512_set1_ps(q[r * static_cast<long>(dims) + d]);
            for (int g = 0; g < kG; ++g) sum[r][g] = _mm512_fmadd_ps(b, k[g], sum[r][g]);
        }
    }
    for (int r = 0; r < kR; ++r) {
        for (int g = 0; g < kG; ++g) _mm512_store_ps(s + r * kTileTokens + g * 16, sum[r][g]);
    }
}

// ---- values: out[r][d] = fma chain over tokens ascending of p[r][t] * v[t][d] ----

// Tokens [begin, end) of vectors [first, first + kN) of a row block. Starts from zero when begin is
// 0, else goes on from out.
template <int kR, int kN>
inline void values_direct(const AttentionTile& tile, const float* p, int begin, int end, int first,
                          float* out) {
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
        const long at = kHalfBytes * ((t % 16) * static_cast<long>(dims) + first * 16);
        const std::byte* row = tile.v[group] + at;
        // The next tile's keys are fetched at this one's pace.
        const std::byte* soon = group < tile.next_groups ? tile.next_k[group] + at : row;
        for (const int stop = min(end, (group + 1) * 16); t < stop; ++t) {
            __m512 weights[kR];
            for (int r = 0; r < kR; ++r) weights[r] = _mm512_set1_ps(p[r * kTileTokens + t]);
            for (int n = 0; n < kN; ++n) {
                if (n % 2 == 0) prefetch(soon + n * 16 * kHalfBytes);
                const __m512 v = load<true>(row, n * 16);
                for (int r = 0; r < kR; ++r) sum[r][n] = _mm512_fmadd_ps(weights[r], v, sum[r][n]);
            }
            row += kHalfBytes * dims;
            soon += kHalfBytes * dims;
        }
    }
    for (int r = 0; r < kR; ++r) {
        for (int n = 0; n < kN; ++n) {
            _mm512_storeu_ps(out + r * static_cast<long>(dims) + (first + n) * 16, sum[r][n]);
        }
    }
}

// values: [tokens][head_dim]; p: [kR][128]
template <int kR, int kN>
inline void values_scratch(const float* values, int dims, const float* p, int tokens, bool go_on,
                           int first, float* out) {
    __m512 sum[kR][kN];
    for (int r = 0; r < kR; ++r) {
        const float* from = out + r * static_cast<long>(dims) + first * 16;
        for (int n = 0; n < kN; ++n) {
            sum[r][n] = go_on ? _mm512_loadu_ps(from + n * 16) : _mm512_setzero_ps();
        }
    }
    const float* row = values + first * 16;
    for (int t = 0; t < tokens; ++t, row += dims) {
        __m512 v[kN];
        for (int n = 0; n < kN; ++n) v[n] = _mm512_load_ps(row + n * 16);
        for (int r = 0; r < kR; ++r) {
            const __m512 weight = _mm512_set1_ps(p[r * kTileTokens + t]);
            for (int n = 0; n < kN; ++n) sum[r][n] = _mm512_fmadd_ps(weight, v[n], sum[r][n]);
        }
    }
    for (int r = 0; r < kR; ++r) {
        float* to = out + r * static_cast<long>(dims) + first * 16;
        for (int n = 0; n < kN; ++n) _mm512_storeu_ps(to + n * 16, sum[r][n]);
    }
}

// ---- softmax of one row within the tile: s becomes 2^(s - max) in place ----

// kR rows that reach into kG groups: their chains overlap, and scores stay in registers.
template <int kR, int kG, bool kTail = true>
void softmax(float* s, const int* limits, float* row_max, float* row_sum) {
    const __m512 lowest = _mm512_set1_ps(-__builtin_inff());
    __m512 v[kR][kG];
    __m512 shift[kR];
    __m512 sum[kR];
    __mmask16 tail[kR];  // tokens of the last group
    for (int r = 0; r < kR; ++r) {
        const float* row = s + r * kTileTokens;
        tail[r] = kTail ? first_lanes(limits[r] - (kG - 1) * 16) : static_cast<__mmask16>(0xffff);
        v[r][kG - 1] = _mm512_mask_loadu_ps(lowest, tail[r], row + (kG - 1) * 16);
        __m512 top = _mm512_max_ps(v[r][kG - 1], lowest);  // a NaN score is no maximum
        for (int g = 0; g < kG - 1; ++g) {
            v[r][g] = _mm512_load_ps(row + g * 16);
            top = _mm512_max_ps(v[r][g], top);
        }
        row_max[r] = max_lanes(top);
        shift[r] = _mm512_set1_ps(row_max[r]);
        sum[r] = _mm512_setzero_ps();
    }
    for (int g = 0; g < kG; ++g) {
        for (int r = 0; r < kR; ++r) {
            __m512 p = exp2_not_positive(_mm512_sub_ps(v[r][g], shift[r]));
            if (kTail && g == kG - 1)
                p = _mm512_maskz_mov_ps(tail[r], p);  // -inf minus -inf is NaN
            sum[r] = _mm512_add_ps(sum[r], p);
            _mm512_store_ps(s + r * kTileTokens + g * 16, p);
        }
    }
    for (int r = 0; r < kR; ++r) row_sum[r] = sum_lanes(sum[r]);
}

using Softmax = void (*)(float*, const int*, float*, float*);
constexpr Softmax kSoftmax[2][kTileGroups] = {
    {softmax<1, 1>, softmax<1, 2>, softmax<1, 3>, softmax<1, 4>, softmax<1, 5>, softmax<1, 6>,
     softmax<1, 7>, softmax<1, 8>},
    {softmax<2, 1>, softmax<2, 2>, softmax<2, 3>, softmax<2, 4>, softmax<2, 5>, softmax<2, 6>,
     softmax<2, 7>, softmax<2, 8>}};

// Rows [begin, end) of the tile, whose scores begin at s.
void softmax_rows(const AttentionTile& tile, int begin, int end, float* s) {
    for (int r = begin; r < end;) {
        if (r + 1 < end && tile.limits[r] == kTileTokens && tile.limits[r + 1] == kTileTokens) {
            softmax<2, kTileGroups, false>(s, tile.limits + r, tile.max + r, tile.sum + r);
            r += 2;
            s += 2 * kTileTokens;
            continue;
        }
        const int groups = (tile.limits[r] + 15) / 16;
        const int rows = r + 1 < end && (tile.limits[r + 1] + 15) / 16 == groups ? 2 : 1;
        if (tile.limits[r] > 0) {
            kSoftmax[rows - 1][groups - 1](s, tile.limits + r, tile.max + r, tile.sum + r);
            r += rows;
            s += rows * kTileTokens;
        } else {
            ++r;
            s += kTileTokens;
        }
    }
}

// Up to kRows rows that are computed together.
struct RowBlock {
    int first;
    int count;
    int lowest;  // smallest and largest limit of its rows
    int highest;
};

RowBlock block_at(const AttentionTile& tile, int first, int end) {
    RowBlock block = {first, min(kRows, end - first), kTileTokens, 0};
    for (int r = first; r < first + block.count; ++r) {
        block.lowest = min(block.lowest, max(tile.limits[r], 0));
        block.highest = max(block.highest, tile.limits[r]);
    }
    return block;
}

// ---- few rows ----

template <int kR>
void scores_few(const AttentionTile& tile, int first, int groups, float* s) {
    int g = 0;
    if constexpr (kR <= 3) {
        for (; g + 8 <= groups; g += 8) scores_direct<kR, 8>(tile, first, g, s);
    }
    for (; g + 4 <= groups; g += 4) scores_direct<kR, 4>(tile, first, g, s);
    for (; g + 2 <= groups; g += 2) scores_direct<kR, 2>(tile, first, g, s);
    for (; g < groups; ++g) scores_direct<kR, 1>(tile, first, g, s);
}

template <int kR>
void values_few(const AttentionTile& tile, const float* p, int begin, int end, float* out) {
    const int vectors = tile.head_dim / 16;
    int n = 0;
    if constexpr (kR <= 3) {
        for (; n + 8 <= vectors; n += 8) values_direct<kR, 8>(tile, p, begin, end, n, out);
    }
    for (; n + 4 <= vectors; n += 4) values_direct<kR, 4>(tile, p, begin, end, n, out);
    for (; n < vectors; ++n) values_direct<kR, 1>(tile, p, begin, end, n, out);
}

template <int kR>
void block_few(const AttentionTile& tile, const RowBlock& block) {
    float* s = tile.scratch;
    float* out = tile.out + block.first * static_cast<long>(tile.head_dim);
    scores_few<kR>(tile, block.first, (block.highest + 15) / 16, s);
    softmax_rows(tile, block.first, block.first + kR, s);
    // Tokens that all rows see, then what each sees beyond.
    if (block.lowest > 0) values_few<kR>(tile, s, 0, block.lowest, out);
    for (int r = 0; r < kR; ++r) {
        const int limit = tile.limits[block.first + r];
        if (limit <= block.lowest) continue;
        values_few<1>(tile, s + r * kTileTokens, block.lowest, limit,
                      out + r * static_cast<long>(tile.head_dim));
    }
}

using BlockFew = void (*)(const AttentionTile&, const RowBlock&);
constexpr BlockFew kBlockFew[kRows] = {block_few<1>, block_few<2>, block_few<3>,
                                       block_few<4>, block_few<5>, block_few<6>};

// In equal blocks: 7 rows are 4 and 3, not 6 and 1. f16 only.
void tile_few(const AttentionTile& tile) {
    const int blocks = (tile.rows + kRows - 1) / kRows;
    const int rows = (tile.rows + blocks - 1) / blocks;
    for (int first = 0; first < tile.rows; first += rows) {
        const RowBlock block = block_at(tile, first, min(first + rows, tile.rows));
        if (block.highest > 0) kBlockFew[block.count - 1](tile, block);
    }
}

// ---- many rows ----

// K of four groups (or fewer) to [head_dim][64 tokens].
template <bool kF16>
void convert_keys(const std::byte* const* planes, int groups, int dims, float* keys) {
    for (int g = 0; g < groups; ++g) {
        for (int d = 0; d < dims; ++d) {
            _mm512_store_ps(keys + d * kQuadTokens + g * 16, load<kF16>(planes[g], d * 16L));
        }
    }
}

// V of four groups (or fewer) to [64 tokens][head_dim].
template <bool kF16>
void convert_values(const std::byte* const* planes, int groups, int dims, float* values) {
    for (int g = 0; g < groups; ++g) {
        for (int i = 0; i < dims; ++i, values += 16) {
            _mm512_store_ps(values, load<kF16>(planes[g], i * 16L));
        }
    }
}

template <int kR>
void scores_many(const float* q, const float* keys, int dims, int groups, float* s) {
    int g = 0;
    if (groups == 4) return scores_scratch<kR, 4>(q, keys, dims, s);
    if (groups >= 2) {
        scores_scratch<kR, 2>(q, keys, dims, s);
        g = 2;
    }
    if (g < groups) scores_scratch<kR, 1>(q, keys + g * 16, dims, s + g * 16);
}

template <int kR>
void values_many(const float* values, int dims, const float* p, int tokens, bool go_on,
                 float* out) {
    const int vectors = dims / 16;
    int n = 0;
    for (; n + 4 <= vectors; n += 4) values_scratch<kR, 4>(values, dims, p, tokens, go_on, n, out);
    for (; n + 2 <= vectors; n += 2) values_scratch<kR, 2>(values, dims, p, tokens, go_on, n, out);
    for (; n < vectors; ++n) values_scratch<kR, 1>(values, dims, p, tokens, go_on, n, out);
}

using ScoresMany = void (*)(const float*, const float*, int, int, float*);
constexpr ScoresMany kScoresMany[kRows] = {scores_many<1>, scores_many<2>, scores_many<3>,
                                           scores_many<4>, scores_many<5>, scores_many<6>};
using ValuesMany = void (*)(const float*, int, const float*, int, bool, float*);
constexpr ValuesMany kValuesMany[kRows] = {values_many<1>, values_many<2>, values_many<3>,
                                           values_many<4>, values_many<5>, values_many<6>};

// Planes that are converted next. Their lines are fetched in equal parts while rows are computed.
struct Upcoming {
    const std::byte* const* planes;
    int count;
    long bytes;  // of each plane

    void fetch_part(int part, int parts) const {
        if (count <= 0) return;
        const int lines = static_cast<int>(bytes / 64);
        const int stop = (part + 1) * lines / parts;
        for (int line = part * lines / parts; line < stop; ++line) {
            for (int i = 0; i < count; ++i) prefetch(planes[i] + line * 64L);
        }
    }
};

// Rows [begin, end) against four groups of keys.
void quad_scores(const AttentionTile& tile, int begin, int end, int quad, const float* keys,
                 float* s, const Upcoming& upcoming) {
    const int dims = tile.head_dim;
    for (int first = begin; first < end; first += kRows) {
        upcoming.fetch_part((first - begin) / kRows, (end - begin + kRows - 1) / kRows);
        const RowBlock block = block_at(tile, first, end);
        const int groups = min((block.highest + 15) / 16 - quad * 4, 4);
        if (groups <= 0) continue;
        kScoresMany[block.count - 1](tile.q + first * static_cast<long>(dims), keys, dims, groups,
                                     s + (first - begin) * kTileTokens + quad * kQuadTokens);
    }
}

// Rows [begin, end) against 64 tokens of values: those that all rows of a block see, then what
// each sees beyond.
void quad_values(const AttentionTile& tile, int begin, int end, int quad, const float* values,
                 const float* weights, const Upcoming& upcoming) {
    const int dims = tile.head_dim;
    const int start = quad * kQuadTokens;
    for (int first = begin; first < end; first += kRows) {
        upcoming.fetch_part((first - begin) / kRows, (end - begin + kRows - 1) / kRows);
        const RowBlock block = block_at(tile, first, end);
        const int common = max(0, min(block.lowest - start, kQuadTokens));
        const float* p = weights + (first - begin) * kTileTokens + start;
        float* out = tile.out + first * static_cast<long>(dims);
        if (common > 0) kValuesMany[block.count - 1](values, dims, p, common, quad > 0, out);
        for (int r = 0; r < block.count; ++r) {
            const int more = min(tile.limits[first + r] - start, kQuadTokens) - common;
            if (more <= 0) continue;
            values_many<1>(values + common * static_cast<long>(dims), dims,
                           p + r * kTileTokens + common, more, start + common > 0,
                           out + r * static_cast<long>(dims));
        }
    }
}

// Two quads of 64 tokens, one after the other through the same scratch: it stays in L1.
void tile_many(const AttentionTile& tile, int begin, int end) {
    int highest = 0;
    for (int r = begin; r < end; ++r) highest = max(highest, tile.limits[r]);
    const int groups = (highest + 15) / 16;
    float* s = tile.scratch;
    float* quad_floats = s + kRowsMany * kTileTokens;
    const long plane_bytes = 16L * tile.head_dim * (tile.f16 ? 2 : 4);
    const bool two = groups > 4;
    for (int quad = 0; quad * 4 < groups; ++quad) {
        const int count = min(groups - quad * 4, 4);
        tile.f16 ? convert_keys<true>(tile.k + quad * 4, count, tile.head_dim, quad_floats)
                 : convert_keys<false>(tile.k + quad * 4, count, tile.head_dim, quad_floats);
        const Upcoming upcoming = quad == 0 && two ? Upcoming{tile.k + 4, groups - 4, plane_bytes}
                                                   : Upcoming{tile.v, min(groups, 4), plane_bytes};
        quad_scores(tile, begin, end, quad, quad_floats, s, upcoming);
    }
    softmax_rows(tile, begin, end, s);
    for (int quad = 0; quad * 4 < groups; ++quad) {
        const int count = min(groups - quad * 4, 4);
        tile.f16 ? convert_values<true>(tile.v + quad * 4, count, tile.head_dim, quad_floats)
                 : convert_values<false>(tile.v + quad * 4, count, tile.head_dim, quad_floats);
        const Upcoming upcoming =
            quad == 0 && two ? Upcoming{tile.v + 4, groups - 4, plane_bytes}
                             : Upcoming{tile.next_k, min(tile.next_groups, 4), plane_bytes};
        quad_values(tile, begin, end, quad, quad_floats, s, upcoming);
    }
}

void tile(const AttentionTile& tile) {
    if (tile.f16 && tile.rows <= kRowsFew) return tile_few(tile);
    for (int begin = 0; begin < tile.rows; begin += kRowsMany) {
        tile_many(tile, begin, min(begin + kRowsMany, tile.rows));
    }
}

// ---- merging ----

void merge(int rows, int head_dim, const AttentionState& state, const AttentionState& next) {
    for (int r0 = 0; r0 < rows; r0 += 16) {
        const int count = min(16, rows - r0);
        const __mmask16 mask = first_lanes(count);
        const __m512 m1 = _mm512_maskz_loadu_ps(mask, state.max + r0);
        const __m512 m2 = _mm512_maskz_loadu_ps(mask, next.max + r0);
        const __m512 m = _mm512_max_ps(m2, m1);
        const __m512 a = exp2_not_positive(_mm512_sub_ps(m1, m));
        const __m512 b = exp2_not_positive(_mm512_sub_ps(m2, m));
        const __m512 l1 = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, state.sum + r0), a);
        const __m512 l2 = _mm512_maskz_loadu_ps(mask, next.sum + r0);
        _mm512_mask_storeu_ps(state.max + r0, mask, m);
        _mm512_mask_storeu_ps(state.sum + r0, mask, _mm512_fmadd_ps(l2, b, l1));
        alignas(64) float as[16];
        alignas(64) float bs[16];
        _mm512_store_ps(as, a);
        _mm512_store_ps(bs, b);
        for (int r = 0; r < count; ++r) {
            const __m512 ar = _mm512_set1_ps(as[r]);
            const __m512 br = _mm512_set1_ps(bs[r]);
            float* out = state.out + (r0 + r) * static_cast<long>(head_dim);
            const float* more = next.out + (r0 + r) * static_cast<long>(head_dim);
            for (int d = 0; d < head_dim; d += 16) {
                const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(out + d), ar);
                _mm512_storeu_ps(out + d, _mm512_fmadd_ps(_mm512_loadu_ps(more + d), br, scaled));
            }
        }
    }
}

void finish(int head_dim, const float* out, float sum, float* to) {
    const __m512 inverse = _mm512_set1_ps(1.0f / sum);
    for (int d = 0; d < head_dim; d += 16) {
        _mm512_storeu_ps(to + d, _mm512_mul_ps(_mm512_loadu_ps(out + d), inverse));
    }
}

}  // namespace

const AttentionOps& attention_ops() {
    static constexpr AttentionOps kOps = {append, tile, merge, finish};
    return kOps;
}

}  // namespace taproot::avx512
