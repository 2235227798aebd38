// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/attention_ops.h"

// Rounding new keys and values into a block. Only for attention.cc of this folder.
namespace taproot::avx512 {
namespace {

// Clamped to the finite halves; a NaN passes (min and max return their second operand for it).
inline __m256i to_half(__m512 v) {
    v = _mm512_max_ps(_mm512_set1_ps(-65504.0f), v);
    v = _mm512_min_ps(_mm512_set1_ps(65504.0f), v);
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

inline void store_values(std::byte* plane, int index, __m512 v, bool f16) {
    if (f16) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(plane + 2 * static_cast<long>(index)),
                            to_half(v));
    } else {
        _mm512_storeu_ps(reinterpret_cast<float*>(plane) + index, v);
    }
}

// r[i][j] becomes r[j][i].
inline void transpose(__m512 r[16]) {
    __m512 t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        for (int k = 0; k < 2; ++k) {
            const __m512d a = _mm512_castps_pd(t[i + k]);
            const __m512d b = _mm512_castps_pd(t[i + k + 2]);
            r[i + 2 * k] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            r[i + 2 * k + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
    // Now r[4q + c] holds rows 4q .. 4q+3 of columns c, c+4, c+8, c+12, one per 128-bit lane.
    for (int c = 0; c < 4; ++c) {
        const __m512 even01 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88);
        const __m512 odd01 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd);
        const __m512 even23 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
        const __m512 odd23 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);
        t[c] = _mm512_shuffle_f32x4(even01, even23, 0x88);
        t[8 + c] = _mm512_shuffle_f32x4(even01, even23, 0xdd);
        t[4 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
        t[12 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0xdd);
    }
    for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// A whole block at once: 16 x 16 transposes.
inline void append_full_keys(const KvBlockRows& rows) {
    for (int d = 0; d < rows.head_dim; d += 16) {
        __m512 v[16];
        for (int t = 0; t < 16; ++t) v[t] = _mm512_loadu_ps(rows.k + t * rows.k_stride + d);
        transpose(v);
        for (int i = 0; i < 16; ++i) store_values(rows.k_plane, (d + i) * 16, v[i], rows.f16);
    }
}

inline void append_key(const KvBlockRows& rows, const float* k, int slot) {
    if (!rows.f16) {
        float* to = reinterpret_cast<float*>(rows.k_plane) + slot;
        for (int d = 0; d < rows.head_dim; ++d) to[d * 16] = k[d];
        return;
    }
    auto* to = reinterpret_cast<std::uint16_t*>(rows.k_plane) + slot;
    for (int d = 0; d < rows.head_dim; d += 16) {
        alignas(32) std::uint16_t halves[16];
        _mm256_store_si256(reinterpret_cast<__m256i*>(halves), to_half(_mm512_loadu_ps(k + d)));
        for (int i = 0; i < 16; ++i) to[(d + i) * 16] = halves[i];
    }
}

void append(const KvBlockRows& rows) {
    for (int t = 0; t < rows.count; ++t) {
        const float* v = rows.v + t * rows.v_stride;
        for (int d = 0; d < rows.head_dim; d += 16) {
            store_values(rows.v_plane, (rows.slot + t) * rows.head_dim + d, _mm512_loadu_ps(v + d),
                         rows.f16);
        }
    }
    if (rows.count == 16) {
        append_full_keys(rows);
        return;
    }
    for (int t = 0; t < rows.count; ++t)
        append_key(rows, rows.k + t * rows.k_stride, rows.slot + t);
}

}  // namespace
}  // namespace taproot::avx512
