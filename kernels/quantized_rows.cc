// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"
#include "kernels/linear.h"
#include "kernels/ops.h"
#include "kernels/panel_layout.h"
#include "kernels/parallel.h"

namespace taproot {
namespace {

constexpr double kElementNs = 0.25;

}  // namespace

void QuantizedRows::resize(int rows, int columns) {
    TAPROOT_ASSERT(rows >= 0 && columns > 0 && columns % kBlockColumns == 0);
    rows_ = rows;
    columns_ = columns;
    std::size_t bytes = static_cast<std::size_t>(rows) * static_cast<std::size_t>(blocks()) *
                        sizeof(ActivationBlock);
    if (data_.bytes() >= bytes) return;
    data_ = AlignedBuffer(bytes);
    TAPROOT_ASSERT(data_.data() != nullptr);  // out of memory after start: die with a message
}

void quantize_rows(KernelContext& context, ConstRows x, QuantizedRows* out) {
    out->resize(x.rows, x.columns);
    parallel_for(context, x.rows, kElementNs * x.columns, [&](int begin, int end) {
        for (int r = begin; r < end; ++r) {
            context.ops.linear.quantize_row(x.row(r), out->blocks(), out->row(r));
        }
    });
}

void quantize_remainders(KernelContext& context, ConstRows x, const QuantizedRows& quantized,
                         Range rows, QuantizedRows* out) {
    TAPROOT_ASSERT(rows.begin >= 0 && rows.end <= x.rows && x.rows <= quantized.rows());
    TAPROOT_ASSERT(x.columns == quantized.columns());
    out->resize(quantized.rows(), x.columns);
    auto quantize_rest = [&](const float* from, const ActivationBlock& block, ActivationBlock* to) {
        float rest[kBlockColumns];
        for (int k = 0; k < kBlockColumns; ++k) {
            rest[k] = from[k] - block.d * static_cast<float>(block.q[k]);
        }
        context.ops.linear.quantize_row(rest, 1, to);
    };
    int count = rows.end - rows.begin;
    parallel_for(context, count, 2 * kElementNs * x.columns, [&](int begin, int end) {
        for (int r = rows.begin + begin; r < rows.begin + end; ++r) {
            for (int b = 0; b < out->blocks(); ++b) {
                quantize_rest(x.row(r) + b * kBlockColumns, quantized.row(r)[b], out->row(r) + b);
            }
        }
    });
}

}  // namespace taproot
