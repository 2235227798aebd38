// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/linear_ops.h"

namespace taproot::avx2 {

void quantize_row(const float* x, int blocks, ActivationBlock* out);
void quantized_tile(const QuantizedTile& tile);
void float_tile(const FloatTile& tile);

}  // namespace taproot::avx2
