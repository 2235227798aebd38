// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/linear.h"
#include "kernels/ops.h"
#include "kernels/panel_layout.h"

// One tile of a linear layer, for the files that cut a layer into tiles.
namespace taproot {

// Two neighbouring panels of w, from panel `first` on, times rows [row, row + rows) of `in`.
// `next`: the panels that this thread reads after them, or null.
inline void linear_tile(const LinearOps& ops, const PanelMatrix& w, int first,
                        const LinearInput& in, int row, int rows, const TileOut& out,
                        const std::byte* next) {
    const int second = std::min(first + 1, w.panels() - 1);
    if (!w.quantized()) {
        ops.float_tile({w.dtype(),
                        w.columns(),
                        {w.panel(first), w.panel(second)},
                        in.x.row(row),
                        in.x.stride,
                        rows,
                        out});
        return;
    }
    ops.quantized_tile({w.dtype(),
                        w.columns() / kBlockColumns,
                        {w.panel(first), w.panel(second)},
                        in.quantized->row(in.first_quantized + row),
                        rows,
                        out,
                        next});
}

// Asserts that `in` is what w reads.
void check_input(const PanelMatrix& w, const LinearInput& in);

// How many chunks of rows an output of `pairs` pairs of panels is cut into.
struct RowChunks {
    int count;
    int rows;  // of each but the last
};
RowChunks row_chunks(int pairs, int rows, int threads);

}  // namespace taproot
