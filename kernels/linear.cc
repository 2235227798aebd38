// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear.h"

#include <algorithm>

#include "base/assert.h"
#include "kernels/ops.h"
#include "kernels/panel_layout.h"
#include "kernels/parallel.h"
#include "kernels/work_ranges.h"

namespace taproot {
namespace {

// Below this many multiplications a fork costs more than the work.
constexpr std::int64_t kSerialProducts = 32 * 1024;

// The output is cut into tiles of two panels by at most kTileRowsMax rows of x. Neighbouring items
// share panels, so that the rows of one pair of panels follow each other on one thread.
struct Tiling {
    int pairs;
    int row_chunks;
    int chunk_rows;

    [[nodiscard]] int items() const { return pairs * row_chunks; }
};

Tiling tiling_for(const PanelMatrix& w, int rows, int threads) {
    Tiling tiling{};
    tiling.pairs = (w.panels() + kTilePanels - 1) / kTilePanels;
    tiling.row_chunks = (rows + kTileRowsMax - 1) / kTileRowsMax;
    // Few panels and many threads: cut rows finer, while chunks stay worth unpacking weights for.
    while (tiling.items() < 4 * threads && rows / (tiling.row_chunks + 1) >= 48) {
        ++tiling.row_chunks;
    }
    tiling.chunk_rows = (rows + tiling.row_chunks - 1) / tiling.row_chunks;
    return tiling;
}

struct Job {
    const PanelMatrix& w;
    const LinearInput& in;
    Rows out;
    bool add;
    const LinearOps& ops;
    Tiling tiling;
};

void run_item(const Job& job, int item) {
    int pair = item / job.tiling.row_chunks;
    int chunk = item % job.tiling.row_chunks;
    int row = chunk * job.tiling.chunk_rows;
    int rows = std::min(job.tiling.chunk_rows, job.in.x.rows - row);
    if (rows <= 0) return;
    int first = pair * kTilePanels;
    int second = std::min(first + 1, job.w.panels() - 1);
    int column = pair * kTileColumns;
    TileOut out{job.out.row(row) + column, job.out.stride,
                std::min(kTileColumns, job.w.rows() - column), job.add};
    if (!job.w.quantized()) {
        job.ops.float_tile({job.w.dtype(),
                            job.w.columns(),
                            {job.w.panel(first), job.w.panel(second)},
                            job.in.x.row(row),
                            job.in.x.stride,
                            rows,
                            out});
        return;
    }
    int next = first + kTilePanels;
    bool goes_on = chunk + 1 == job.tiling.row_chunks && next < job.w.panels();
    job.ops.quantized_tile({job.w.dtype(),
                            job.w.columns() / kBlockColumns,
                            {job.w.panel(first), job.w.panel(second)},
                            job.in.quantized->row(row),
                            rows,
                            out,
                            goes_on ? job.w.panel(next) : nullptr});
}

void check_shapes(const PanelMatrix& w, const LinearInput& in, const Rows& out) {
    TAPROOT_ASSERT(in.x.columns == w.columns());
    TAPROOT_ASSERT(out.columns == w.rows());
    TAPROOT_ASSERT(out.rows == in.x.rows);
    if (!w.quantized()) return;
    TAPROOT_ASSERT(in.quantized != nullptr);
    TAPROOT_ASSERT(in.quantized->rows() >= in.x.rows);
    TAPROOT_ASSERT(in.quantized->columns() == w.columns());
}

}  // namespace

void linear(KernelContext& context, const PanelMatrix& w, const LinearInput& in, Rows out,
            Accumulate accumulate) {
    check_shapes(w, in, out);
    int rows = in.x.rows;
    if (rows == 0) return;
    int threads = context.pool.threads();
    Job job{w,
            in,
            out,
            accumulate == Accumulate::kAdd,
            context.ops.linear,
            tiling_for(w, rows, threads)};
    int items = job.tiling.items();
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
