// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstring>

#include "kernels/attention_ops.h"
#include "kernels/quantize_limits.h"

// Rounding new keys and values into a block, for a vector type V of one instruction set:
//   V::Floats, V::kWidth               kWidth float32 lanes; 8 or 16
//   V::load(x), V::broadcast(f)
//   V::store<dtype>(plane, index, v)   rounds kWidth values to elements index, index + 1, ...
//   V::transpose(v)                    v[i][j] becomes v[j][i]
//   V::largest(x, count)               bits of the largest |x|, as unsigned integers order them
// Only for attention.cc of an instruction set's folder: everything here has internal linkage.
namespace taproot {
namespace {

// Of the values of a head's vector: x * inverse is stored as int8, and stands for that times scale.
struct TokenScales {
    alignas(64) float inverse[16];
    alignas(64) float scale[16];

    template <typename V>
    void set(int i, const float* x, int dims) {
        const std::uint32_t largest = V::largest(x, dims);
        const bool finite = largest < kNotFiniteBits;
        const bool zero = !finite || largest < kTinyBits;
        const float amax = std::bit_cast<float>(largest);
        inverse[i] = zero ? 0.0f : 127.0f / amax;
        scale[i] = !finite ? __builtin_nanf("") : zero ? 0.0f : amax / 127.0f;
    }
};

constexpr long element_bytes(KvDType dtype) {
    return dtype == KvDType::kInt8 ? 1 : dtype == KvDType::kF32 ? 4 : 2;
}

template <typename V, KvDType kType>
inline void append_values(const KvBlockRows& rows, const TokenScales& scales) {
    for (int t = 0; t < rows.count; ++t) {
        const float* v = rows.v + t * rows.v_stride;
        const long at = (rows.slot + t) * static_cast<long>(rows.head_dim);
        for (int d = 0; d < rows.head_dim; d += V::kWidth) {
            typename V::Floats x = V::load(v + d);
            if constexpr (kType == KvDType::kInt8) x = x * V::broadcast(scales.inverse[t]);
            V::template store<kType>(rows.v_plane, at + d, x);
        }
    }
}

// A whole block at once, by transposes: a lane is a token.
template <typename V, KvDType kType>
inline void append_full_keys(const KvBlockRows& rows, const TokenScales& scales) {
    for (int d = 0; d < rows.head_dim; d += V::kWidth) {
        for (int first = 0; first < 16; first += V::kWidth) {
            typename V::Floats x[V::kWidth];
            for (int t = 0; t < V::kWidth; ++t) {
                x[t] = V::load(rows.k + (first + t) * rows.k_stride + d);
            }
            V::transpose(x);
            for (int i = 0; i < V::kWidth; ++i) {
                if constexpr (kType == KvDType::kInt8)
                    x[i] = x[i] * V::load(scales.inverse + first);
                V::template store<kType>(rows.k_plane, (d + i) * 16 + first, x[i]);
            }
        }
    }
}

template <typename V, KvDType kType>
inline void append_key(const KvBlockRows& rows, const float* k, int slot, float inverse) {
    constexpr long kBytes = element_bytes(kType);
    std::byte* to = rows.k_plane + kBytes * slot;
    for (int d = 0; d < rows.head_dim; d += V::kWidth) {
        typename V::Floats x = V::load(k + d);
        if constexpr (kType == KvDType::kInt8) x = x * V::broadcast(inverse);
        std::byte rounded[kBytes * V::kWidth];
        V::template store<kType>(rounded, 0, x);
        for (int i = 0; i < V::kWidth; ++i, to += 16 * kBytes) {
            std::memcpy(to, rounded + i * kBytes, kBytes);
        }
    }
}

template <typename V>
inline void set_scales(std::byte* plane, const float* x, std::int64_t stride,
                       const KvBlockRows& rows, TokenScales* scales) {
    for (int t = 0; t < rows.count; ++t) scales->set<V>(t, x + t * stride, rows.head_dim);
    std::memcpy(plane + 16L * rows.head_dim + sizeof(float) * static_cast<std::size_t>(rows.slot),
                scales->scale, sizeof(float) * static_cast<std::size_t>(rows.count));
}

template <typename V, KvDType kType>
void append_as(const KvBlockRows& rows) {
    constexpr bool kScaled = kType == KvDType::kInt8;
    TokenScales scales;
    if constexpr (kScaled) set_scales<V>(rows.v_plane, rows.v, rows.v_stride, rows, &scales);
    append_values<V, kType>(rows, scales);
    if constexpr (kScaled) set_scales<V>(rows.k_plane, rows.k, rows.k_stride, rows, &scales);
    if (rows.count == 16) return append_full_keys<V, kType>(rows, scales);
    for (int t = 0; t < rows.count; ++t) {
        append_key<V, kType>(rows, rows.k + t * rows.k_stride, rows.slot + t,
                             kScaled ? scales.inverse[t] : 1.0f);
    }
}

template <typename V>
void append_rows(const KvBlockRows& rows) {
    switch (rows.dtype) {
        case KvDType::kF16:
            return append_as<V, KvDType::kF16>(rows);
        case KvDType::kF32:
            return append_as<V, KvDType::kF32>(rows);
        case KvDType::kBf16:
            return append_as<V, KvDType::kBf16>(rows);
        case KvDType::kInt8:
            return append_as<V, KvDType::kInt8>(rows);
    }
}

}  // namespace
}  // namespace taproot
