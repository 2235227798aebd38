// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/elementwise_ops.h"
#include "kernels/ref/exp2.h"
#include "kernels/ref/lanes.h"

namespace taproot::ref {
namespace {

void rmsnorm_row(const float* x, const float* weight, float eps, int columns, float* out) {
    float lanes[kLanes] = {};
    for (int i = 0; i < columns; ++i) lanes[i % kLanes] = std::fma(x[i], x[i], lanes[i % kLanes]);
    float mean = sum_lanes(lanes) / static_cast<float>(columns);
    float scale = 1.0f / std::sqrt(mean + eps);
    for (int i = 0; i < columns; ++i) out[i] = (x[i] * scale) * weight[i];
}

void swiglu_row(const float* gate, const float* up, int columns, float* out) {
    for (int i = 0; i < columns; ++i) out[i] = gate[i] / (1.0f + exp(-gate[i])) * up[i];
}

// (a, b) turned by the angle: each result is one rounded product and one fma.
void rotate(float* a, float* b, float cos, float sin) {
    float old_a = *a;
    float old_b = *b;
    *a = std::fma(old_a, cos, -(old_b * sin));
    *b = std::fma(old_b, cos, old_a * sin);
}

void rope_interleaved(float* x, int heads, int head_dim, const float* cos, const float* sin,
                      int rotary_dim) {
    for (int h = 0; h < heads; ++h, x += head_dim) {
        for (int i = 0; i < rotary_dim / 2; ++i) {
            rotate(&x[2 * i], &x[2 * i + 1], cos[i], sin[i]);
        }
    }
}

void rope_halves(float* x, int heads, int head_dim, const float* cos, const float* sin,
                 int rotary_dim) {
    const int half = rotary_dim / 2;
    for (int h = 0; h < heads; ++h, x += head_dim) {
        for (int i = 0; i < half; ++i) rotate(&x[i], &x[i + half], cos[i], sin[i]);
    }
}

}  // namespace

const ElementwiseOps& elementwise_ops() {
    static constexpr ElementwiseOps kOps = {rmsnorm_row, swiglu_row, rope_interleaved, rope_halves};
    return kOps;
}

}  // namespace taproot::ref
