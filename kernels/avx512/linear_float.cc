// SPDX-License-Identifier: Apache-2.0
// Float weights: per output one fma chain over all columns, two panels at a time.
//   few rows of x   weights are converted as they stream in. Roof: reading them.
//   more            a chunk of the weights is converted once to L1, for groups of up to 12 rows.
//                   Roof: the fma ports.
#include <immintrin.h>

#include "kernels/avx512/linear_kernels.h"
#include "kernels/avx512/tile_sums.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

namespace taproot::avx512 {
namespace {

constexpr int kFewRows = 8;
constexpr int kGroupRows = 12;      // 24 sums in registers
constexpr int kGroupRowsLeast = 6;  // 13 rows are 6 + 7
constexpr int kChunkColumns = 128;  // 16 KiB of weights: they stay in L1

// Column k of 16 rows.
template <DType kType>
TAPROOT_INLINE __m512 load_column(const std::byte* panel, int k) {
    const std::byte* at =
        panel + static_cast<std::size_t>(k) * (kPanelRows * panel_format(kType).element_bytes);
    if constexpr (kType == DType::kF32) return _mm512_load_ps(at);
    __m256i bits = _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
    if constexpr (kType == DType::kF16) return _mm512_cvtph_ps(bits);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// ---- few rows: weights converted as they stream in ----

template <DType kType, int kRows>
void few_rows(const FloatTile& tile) {
    __m512 sums[kTilePanels][kRows];
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        for (int p = 0; p < kTilePanels; ++p) sums[p][t.value] = _mm512_setzero_ps();
    });
    for (int k = 0; k < tile.columns; ++k) {
        __m512 w0 = load_column<kType>(tile.panels[0], k);
        __m512 w1 = load_column<kType>(tile.panels[1], k);
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m512 value = _mm512_set1_ps(tile.x[t.value * tile.x_stride + k]);
            sums[0][t.value] = _mm512_fmadd_ps(w0, value, sums[0][t.value]);
            sums[1][t.value] = _mm512_fmadd_ps(w1, value, sums[1][t.value]);
        });
    }
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        float* to = tile.out.data + t.value * tile.out.stride;
        for (int p = 0; p < kTilePanels; ++p) {
            const int column = p * kPanelRows;
            store_panel(sums[p][t.value], to + column, tile.out.columns - column, tile.out.add);
        }
    });
}

template <DType kType, int kRows = kFewRows>
void few_rows_of(const FloatTile& tile) {
    if constexpr (kRows > 1) {
        if (tile.rows < kRows) return few_rows_of<kType, kRows - 1>(tile);
    }
    few_rows<kType, kRows>(tile);
}

// ---- more rows: a chunk of both panels converted once to L1 ----

struct Chunk {
    alignas(64) float w[kChunkColumns][kTilePanels][kPanelRows];
};

template <DType kType>
void unpack(const FloatTile& tile, int begin, int columns, Chunk* out) {
    for (int k = 0; k < columns; ++k) {
        for (int p = 0; p < kTilePanels; ++p) {
            _mm512_store_ps(out->w[k][p], load_column<kType>(tile.panels[p], begin + k));
        }
    }
}

// The weights after the chunk, fetched at the pace of its first group of rows.
struct Ahead {
    const std::byte* panels[kTilePanels];
    int bytes_per_column;  // 0: nothing to fetch

    TAPROOT_INLINE void fetch(int k) const {
        const std::ptrdiff_t at = std::ptrdiff_t{k} * bytes_per_column;
        for (const std::byte* panel : panels) {
            _mm_prefetch(reinterpret_cast<const char*>(panel + at), _MM_HINT_T0);
        }
    }
};

// sums[t][panel, lane] go on over the chunk's columns.
template <int kRows>
void group_rows(const Chunk& chunk, int columns, const float* x, std::int64_t x_stride,
                const Ahead& ahead, float* sums) {
    __m512 sum[kTilePanels][kRows];
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        for (int p = 0; p < kTilePanels; ++p) {
            sum[p][t.value] = _mm512_load_ps(sums + t.value * kTileColumns + p * kPanelRows);
        }
    });
    for (int k = 0; k < columns; ++k) {
        ahead.fetch(k);
        __m512 w0 = _mm512_load_ps(chunk.w[k][0]);
        __m512 w1 = _mm512_load_ps(chunk.w[k][1]);
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m512 value = _mm512_set1_ps(x[t.value * x_stride + k]);
            sum[0][t.value] = _mm512_fmadd_ps(w0, value, sum[0][t.value]);
            sum[1][t.value] = _mm512_fmadd_ps(w1, value, sum[1][t.value]);
        });
    }
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        for (int p = 0; p < kTilePanels; ++p) {
            _mm512_store_ps(sums + t.value * kTileColumns + p * kPanelRows, sum[p][t.value]);
        }
    });
}

template <int kRows = kGroupRows>
void group_rows_of(int rows, const Chunk& chunk, int columns, const float* x, std::int64_t x_stride,
                   const Ahead& ahead, float* sums) {
    if constexpr (kRows > kGroupRowsLeast) {
        if (rows < kRows)
            return group_rows_of<kRows - 1>(rows, chunk, columns, x, x_stride, ahead, sums);
    }
    group_rows<kRows>(chunk, columns, x, x_stride, ahead, sums);
}

template <DType kType>
void many_rows(const FloatTile& tile) {
    Chunk chunk;
    TileSums sums;
    sums.clear(tile.rows);
    const int groups = (tile.rows + kGroupRows - 1) / kGroupRows;
    for (int begin = 0; begin < tile.columns; begin += kChunkColumns) {
        const int left = tile.columns - begin;
        const int columns = left < kChunkColumns ? left : kChunkColumns;
        unpack<kType>(tile, begin, columns, &chunk);
        constexpr int kColumnBytes = kPanelRows * panel_format(kType).element_bytes;
        // At the end of K the fetch runs into the next panels, which this thread reads next.
        const std::ptrdiff_t done = std::ptrdiff_t{begin + columns} * kColumnBytes;
        Ahead ahead{{tile.panels[0] + done, tile.panels[1] + done}, kColumnBytes};
        for (int g = 0; g < groups; ++g) {
            const int row = tile.rows * g / groups;
            const int rows = tile.rows * (g + 1) / groups - row;
            group_rows_of(rows, chunk, columns, tile.x + row * tile.x_stride + begin, tile.x_stride,
                          ahead, sums.rows[row]);
            ahead.bytes_per_column = 0;  // fetched
        }
    }
    sums.store(tile.rows, tile.out);
}

template <DType kType>
void tile_of(const FloatTile& tile) {
    tile.rows <= kFewRows ? few_rows_of<kType>(tile) : many_rows<kType>(tile);
}

}  // namespace

void float_tile(const FloatTile& tile) {
    switch (tile.dtype) {
        case DType::kF32:
            return tile_of<DType::kF32>(tile);
        case DType::kF16:
            return tile_of<DType::kF16>(tile);
        default:
            return tile_of<DType::kBF16>(tile);
    }
}

}  // namespace taproot::avx512
