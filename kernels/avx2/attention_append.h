// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/attention_ops.h"

// Rounding new keys and values into a block. Only for attention.cc of this folder.
namespace taproot::avx2 {
namespace {

// Clamped to the finite halves; a NaN passes (min and max return their second operand for it).
inline __m128i to_half(__m256 v) {
    v = _mm256_max_ps(_mm256_set1_ps(-65504.0f), v);
    v = _mm256_min_ps(_mm256_set1_ps(65504.0f), v);
    return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

inline void store_values(std::byte* plane, long index, __m256 v, bool f16) {
    if (f16) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(plane + 2 * index), to_half(v));
    } else {
        _mm256_storeu_ps(reinterpret_cast<float*>(plane) + index, v);
    }
}

// r[i][j] becomes r[j][i].
inline void transpose(__m256 r[8]) {
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int k = 0; k < 2; ++k) {
            const __m256d a = _mm256_castps_pd(t[i + k]);
            const __m256d b = _mm256_castps_pd(t[i + k + 2]);
            r[i + 2 * k] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, b));
            r[i + 2 * k + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, b));
        }
    }
    // Now r[4q + c] holds rows 4q .. 4q+3 of columns c and c+4, one per 128-bit lane.
    for (int c = 0; c < 4; ++c) {
        t[c] = _mm256_permute2f128_ps(r[c], r[4 + c], 0x20);
        t[4 + c] = _mm256_permute2f128_ps(r[c], r[4 + c], 0x31);
    }
    for (int i = 0; i < 8; ++i) r[i] = t[i];
}

// A whole block at once: 8 x 8 transposes.
inline void append_full_keys(const KvBlockRows& rows) {
    for (int d = 0; d < rows.head_dim; d += 8) {
        for (int half = 0; half < 16; half += 8) {
            __m256 v[8];
            for (int t = 0; t < 8; ++t) {
                v[t] = _mm256_loadu_ps(rows.k + (half + t) * rows.k_stride + d);
            }
            transpose(v);
            for (int i = 0; i < 8; ++i) {
                store_values(rows.k_plane, (d + i) * 16 + half, v[i], rows.f16);
            }
        }
    }
}

inline void append_key(const KvBlockRows& rows, const float* k, int slot) {
    if (!rows.f16) {
        float* to = reinterpret_cast<float*>(rows.k_plane) + slot;
        for (int d = 0; d < rows.head_dim; ++d) to[d * 16] = k[d];
        return;
    }
    auto* to = reinterpret_cast<std::uint16_t*>(rows.k_plane) + slot;
    for (int d = 0; d < rows.head_dim; d += 8) {
        alignas(16) std::uint16_t halves[8];
        _mm_store_si128(reinterpret_cast<__m128i*>(halves), to_half(_mm256_loadu_ps(k + d)));
        for (int i = 0; i < 8; ++i) to[(d + i) * 16] = halves[i];
    }
}

void append(const KvBlockRows& rows) {
    for (int t = 0; t < rows.count; ++t) {
        const float* v = rows.v + t * rows.v_stride;
        for (int d = 0; d < rows.head_dim; d += 8) {
            store_values(rows.v_plane, (rows.slot + t) * static_cast<long>(rows.head_dim) + d,
                         _mm256_loadu_ps(v + d), rows.f16);
        }
    }
    if (rows.count == 16) {
        append_full_keys(rows);
        return;
    }
    for (int t = 0; t < rows.count; ++t) {
        append_key(rows, rows.k + t * rows.k_stride, rows.slot + t);
    }
}

}  // namespace
}  // namespace taproot::avx2
