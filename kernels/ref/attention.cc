// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention_ops.h"
#include "kernels/half.h"
#include "kernels/ref/exp2.h"
#include "kernels/ref/lanes.h"

namespace taproot::ref {
namespace {

constexpr float kHalfMax = 65504.0f;

// Round to nearest even after clamping to the finite range; NaN stays NaN (quiet, payload cut), as
// the hardware conversion does.
std::uint16_t float_to_half(float value) {
    if (value == value) value = std::fmin(std::fmax(value, -kHalfMax), kHalfMax);
    auto bits = std::bit_cast<std::uint32_t>(value);
    auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
    std::uint32_t magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return static_cast<std::uint16_t>(sign | 0x7e00u | (magnitude >> 13 & 0x1ffu));
    }
    if (magnitude < 0x38800000u) {  // below 2^-14: a subnormal half, in units of 2^-24
        float units = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f);
        return static_cast<std::uint16_t>(sign | static_cast<std::uint32_t>(units));
    }
    std::uint32_t odd = magnitude >> 13 & 1u;
    std::uint32_t rounded = magnitude + 0xfffu + odd;
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

void store(std::byte* plane, int index, float value, bool f16) {
    if (f16) {
        std::uint16_t half = float_to_half(value);
        std::memcpy(plane + 2 * std::ptrdiff_t{index}, &half, sizeof half);
    } else {
        std::memcpy(plane + 4 * std::ptrdiff_t{index}, &value, sizeof value);
    }
}

float load(const std::byte* plane, int index, bool f16) {
    if (f16) {
        std::uint16_t half;
        std::memcpy(&half, plane + 2 * std::ptrdiff_t{index}, sizeof half);
        return half_to_float(half);
    }
    float value;
    std::memcpy(&value, plane + 4 * std::ptrdiff_t{index}, sizeof value);
    return value;
}

void append(const KvBlockRows& rows) {
    for (int i = 0; i < rows.count; ++i) {
        const float* k = rows.k + i * rows.k_stride;
        const float* v = rows.v + i * rows.v_stride;
        const int slot = rows.slot + i;
        for (int d = 0; d < rows.head_dim; ++d) {
            store(rows.k_plane, d * kLanes + slot, k[d], rows.f16);
            store(rows.v_plane, slot * rows.head_dim + d, v[d], rows.f16);
        }
    }
}

// The tile in float32: keys [head_dim][128], values [128][head_dim]; only what some row sees.
struct TileValues {
    float* keys;
    float* values;
};

TileValues to_float(const AttentionTile& tile, int tokens) {
    const int dims = tile.head_dim;
    TileValues to = {tile.scratch, tile.scratch + std::ptrdiff_t{kTileTokens} * dims};
    for (int t = 0; t < tokens; ++t) {
        for (int d = 0; d < dims; ++d) {
            const std::byte* k = tile.k[t / kLanes];
            const std::byte* v = tile.v[t / kLanes];
            to.keys[d * kTileTokens + t] = load(k, d * kLanes + t % kLanes, tile.f16);
            to.values[t * dims + d] = load(v, t % kLanes * dims + d, tile.f16);
        }
    }
    return to;
}

void tile_row(const AttentionTile& tile, const TileValues& kv, int row) {
    const int limit = tile.limits[row];
    const int dims = tile.head_dim;
    const float* q = tile.q + std::ptrdiff_t{row} * dims;
    float* out = tile.out + std::ptrdiff_t{row} * dims;

    float weights[kTileTokens];  // scores, then 2^(score - max)
    float max = -std::numeric_limits<float>::infinity();
    for (int t = 0; t < limit; ++t) {
        float score = 0.0f;
        for (int d = 0; d < dims; ++d) {
            score = std::fma(q[d], kv.keys[d * kTileTokens + t], score);
        }
        weights[t] = score;
        max = score > max ? score : max;  // a NaN score is no maximum; it reaches the sum below
    }

    float lanes[kLanes] = {};
    for (int t = 0; t < limit; ++t) {
        weights[t] = exp2(weights[t] - max);
        lanes[t % kLanes] = lanes[t % kLanes] + weights[t];
    }

    for (int d = 0; d < dims; ++d) {
        float total = 0.0f;
        for (int t = 0; t < limit; ++t) {
            total = std::fma(weights[t], kv.values[t * dims + d], total);
        }
        out[d] = total;
    }
    tile.max[row] = max;
    tile.sum[row] = sum_lanes(lanes);
}

void tile(const AttentionTile& tile) {
    int tokens = 0;
    for (int row = 0; row < tile.rows; ++row) tokens = std::max(tokens, tile.limits[row]);
    const TileValues kv = to_float(tile, tokens);
    for (int row = 0; row < tile.rows; ++row) {
        if (tile.limits[row] > 0) tile_row(tile, kv, row);
    }
}

void merge(int rows, int head_dim, const AttentionState& state, const AttentionState& next) {
    for (int r = 0; r < rows; ++r) {
        float max = next.max[r] > state.max[r] ? next.max[r] : state.max[r];
        float a = exp2(state.max[r] - max);
        float b = exp2(next.max[r] - max);
        state.max[r] = max;
        state.sum[r] = std::fma(next.sum[r], b, state.sum[r] * a);
        float* out = state.out + std::ptrdiff_t{r} * head_dim;
        const float* more = next.out + std::ptrdiff_t{r} * head_dim;
        for (int d = 0; d < head_dim; ++d) out[d] = std::fma(more[d], b, out[d] * a);
    }
}

void finish(int head_dim, const float* out, float sum, float* to) {
    float inverse = 1.0f / sum;
    for (int d = 0; d < head_dim; ++d) to[d] = out[d] * inverse;
}

}  // namespace

const AttentionOps& attention_ops() {
    static constexpr AttentionOps kOps = {append, tile, merge, finish};
    return kOps;
}

}  // namespace taproot::ref
