// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "kernels/attention_append.h"
#include "kernels/attention_ops.h"
#include "kernels/avx2/attention_vectors.h"
#include "kernels/avx2/exp2.h"

// As avx512/attention.cc, with 16 registers of 8 lanes: blocks of 6 rows x 16 tokens (or 16 dims)
// over float32 scratch for many rows; for few rows K and V are converted as they stream in, with
// as many groups at once as the accumulators allow. Roof: 2 fma of 8 lanes per cycle.
namespace taproot::avx2 {
namespace {

constexpr int kRows = 6;
constexpr int kRowsInL1 = 24;  // rows that go through scores, softmax and values together

inline int min(int a, int b) {
    return a < b ? a : b;
}
inline int max(int a, int b) {
    return a > b ? a : b;
}

// s[r][16g + lane] = fma chain over d ascending of q[r][d] * k[g][d][lane], for kG groups whose
// planes ([head_dim][16]) are given.
template <int kR, int kG, KvDType kType>
inline void scores(const float* q, const std::byte* const* planes, int dims, float* s) {
    __m256 sum[kR][2 * kG];
    for (int r = 0; r < kR; ++r) {
        for (int g = 0; g < 2 * kG; ++g) sum[r][g] = _mm256_setzero_ps();
    }
    for (int d = 0; d < dims; ++d) {
        for (int g = 0; g < kG; ++g) {
            const __m256 low = load<kType>(planes[g], d * 16L);
            const __m256 high = load<kType>(planes[g], d * 16L + 8);
            for (int r = 0; r < kR; ++r) {
                const __m256 b = _mm256_broadcast_ss(q + r * static_cast<long>(dims) + d);
                sum[r][2 * g] = _mm256_fmadd_ps(b, low, sum[r][2 * g]);
                sum[r][2 * g + 1] = _mm256_fmadd_ps(b, high, sum[r][2 * g + 1]);
            }
        }
    }
    for (int r = 0; r < kR; ++r) {
        for (int g = 0; g < 2 * kG; ++g) {
            _mm256_storeu_ps(s + r * kTileTokens + g * 8, sum[r][g]);
        }
    }
}

// out[r][8(first + n) + lane] = fma chain over tokens ascending of p[r][t] * v[t][d], for tokens
// [begin, end) and kN vectors. Starts from zero when begin is 0, else goes on from out. Token t's
// row begins at element (t % 16) * dims of plane t / 16.
template <int kR, int kN, KvDType kType>
inline void values(const std::byte* const* planes, int dims, const float* p, int begin, int end,
                   int first, float* out) {
    __m256 sum[kR][kN];
    for (int r = 0; r < kR; ++r) {
        const float* from = out + r * static_cast<long>(dims) + first * 8;
        for (int n = 0; n < kN; ++n) {
            sum[r][n] = begin == 0 ? _mm256_setzero_ps() : _mm256_loadu_ps(from + n * 8);
        }
    }
    constexpr long kBytes = kElementBytes<kType>;
    for (int t = begin; t < end;) {
        const std::byte* row =
            planes[t / 16] + kBytes * ((t % 16) * static_cast<long>(dims) + first * 8);
        for (const int stop = min(end, (t / 16 + 1) * 16); t < stop; ++t, row += kBytes * dims) {
            __m256 v[kN];
            for (int n = 0; n < kN; ++n) v[n] = load<kType>(row, n * 8);
            for (int r = 0; r < kR; ++r) {
                const __m256 weight = _mm256_broadcast_ss(p + r * kTileTokens + t);
                for (int n = 0; n < kN; ++n) sum[r][n] = _mm256_fmadd_ps(weight, v[n], sum[r][n]);
            }
        }
    }
    for (int r = 0; r < kR; ++r) {
        float* to = out + r * static_cast<long>(dims) + first * 8;
        for (int n = 0; n < kN; ++n) _mm256_storeu_ps(to + n * 8, sum[r][n]);
    }
}

// The factors of a tile's keys and values (int8), by groups of 16 tokens.
struct TileScales {
    const float* k[kTileGroups];
    const float* v[kTileGroups];
};

inline __m256 load_half(const float* const* groups, int half) {
    return _mm256_loadu_ps(groups[half / 2] + half % 2 * 8);
}

// Softmax of one row within the tile: scores become weights in place: 2^(s - max), with kScaled of
// s times the key's scale, and then times the value's.
template <bool kScaled>
void softmax_row(float* s, int limit, const TileScales& scales, float* row_max, float* row_sum) {
    const int halves = (limit + 15) / 16 * 2;  // vectors of 8
    const __m256 lowest = _mm256_set1_ps(-__builtin_inff());
    __m256 top = lowest;
    for (int h = 0; h < halves; ++h) {
        __m256 score = _mm256_loadu_ps(s + h * 8);
        if constexpr (kScaled) score = _mm256_mul_ps(score, load_half(scales.k, h));
        if (h >= halves - 2) {
            const __m256 seen = _mm256_castsi256_ps(first_lanes(limit - h * 8));
            score = _mm256_blendv_ps(lowest, score, seen);
        }
        _mm256_storeu_ps(s + h * 8, score);
        top = _mm256_max_ps(score, top);  // a NaN score is no maximum
    }
    const float maximum = max_lanes(top);
    const __m256 shift = _mm256_set1_ps(maximum);
    __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int h = 0; h < halves; ++h) {
        __m256 p = exp2_not_positive(_mm256_sub_ps(_mm256_loadu_ps(s + h * 8), shift));
        // -inf minus -inf is no number.
        if (h >= halves - 2) p = _mm256_and_ps(p, _mm256_castsi256_ps(first_lanes(limit - h * 8)));
        sum[h % 2] = _mm256_add_ps(sum[h % 2], p);
        if constexpr (kScaled) p = _mm256_mul_ps(p, load_half(scales.v, h));
        _mm256_storeu_ps(s + h * 8, p);
    }
    *row_max = maximum;
    *row_sum = sum_lanes(sum[0], sum[1]);
}

// A tile's planes: the pool's own, or float32 copies of them.
struct Planes {
    const std::byte* const* k;
    const std::byte* const* v;
};

// All groups of a block of kR rows; several groups at once where registers allow.
template <int kR, KvDType kType>
void scores_of_rows(const float* q, const Planes& planes, int dims, int groups, float* s) {
    constexpr int kG = kR == 1 ? 4 : kR <= 3 ? 2 : 1;
    int g = 0;
    for (; g + kG <= groups; g += kG) scores<kR, kG, kType>(q, planes.k + g, dims, s + g * 16);
    for (; g < groups; ++g) scores<kR, 1, kType>(q, planes.k + g, dims, s + g * 16);
}

template <int kR, KvDType kType>
void values_of_rows(const Planes& planes, int dims, const float* p, int begin, int end,
                    float* out) {
    constexpr int kN = kR <= 3 ? 4 : 2;
    const int vectors = dims / 8;  // even
    int n = 0;
    for (; n + kN <= vectors; n += kN) {
        values<kR, kN, kType>(planes.v, dims, p, begin, end, n, out);
    }
    for (; n < vectors; n += 2) values<kR, 2, kType>(planes.v, dims, p, begin, end, n, out);
}

using ScoresOfRows = void (*)(const float*, const Planes&, int, int, float*);
template <KvDType kT>
constexpr ScoresOfRows kScores[kRows] = {scores_of_rows<1, kT>, scores_of_rows<2, kT>,
                                         scores_of_rows<3, kT>, scores_of_rows<4, kT>,
                                         scores_of_rows<5, kT>, scores_of_rows<6, kT>};
using ValuesOfRows = void (*)(const Planes&, int, const float*, int, int, float*);
template <KvDType kT>
constexpr ValuesOfRows kValues[kRows] = {values_of_rows<1, kT>, values_of_rows<2, kT>,
                                         values_of_rows<3, kT>, values_of_rows<4, kT>,
                                         values_of_rows<5, kT>, values_of_rows<6, kT>};

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

// Tokens that all rows of the block see, then what each sees beyond.
template <KvDType kType>
void values_of_block(const AttentionTile& tile, const RowBlock& block, const Planes& planes,
                     const float* p) {
    const int dims = tile.head_dim;
    float* out = tile.out + block.first * static_cast<long>(dims);
    if (block.lowest > 0) {
        kValues<kType>[block.count - 1](planes, dims, p, 0, block.lowest, out);
    }
    for (int r = 0; r < block.count; ++r) {
        const int limit = tile.limits[block.first + r];
        if (limit <= block.lowest) continue;
        kValues<kType>[0](planes, dims, p + r * kTileTokens, block.lowest, limit,
                          out + r * static_cast<long>(dims));
    }
}

void softmax_rows(const AttentionTile& tile, int begin, int end, const TileScales& scales,
                  float* s) {
    for (int r = begin; r < end; ++r, s += kTileTokens) {
        if (tile.limits[r] <= 0) continue;
        if (tile.dtype == KvDType::kInt8) {
            softmax_row<true>(s, tile.limits[r], scales, &tile.max[r], &tile.sum[r]);
        } else {
            softmax_row<false>(s, tile.limits[r], scales, &tile.max[r], &tile.sum[r]);
        }
    }
}

// kType: of the planes, which may be copies.
template <KvDType kType>
void rows_in_l1(const AttentionTile& tile, int begin, int end, const Planes& planes,
                const TileScales& scales, float* s) {
    const int dims = tile.head_dim;
    for (int first = begin; first < end; first += kRows) {
        const RowBlock block = block_at(tile, first, end);
        kScores<kType>[block.count - 1](tile.q + first * static_cast<long>(dims), planes, dims,
                                        (block.highest + 15) / 16,
                                        s + (first - begin) * kTileTokens);
    }
    softmax_rows(tile, begin, end, scales, s);
    for (int first = begin; first < end; first += kRows) {
        const RowBlock block = block_at(tile, first, end);
        if (block.highest > 0) {
            values_of_block<kType>(tile, block, planes, s + (first - begin) * kTileTokens);
        }
    }
}

template <KvDType kType>
void all_rows(const AttentionTile& tile, const Planes& planes, const TileScales& scales) {
    float* s = tile.scratch + 2L * kTileTokens * tile.head_dim;
    for (int begin = 0; begin < tile.rows; begin += kRowsInL1) {
        rows_in_l1<kType>(tile, begin, min(begin + kRowsInL1, tile.rows), planes, scales, s);
    }
}

// Copies the values of a plane to float32.
template <KvDType kType>
void to_float(const std::byte* plane, int dims, float* to) {
    for (long i = 0; i < 16L * dims; i += 8) _mm256_store_ps(to + i, load<kType>(plane, i));
}

template <KvDType kType>
void tile_as(const AttentionTile& tile) {
    int highest = 0;
    for (int r = 0; r < tile.rows; ++r) highest = max(highest, tile.limits[r]);
    if (highest <= 0) return;

    const int groups = (highest + 15) / 16;
    TileScales scales;
    if constexpr (kType == KvDType::kInt8) {
        for (int g = 0; g < groups; ++g) {
            scales.k[g] = reinterpret_cast<const float*>(tile.k[g] + 16L * tile.head_dim);
            scales.v[g] = reinterpret_cast<const float*>(tile.v[g] + 16L * tile.head_dim);
        }
    }
    if (kType == KvDType::kF32 || tile.rows <= kRows) {
        return all_rows<kType>(tile, {tile.k, tile.v}, scales);
    }
    const std::byte* k[kTileGroups];
    const std::byte* v[kTileGroups];
    const long plane_floats = 16L * tile.head_dim;
    for (int g = 0; g < groups; ++g) {
        float* to = tile.scratch + 2 * g * plane_floats;
        to_float<kType>(tile.k[g], tile.head_dim, to);
        to_float<kType>(tile.v[g], tile.head_dim, to + plane_floats);
        k[g] = reinterpret_cast<const std::byte*>(to);
        v[g] = reinterpret_cast<const std::byte*>(to + plane_floats);
    }
    all_rows<KvDType::kF32>(tile, {k, v}, scales);
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

void merge(int rows, int head_dim, const AttentionState& state, const AttentionState& next) {
    for (int r0 = 0; r0 < rows; r0 += 8) {
        const int count = min(8, rows - r0);
        const __m256i mask = first_lanes(count);
        const __m256 m1 = _mm256_maskload_ps(state.max + r0, mask);
        const __m256 m2 = _mm256_maskload_ps(next.max + r0, mask);
        const __m256 m = _mm256_max_ps(m2, m1);
        const __m256 a = exp2_not_positive(_mm256_sub_ps(m1, m));
        const __m256 b = exp2_not_positive(_mm256_sub_ps(m2, m));
        const __m256 l1 = _mm256_mul_ps(_mm256_maskload_ps(state.sum + r0, mask), a);
        const __m256 l2 = _mm256_maskload_ps(next.sum + r0, mask);
        _mm256_maskstore_ps(state.max + r0, mask, m);
        _mm256_maskstore_ps(state.sum + r0, mask, _mm256_fmadd_ps(l2, b, l1));
        alignas(32) float as[8];
        alignas(32) float bs[8];
        _mm256_store_ps(as, a);
        _mm256_store_ps(bs, b);
        for (int r = 0; r < count; ++r) {
            const __m256 ar = _mm256_set1_ps(as[r]);
            const __m256 br = _mm256_set1_ps(bs[r]);
            float* out = state.out + (r0 + r) * static_cast<long>(head_dim);
            const float* more = next.out + (r0 + r) * static_cast<long>(head_dim);
            for (int d = 0; d < head_dim; d += 8) {
                const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(out + d), ar);
                _mm256_storeu_ps(out + d, _mm256_fmadd_ps(_mm256_loadu_ps(more + d), br, scaled));
            }
        }
    }
}

void finish(int head_dim, const float* out, float sum, float* to) {
    const __m256 inverse = _mm256_set1_ps(1.0f / sum);
    for (int d = 0; d < head_dim; d += 8) {
        _mm256_storeu_ps(to + d, _mm256_mul_ps(_mm256_loadu_ps(out + d), inverse));
    }
}

}  // namespace

const AttentionOps& attention_ops() {
    static constexpr AttentionOps kOps = {append_rows<Vectors>, tile, merge, finish};
    return kOps;
}

}  // namespace taproot::avx2
