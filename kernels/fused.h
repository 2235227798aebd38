// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/context.h"
#include "kernels/linear.h"

namespace taproot {

// Two row operations in one pass: the row is quantised by the thread that made it, while it is in
// its cache. Bits equal those of the two calls.

// rmsnorm, then quantize_rows of its result. out may be x.
void rmsnorm_quantized(KernelContext& context, ConstRows x, const float* weight, float eps,
                       Rows out, QuantizedRows* quantized);
// swiglu, then quantize_rows of its result. out may be gate.
void swiglu_quantized(KernelContext& context, ConstRows gate, ConstRows up, Rows out,
                      QuantizedRows* quantized);

}  // namespace taproot
