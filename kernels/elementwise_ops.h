// SPDX-License-Identifier: Apache-2.0
#pragma once

// What one instruction set provides for elementwise.cc; see attention_ops.h for the rules.
namespace taproot {

struct ElementwiseOps {
    void (*rmsnorm_row)(const float* x, const float* weight, float eps, int columns, float* out);
    void (*swiglu_row)(const float* gate, const float* up, int columns, float* out);
    // Rotates the first rotary_dim of each head in place. cos, sin: [rotary_dim / 2].
    void (*rope_interleaved)(float* x, int heads, int head_dim, const float* cos, const float* sin,
                             int rotary_dim);
    void (*rope_halves)(float* x, int heads, int head_dim, const float* cos, const float* sin,
                        int rotary_dim);
};

namespace ref {
const ElementwiseOps& elementwise_ops();
}
namespace avx2 {
const ElementwiseOps& elementwise_ops();
}
namespace avx512 {
const ElementwiseOps& elementwise_ops();
}

}  // namespace taproot
