// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "kernels/fused.h"
#include "kernels/linear_tile.h"
#include "kernels/ops.h"

namespace taproot {
namespace {

struct Job {
    const Ops& ops;
    const PanelMatrix& w;
    const LinearInput& in;
    std::span<const Range> precise;
    const QuantizedRows& remainders;
    Rows h;
    QuantizedRows* quantized;
    RowChunks chunks;

    [[nodiscard]] int pairs() const { return h.columns / kTileColumns; }
};

// What a thread holds of gate * x and up * x: one tile each.
struct Tile {
    alignas(64) float rows[kTileRowsMax][kTileColumns];
};

// tile = panels [first, first + 2) of w times rows [row, row + count), remainders included.
void multiply(const Job& job, int first, int row, int count, const std::byte* next, Tile* tile) {
    TileOut out{tile->rows[0], kTileColumns, kTileColumns, false};
    linear_tile(job.ops.linear, job.w, first, job.in, row, count, out, next);
    if (!job.w.quantized()) return;
    LinearInput rest{job.in.x, &job.remainders};
    for (const Range& precise : job.precise) {
        int begin = std::max(precise.begin, row);
        int end = std::min(precise.end, row + count);
        if (begin >= end) continue;
        TileOut add{tile->rows[begin - row], kTileColumns, kTileColumns, true};
        linear_tile(job.ops.linear, job.w, first, rest, begin, end - begin, add, nullptr);
    }
}

void keep_precise(const Job& job, int pair, int row, int count, const Tile& tile) {
    for (const Range& precise : job.precise) {
        int end = std::min(precise.end, row + count);
        for (int r = std::max(precise.begin, row); r < end; ++r)
            std::memcpy(job.h.row(r) + pair * kTileColumns, tile.rows[r - row],
                        sizeof tile.rows[0]);
    }
}

void run_item(const Job& job, int item) {
    int pair = item / job.chunks.count;
    int chunk = item % job.chunks.count;
    int row = chunk * job.chunks.rows;
    int count = std::min(job.chunks.rows, job.in.x.rows - row);
    if (count <= 0) return;
    TAPROOT_ASSERT(count <= kTileRowsMax);
    int gate_panel = pair * kTilePanels;
    int up_panel = (job.pairs() + pair) * kTilePanels;
    bool last_chunk = chunk + 1 == job.chunks.count;
    bool goes_on = last_chunk && pair + 1 < job.pairs();
    Tile gate, up;
    multiply(job, gate_panel, row, count, chunk == 0 ? job.w.panel(up_panel) : nullptr, &gate);
    multiply(job, up_panel, row, count, goes_on ? job.w.panel(gate_panel + kTilePanels) : nullptr,
             &up);
    for (int r = 0; r < count; ++r) {
        float* h = gate.rows[r];
        job.ops.elementwise.swiglu_row(h, up.rows[r], kTileColumns, h);
        job.ops.linear.quantize_row(h, 1, job.quantized->row(row + r) + pair);
    }
    keep_precise(job, pair, row, count, gate);
}

}  // namespace

bool gate_up_fits(const PanelMatrix& w) {
    return w.rows() % (2 * kTileColumns) == 0;
}

void gate_up_quantized(KernelContext& context, const PanelMatrix& w, const LinearInput& in,
                       std::span<const Range> precise, const QuantizedRows& remainders, Rows h,
                       QuantizedRows* quantized) {
    check_input(w, in);
    TAPROOT_ASSERT(gate_up_fits(w) && h.columns == w.rows() / 2 && h.rows == in.x.rows);
    TAPROOT_ASSERT(quantized != in.quantized && quantized != &remainders);
    quantized->resize(h.rows, h.columns);
    if (h.rows == 0) return;
    int threads = context.pool.threads();
    int pairs = h.columns / kTileColumns;
    Job job{context.ops, w, in,        precise,
            remainders,  h, quantized, row_chunks(2 * pairs, h.rows, threads)};
    int items = pairs * job.chunks.count;
    if (threads == 1) {
        for (int i = 0; i < items; ++i) run_item(job, i);
        return;
    }
    WorkRanges ranges(items, threads, std::clamp(items / threads / 8, 1, 4));
    context.pool.share(
        [&](int thread) { ranges.work(thread, [&](int item) { run_item(job, item); }); });
}

}  // namespace taproot
