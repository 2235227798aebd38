// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "kernels/attention_append.h"
#include "kernels/attention_ops.h"
#include "kernels/avx512/attention_few.h"
#include "kernels/avx512/attention_rows.h"
#include "kernels/avx512/attention_softmax.h"
#include "kernels/avx512/attention_vectors.h"

// Two ways through a tile, with the same order of operations for every value: few rows
// (attention_few.h), and many rows, here: K and V go to float32 scratch once, then blocks of 6 rows
// x 64 tokens and 6 rows x 64 dims run from the caches. Roof: 2 fma of 16 lanes per cycle.
namespace taproot::avx512 {
namespace {

constexpr int kRowsFew = 12;   // up to here, converting twice beats a detour through scratch
constexpr int kRowsMany = 96;  // rows that share one conversion of the tile
constexpr int kQuadTokens = 64;

// s[r][16g + lane] = fma chain over d ascending of q[r][d] * keys[d][16g + lane].
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

// out[r][d] = fma chain over tokens ascending of p[r][t] * v[t][d].
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

// K of four groups (or fewer) to [head_dim][64 tokens].
template <KvDType kType>
void convert_keys(const std::byte* const* planes, int groups, int dims, float* keys) {
    for (int g = 0; g < groups; ++g) {
        for (int d = 0; d < dims; ++d) {
            _mm512_store_ps(keys + d * kQuadTokens + g * 16, load<kType>(planes[g], d * 16L));
        }
    }
}

// V of four groups (or fewer) to [64 tokens][head_dim].
template <KvDType kType>
void convert_values(const std::byte* const* planes, int groups, int dims, float* values) {
    for (int g = 0; g < groups; ++g) {
        for (int i = 0; i < dims; ++i, values += 16) {
            _mm512_store_ps(values, load<kType>(planes[g], i * 16L));
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
template <KvDType kType>
void tile_many(const AttentionTile& tile, int begin, int end) {
    int highest = 0;
    for (int r = begin; r < end; ++r) highest = max(highest, tile.limits[r]);
    const int groups = (highest + 15) / 16;
    float* s = tile.scratch;
    float* quad_floats = s + kRowsMany * kTileTokens;
    const long scale_bytes = kType == KvDType::kInt8 ? 64 : 0;
    const long plane_bytes = 16L * tile.head_dim * kElementBytes<kType> + scale_bytes;
    const bool two = groups > 4;
    for (int quad = 0; quad * 4 < groups; ++quad) {
        const int count = min(groups - quad * 4, 4);
        convert_keys<kType>(tile.k + quad * 4, count, tile.head_dim, quad_floats);
        const Upcoming upcoming = quad == 0 && two ? Upcoming{tile.k + 4, groups - 4, plane_bytes}
                                                   : Upcoming{tile.v, min(groups, 4), plane_bytes};
        quad_scores(tile, begin, end, quad, quad_floats, s, upcoming);
    }
    softmax_rows<kType == KvDType::kInt8>(tile, begin, end, s);
    for (int quad = 0; quad * 4 < groups; ++quad) {
        const int count = min(groups - quad * 4, 4);
        convert_values<kType>(tile.v + quad * 4, count, tile.head_dim, quad_floats);
        const Upcoming upcoming =
            quad == 0 && two ? Upcoming{tile.v + 4, groups - 4, plane_bytes}
                             : Upcoming{tile.next_k, min(tile.next_groups, 4), plane_bytes};
        quad_values(tile, begin, end, quad, quad_floats, s, upcoming);
    }
}

template <KvDType kType>
void tile_as(const AttentionTile& tile) {
    if (tile.rows <= kRowsFew) return tile_few<kType>(tile);
    for (int begin = 0; begin < tile.rows; begin += kRowsMany) {
        tile_many<kType>(tile, begin, min(begin + kRowsMany, tile.rows));
    }
}

void tile(const AttentionTile& tile) {
    switch (tile.dtype) {
        case KvDType::kF16:
            return tile_as<KvDType::kF16>(tile);
        case KvDType::kF32:
            return tile_as<KvDType::kF32>(tile);
        case KvDType::kBf16:
            return tile_as<KvDType::kBf16>(tile);
        case KvDType::kInt8:
            return tile_as<KvDType::kInt8>(tile);
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
    static constexpr AttentionOps kOps = {append_rows<Vectors>, tile, merge, finish};
    return kOps;
}

}  // namespace taproot::avx512
