// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_ops.h"

namespace taproot::ref {

// Quantises the 32 values at x into block `b` of `out`.
void quantize_block(const float* x, int b, QuantizedRow out);

}  // namespace taproot::ref
