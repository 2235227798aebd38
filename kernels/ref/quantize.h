// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_ops.h"

namespace taproot::ref {

// Quantises the 32 values at x.
void quantize_block(const float* x, ActivationBlock* out);

}  // namespace taproot::ref
