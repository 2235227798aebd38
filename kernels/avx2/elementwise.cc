// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise_ops.h"

namespace taproot::avx2 {

const ElementwiseOps& elementwise_ops() { return ref::elementwise_ops(); }

}  // namespace taproot::avx2
