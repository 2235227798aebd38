// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "kernels/attention_ops.h"
#include "kernels/elementwise_ops.h"
#include "kernels/linear_ops.h"

namespace taproot {

// The functions of one instruction set. Every set gives the bits that ref/ defines.
struct Ops {
    std::string_view name;
    const LinearOps& linear;
    const AttentionOps& attention;
    const ElementwiseOps& elementwise;
};

}  // namespace taproot
