// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/linear_ops.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

// Where the sums of a tile's rows wait and end, for quantised and float weights alike.
namespace taproot::avx512 {

// 16 outputs of one row, `columns` of them wanted; none when that is not positive.
TAPROOT_INLINE void store_panel(__m512 sums, float* to, int columns, bool add) {
    if (columns <= 0) return;
    auto mask = static_cast<__mmask16>(columns >= 16 ? 0xffff : (1 << columns) - 1);
    if (add) sums = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sums);
    _mm512_mask_storeu_ps(to, mask, sums);
}

// Sums of all rows while they pass by in groups. They stay in L1.
struct TileSums {
    alignas(64) float rows[kTileRowsMax][kTileColumns];

    TAPROOT_INLINE void clear(int count) {
        for (int t = 0; t < count; ++t) {
            for (int p = 0; p < kTilePanels; ++p) {
                _mm512_store_ps(rows[t] + p * kPanelRows, _mm512_setzero_ps());
            }
        }
    }
    TAPROOT_INLINE void store(int count, const TileOut& out) const {
        for (int t = 0; t < count; ++t) {
            for (int p = 0; p < kTilePanels; ++p) {
                const int column = p * kPanelRows;
                store_panel(_mm512_load_ps(rows[t] + column), out.data + t * out.stride + column,
                            out.columns - column, out.add);
            }
        }
    }
};

}  // namespace taproot::avx512
