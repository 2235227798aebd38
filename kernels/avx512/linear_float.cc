// SPDX-License-Identifier: Apache-2.0
// Float weights: per output one fma chain over all columns. Two panels by up to eight rows of x.
// Roof: one row of x is bound by reading the weights, many rows by the fma ports.
#include <immintrin.h>

#include "kernels/avx512/linear_kernels.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

namespace taproot::avx512 {
namespace {

constexpr int kGroupRows = 8;

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

TAPROOT_INLINE void store_panel(__m512 sums, float* to, int columns, bool add) {
    auto mask = static_cast<__mmask16>(columns >= 16 ? 0xffff : (1 << columns) - 1);
    if (add) sums = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sums);
    _mm512_mask_storeu_ps(to, mask, sums);
}

template <DType kType, int kRows>
void run_group(const FloatTile& tile, int row) {
    const float* x = tile.x + row * tile.x_stride;
    __m512 sums[kTilePanels][kRows];
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        sums[0][t.value] = _mm512_setzero_ps();
        sums[1][t.value] = _mm512_setzero_ps();
    });
    for (int k = 0; k < tile.columns; ++k) {
        __m512 w0 = load_column<kType>(tile.panels[0], k);
        __m512 w1 = load_column<kType>(tile.panels[1], k);
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m512 value = _mm512_set1_ps(x[t.value * tile.x_stride + k]);
            sums[0][t.value] = _mm512_fmadd_ps(w0, value, sums[0][t.value]);
            sums[1][t.value] = _mm512_fmadd_ps(w1, value, sums[1][t.value]);
        });
    }
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        float* to = tile.out.data + (row + t.value) * tile.out.stride;
        store_panel(sums[0][t.value], to, tile.out.columns, tile.out.add);
        if (tile.out.columns > 16) {
            store_panel(sums[1][t.value], to + 16, tile.out.columns - 16, tile.out.add);
        }
    });
}

template <DType kType, int kRows = kGroupRows>
void run_group(int rows, const FloatTile& tile, int row) {
    if constexpr (kRows > 1) {
        if (rows < kRows) return run_group<kType, kRows - 1>(rows, tile, row);
    }
    run_group<kType, kRows>(tile, row);
}

template <DType kType>
void tile_of(const FloatTile& tile) {
    int groups = (tile.rows + kGroupRows - 1) / kGroupRows;
    for (int g = 0; g < groups; ++g) {
        int row = tile.rows * g / groups;
        run_group<kType>(tile.rows * (g + 1) / groups - row, tile, row);
    }
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
