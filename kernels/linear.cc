// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear.h"

#include <algorithm>

#include "base/assert.h"
#include "kernels/linear_tile.h"
#include "kernels/ops.h"
#include "kernels/parallel.h"
#include "kernels/work_ranges.h"

namespace taproot {
namespace {

// Below this many multiplications a fork costs more than the work.
constexpr std::int64_t kSerialProducts = 32 * 1024;

struct Job {
    const PanelMatrix& w;
    const LinearInput& in;
    Rows out;
    bool add;
    const LinearOps& ops;
    RowChunks chunks;
};

// Neighbouring items share panels, so that the rows of one pair of panels follow each other on one
// thread.
void run_item(const Job& job, int item) {
    int pair = item / job.chunks.count;
    int chunk = item % job.chunks.count;
    int row = chunk * job.chunks.rows;
    int rows = std::min(job.chunks.rows, job.in.x.rows - row);
    if (rows <= 0) return;
    int first = pair * kTilePanels;
    int column = pair * kTileColumns;
    TileOut out{job.out.row(row) + column, job.out.stride,
                std::min(kTileColumns, job.w.rows() - column), job.add};
    int next = first + kTilePanels;
    bool goes_on = chunk + 1 == job.chunks.count && next < job.w.panels();
    linear_tile(job.ops, job.w, first, job.in, row, rows, out,
                goes_on ? job.w.panel(next) : nullptr);
}

}  // namespace

void check_input(const PanelMatrix& w, const LinearInput& in) {
    TAPROOT_ASSERT(in.x.columns == w.columns());
    if (!w.quantized()) return;
    TAPROOT_ASSERT(in.quantized != nullptr);
    TAPROOT_ASSERT(in.quantized->rows() >= in.first_quantized + in.x.rows);
    TAPROOT_ASSERT(in.quantized->columns() == w.columns());
}

// At most kTileRowsMax rows. Few panels and many threads: cut rows finer, while chunks stay worth
// unpacking weights for.
RowChunks row_chunks(int pairs, int rows, int threads) {
    int count = (rows + kTileRowsMax - 1) / kTileRowsMax;
    while (pairs * count < 4 * threads && rows / (count + 1) >= 48) ++count;
    return {count, (rows + count - 1) / count};
}

void linear(KernelContext& context, const PanelMatrix& w, const LinearInput& in, Rows out,
            Accumulate accumulate) {
    check_input(w, in);
    TAPROOT_ASSERT(out.columns == w.rows());
    TAPROOT_ASSERT(out.rows == in.x.rows);
    int rows = in.x.rows;
    if (rows == 0) return;
    int threads = context.pool.threads();
    int pairs = (w.panels() + kTilePanels - 1) / kTilePanels;
    RowChunks chunks = row_chunks(pairs, rows, threads);
    Job job{w, in, out, accumulate == Accumulate::kAdd, context.ops.linear, chunks};
    int items = pairs * chunks.count;
    if (threads == 1 || std::int64_t{w.rows()} * w.columns() * rows <= kSerialProducts) {
        for (int i = 0; i < items; ++i) run_item(job, i);
        return;
    }
    WorkRanges ranges(items, threads, std::clamp(items / threads / 8, 1, 4));
    auto task = [&](int thread) { ranges.work(thread, [&](int item) { run_item(job, item); }); };
    context.pool.share(task);
}

void embed_rows(KernelContext& context, const PanelMatrix& table, std::span<const std::int32_t> ids,
                Rows out) {
    TAPROOT_ASSERT(out.columns == table.columns());
    TAPROOT_ASSERT(out.rows == static_cast<int>(ids.size()));
    parallel_for(context, out.rows, 0.5 * out.columns, [&](int begin, int end) {
        for (int i = begin; i < end; ++i) {
            table.dequantize_row(ids[static_cast<std::size_t>(i)], out.row(i));
        }
    });
}

}  // namespace taproot
