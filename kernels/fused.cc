// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused.h"

#include "base/assert.h"
#include "kernels/ops.h"
#include "kernels/parallel.h"

namespace taproot {

void rmsnorm_quantized(KernelContext& context, ConstRows x, const float* weight, float eps,
                       Rows out, QuantizedRows* quantized) {
    TAPROOT_ASSERT(x.rows == out.rows && x.columns == out.columns);
    quantized->resize(x.rows, x.columns);
    auto norm = context.ops.elementwise.rmsnorm_row;
    auto quantize = context.ops.linear.quantize_row;
    parallel_for(context, x.rows, 0.5 * x.columns, [&](int begin, int end) {
        for (int r = begin; r < end; ++r) {
            norm(x.row(r), weight, eps, x.columns, out.row(r));
            quantize(out.row(r), quantized->blocks(), quantized->row(r));
        }
    });
}

void swiglu_quantized(KernelContext& context, ConstRows gate, ConstRows up, Rows out,
                      QuantizedRows* quantized) {
    TAPROOT_ASSERT(gate.rows == out.rows && up.rows == out.rows);
    TAPROOT_ASSERT(gate.columns == out.columns && up.columns == out.columns);
    quantized->resize(out.rows, out.columns);
    auto swiglu = context.ops.elementwise.swiglu_row;
    auto quantize = context.ops.linear.quantize_row;
    parallel_for(context, out.rows, 0.9 * out.columns, [&](int begin, int end) {
        for (int r = begin; r < end; ++r) {
            swiglu(gate.row(r), up.row(r), out.columns, out.row(r));
            quantize(out.row(r), quantized->blocks(), quantized->row(r));
        }
    });
}

}  // namespace taproot
