// SPDX-License-Identifier: Apache-2.0
#include "kernels/avx512/linear_kernels.h"

namespace taproot::avx512 {

const LinearOps& linear_ops() {
    static constexpr LinearOps kOps{&quantize_row, &quantized_tile, &float_tile};
    return kOps;
}

}  // namespace taproot::avx512
