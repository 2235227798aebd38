// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include "base/assert.h"
#include "kernels/ops.h"
#include "kernels/parallel.h"

namespace taproot {

void rmsnorm(KernelContext& context, ConstRows x, const float* weight, float eps, Rows out) {
    TAPROOT_ASSERT(x.rows == out.rows);
    TAPROOT_ASSERT(x.columns == out.columns);
    auto row = context.ops.elementwise.rmsnorm_row;
    parallel_for(context, x.rows, 0.1 * x.columns, [&](int begin, int end) {
        for (int r = begin; r < end; ++r) row(x.row(r), weight, eps, x.columns, out.row(r));
    });
}

void swiglu(KernelContext& context, ConstRows gate, ConstRows up, Rows out) {
    TAPROOT_ASSERT(gate.rows == out.rows);
    TAPROOT_ASSERT(up.rows == out.rows);
    TAPROOT_ASSERT(gate.columns == out.columns);
    TAPROOT_ASSERT(up.columns == out.columns);
    auto row = context.ops.elementwise.swiglu_row;
    parallel_for(context, out.rows, 0.6 * out.columns, [&](int begin, int end) {
        for (int r = begin; r < end; ++r) row(gate.row(r), up.row(r), out.columns, out.row(r));
    });
}

void rope(KernelContext& context, const RopeTable& table, RopePairs pairs, Rows x, int heads,
          int head_dim, std::span<const std::int32_t> positions) {
    TAPROOT_ASSERT(x.columns == heads * head_dim);
    TAPROOT_ASSERT(positions.size() == static_cast<std::size_t>(x.rows));
    TAPROOT_ASSERT(table.rotary_dim() <= head_dim);
    for (std::int32_t position : positions) {
        TAPROOT_ASSERT(position >= 0);
        TAPROOT_ASSERT(position < table.positions());
    }
    auto rotate = pairs == RopePairs::kInterleaved ? context.ops.elementwise.rope_interleaved
                                                   : context.ops.elementwise.rope_halves;
    parallel_for(context, x.rows, 0.1 * x.columns, [&](int begin, int end) {
        for (int r = begin; r < end; ++r) {
            std::int32_t position = positions[static_cast<std::size_t>(r)];
            rotate(x.row(r), heads, head_dim, table.cos(position), table.sin(position),
                   table.rotary_dim());
        }
    });
}

}  // namespace taproot
