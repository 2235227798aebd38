// SPDX-License-Identifier: Apache-2.0
// Float weights: per output one fma chain over all columns. One panel by up to four rows of x: its
// eight chains cover the latency of two fma ports.
#include <immintrin.h>

#include "kernels/avx2/linear_kernels.h"
#include "kernels/avx2/store_lanes.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

namespace taproot::avx2 {
namespace {

constexpr int kGroupRows = 4;

// Column k, rows 8 * half .. of a panel.
template <DType kType>
TAPROOT_INLINE __m256 load_column(const std::byte* panel, int k, int half) {
    constexpr int kBytes = panel_format(kType).element_bytes;
    const std::byte* at =
        panel +
        (static_cast<std::size_t>(k) * kPanelRows + static_cast<std::size_t>(half) * 8) * kBytes;
    if constexpr (kType == DType::kF32) {
        return _mm256_load_ps(reinterpret_cast<const float*>(at));
    } else {
        __m128i bits = _mm_load_si128(reinterpret_cast<const __m128i*>(at));
        if constexpr (kType == DType::kF16) {
            return _mm256_cvtph_ps(bits);
        } else {
            return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
        }
    }
}

template <DType kType, int kRows>
void run_group(const FloatTile& tile, int panel, int row) {
    const float* x = tile.x + row * tile.x_stride;
    const std::byte* w = tile.panels[panel];
    __m256 sums[2][kRows];
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        sums[0][t.value] = _mm256_setzero_ps();
        sums[1][t.value] = _mm256_setzero_ps();
    });
    for (int k = 0; k < tile.columns; ++k) {
        __m256 w0 = load_column<kType>(w, k, 0);
        __m256 w1 = load_column<kType>(w, k, 1);
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m256 value = _mm256_broadcast_ss(x + t.value * tile.x_stride + k);
            sums[0][t.value] = _mm256_fmadd_ps(w0, value, sums[0][t.value]);
            sums[1][t.value] = _mm256_fmadd_ps(w1, value, sums[1][t.value]);
        });
    }
    int columns = tile.out.columns - panel * kPanelRows;
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        float* to = tile.out.data + (row + t.value) * tile.out.stride + panel * kPanelRows;
        store_lanes(sums[0][t.value], to, columns, tile.out.add);
        store_lanes(sums[1][t.value], to + 8, columns - 8, tile.out.add);
    });
}

template <DType kType, int kRows = kGroupRows>
void run_group(int rows, const FloatTile& tile, int panel, int row) {
    if constexpr (kRows > 1) {
        if (rows < kRows) return run_group<kType, kRows - 1>(rows, tile, panel, row);
    }
    run_group<kType, kRows>(tile, panel, row);
}

template <DType kType>
void tile_of(const FloatTile& tile) {
    int groups = (tile.rows + kGroupRows - 1) / kGroupRows;
    for (int p = 0; p < kTilePanels && p * kPanelRows < tile.out.columns; ++p) {
        for (int g = 0; g < groups; ++g) {
            int row = tile.rows * g / groups;
            run_group<kType>(tile.rows * (g + 1) / groups - row, tile, p, row);
        }
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

}  // namespace taproot::avx2
