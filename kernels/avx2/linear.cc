// SPDX-License-Identifier: Apache-2.0
#include "kernels/avx2/linear_kernels.h"

namespace taproot::avx2 {

const LinearOps& linear_ops() {
    static constexpr LinearOps kOps{&quantize_row, &quantized_tile, &float_tile};
    return kOps;
}

}  // namespace taproot::avx2
