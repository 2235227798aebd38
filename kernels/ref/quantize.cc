// SPDX-License-Identifier: Apache-2.0
#include "kernels/ref/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/panel_layout.h"
#include "kernels/quantize_limits.h"

namespace taproot::ref {
namespace {

void set_empty_block(float d, ActivationBlock* out) {
    std::fill_n(out->q, kBlockColumns, std::int8_t{0});
    out->d = d;
    out->sum = 0;
    std::fill_n(out->half_sums, 2, std::int16_t{0});
    out->scaled_sum = d;
}

}  // namespace

void quantize_block(const float* x, ActivationBlock* out) {
    std::uint32_t largest = 0;
    for (int k = 0; k < kBlockColumns; ++k) {
        largest = std::max(largest, std::bit_cast<std::uint32_t>(x[k]) & kAbsMask);
    }
    if (largest >= kNotFiniteBits) {
        set_empty_block(std::numeric_limits<float>::quiet_NaN(), out);
        return;
    }
    if (largest < kTinyBits) {
        set_empty_block(0.0f, out);
        return;
    }
    auto amax = std::bit_cast<float>(largest);
    float inverse = 127.0f / amax;
    std::int32_t half_sums[2] = {};
    for (int k = 0; k < kBlockColumns; ++k) {
        // Round to nearest even (the default mode). Never beyond +-127: amax * inverse differs from
        // 127 by less than one part in 2^22.
        auto q = static_cast<std::int32_t>(std::nearbyint(x[k] * inverse));
        out->q[k] = static_cast<std::int8_t>(q);
        half_sums[k / 16] += q;
    }
    out->d = amax / 127.0f;
    for (int h = 0; h < 2; ++h) out->half_sums[h] = static_cast<std::int16_t>(half_sums[h]);
    out->sum = half_sums[0] + half_sums[1];
    out->scaled_sum = out->d * static_cast<float>(out->sum);
}

}  // namespace taproot::ref
