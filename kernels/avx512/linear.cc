// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear_ops.h"

namespace taproot::avx512 {

const LinearOps& linear_ops() { return ref::linear_ops(); }

}  // namespace taproot::avx512
