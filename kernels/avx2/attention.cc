// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_ops.h"

namespace taproot::avx2 {

const AttentionOps& attention_ops() { return ref::attention_ops(); }

}  // namespace taproot::avx2
