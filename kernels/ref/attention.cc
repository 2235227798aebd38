// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention_ops.h"
#include "kernels/half.h"
#include "kernels/quantize_limits.h"
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

// Round to nearest even; NaN stays NaN. No clamp: the range is float32's.
std::uint16_t float_to_bfloat16(float value) {
    auto bits = std::bit_cast<std::uint32_t>(value);
    if (value != value) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <typename T>
void put(std::byte* plane, int index, T value) {
    std::memcpy(plane + static_cast<std::ptrdiff_t>(sizeof value) * index, &value, sizeof value);
}

template <typename T>
T get(const std::byte* plane, int index) {
    T value;
    std::memcpy(&value, plane + static_cast<std::ptrdiff_t>(sizeof value) * index, sizeof value);
    return value;
}

void store(std::byte* plane, int index, float value, KvDType dtype) {
    switch (dtype) {
        case KvDType::kF16:
            return put(plane, index, float_to_half(value));
        case KvDType::kF32:
            return put(plane, index, value);
        case KvDType::kBf16:
            return put(plane, index, float_to_bfloat16(value));
        case KvDType::kInt8:
            return put(plane, index, static_cast<std::int8_t>(std::nearbyint(value)));
    }
}

float load(const std::byte* plane, int index, KvDType dtype) {
    switch (dtype) {
        case KvDType::kF16:
            return half_to_float(get<std::uint16_t>(plane, index));
        case KvDType::kF32:
            return get<float>(plane, index);
        case KvDType::kBf16:
            return bfloat16_to_float(get<std::uint16_t>(plane, index));
        case KvDType::kInt8:
            return static_cast<float>(get<std::int8_t>(plane, index));
    }
    return 0.0f;
}

// The scales of a plane's 16 tokens follow its values; other types need none.
constexpr int scales_at(int head_dim) {
    return kLanes * head_dim;
}

float load_scale(const std::byte* plane, int slot, const AttentionTile& tile) {
    if (tile.dtype != KvDType::kInt8) return 1.0f;
    return get<float>(plane + scales_at(tile.head_dim), slot);
}

// One token's key or value vector, values `stride` elements apart in the plane.
void store_vector(std::byte* plane, int first, int stride, int slot, const float* x,
                  const KvBlockRows& rows) {
    if (rows.dtype != KvDType::kInt8) {
        for (int d = 0; d < rows.head_dim; ++d) store(plane, first + d * stride, x[d], rows.dtype);
        return;
    }
    std::uint32_t largest = 0;
    for (int d = 0; d < rows.head_dim; ++d) {
        largest = std::max(largest, std::bit_cast<std::uint32_t>(x[d]) & kAbsMask);
    }
    const bool finite = largest < kNotFiniteBits;
    const bool zero = !finite || largest < kTinyBits;
    const auto amax = std::bit_cast<float>(largest);
    const float inverse = 127.0f / amax;
    for (int d = 0; d < rows.head_dim; ++d) {
        store(plane, first + d * stride, zero ? 0.0f : x[d] * inverse, rows.dtype);
    }
    float scale = zero ? 0.0f : amax / 127.0f;
    if (!finite) scale = std::numeric_limits<float>::quiet_NaN();
    put(plane + scales_at(rows.head_dim), slot, scale);
}

void append(const KvBlockRows& rows) {
    for (int i = 0; i < rows.count; ++i) {
        const int slot = rows.slot + i;
        store_vector(rows.k_plane, slot, kLanes, slot, rows.k + i * rows.k_stride, rows);
        store_vector(rows.v_plane, slot * rows.head_dim, 1, slot, rows.v + i * rows.v_stride, rows);
    }
}

// The tile as stored, in float32: keys [head_dim][128], values [128][head_dim], and the factor of
// each token's (1 but with int8). Only what some row sees.
struct TileValues {
    float* keys;
    float* values;
    float key_scales[kTileTokens];
    float value_scales[kTileTokens];
};

TileValues to_float(const AttentionTile& tile, int tokens) {
    const int dims = tile.head_dim;
    TileValues to;
    to.keys = tile.scratch;
    to.values = tile.scratch + std::ptrdiff_t{kTileTokens} * dims;
    for (int t = 0; t < tokens; ++t) {
        const std::byte* k = tile.k[t / kLanes];
        const std::byte* v = tile.v[t / kLanes];
        to.key_scales[t] = load_scale(k, t % kLanes, tile);
        to.value_scales[t] = load_scale(v, t % kLanes, tile);
        for (int d = 0; d < dims; ++d) {
            to.keys[d * kTileTokens + t] = load(k, d * kLanes + t % kLanes, tile.dtype);
            to.values[t * dims + d] = load(v, t % kLanes * dims + d, tile.dtype);
        }
    }
    return to;
}

void tile_row(const AttentionTile& tile, const TileValues& kv, int row) {
    const int limit = tile.limits[row];
    const int dims = tile.head_dim;
    const float* q = tile.q + std::ptrdiff_t{row} * dims;
    float* out = tile.out + std::ptrdiff_t{row} * dims;

    float weights[kTileTokens];  // scores, then 2^(score - max) times the value's scale
    float max = -std::numeric_limits<float>::infinity();
    for (int t = 0; t < limit; ++t) {
        float score = 0.0f;
        for (int d = 0; d < dims; ++d) {
            score = std::fma(q[d], kv.keys[d * kTileTokens + t], score);
        }
        score = score * kv.key_scales[t];
        weights[t] = score;
        max = score > max ? score : max;  // a NaN score is no maximum; it reaches the sum below
    }

    float lanes[kLanes] = {};
    for (int t = 0; t < limit; ++t) {
        weights[t] = exp2(weights[t] - max);
        lanes[t % kLanes] = lanes[t % kLanes] + weights[t];
        weights[t] = weights[t] * kv.value_scales[t];
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
