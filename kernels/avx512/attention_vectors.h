// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/kv_dtype.h"
#include "kernels/quantize_limits.h"

// Reading and rounding stored keys and values, 16 at a time. Only for files of this folder.
namespace taproot::avx512 {
namespace {

template <KvDType kType>
constexpr long kElementBytes = kType == KvDType::kInt8  ? 1
                               : kType == KvDType::kF32 ? 4
                                                        : 2;

// Exact for every type.
template <KvDType kType>
inline __m512 load(const std::byte* plane, long index) {
    const std::byte* at = plane + kElementBytes<kType> * index;
    if constexpr (kType == KvDType::kF32) {
        return _mm512_loadu_ps(at);
    } else if constexpr (kType == KvDType::kInt8) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
        return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
    } else {
        const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
        if constexpr (kType == KvDType::kF16) return _mm512_cvtph_ps(halves);
        return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
    }
}

// Clamped to the finite halves; a NaN passes (min and max return their second operand for it).
inline __m256i to_half(__m512 v) {
    v = _mm512_max_ps(_mm512_set1_ps(-65504.0f), v);
    v = _mm512_min_ps(_mm512_set1_ps(65504.0f), v);
    return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

// In integers: the CPU's own conversion would flush denormals.
inline __m256i to_bfloat16(__m512 v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i high = _mm512_srli_epi32(bits, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, half), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40)));
}

// Rounded to nearest even; NaN gives 0.
inline __m128i to_int8(__m512 v) {
    const __mmask16 number = _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q);
    return _mm512_cvtepi32_epi8(_mm512_maskz_cvtps_epi32(number, v));
}

// For kernels/attention_append.h.
struct Vectors {
    using Floats = __m512;
    static constexpr int kWidth = 16;

    static __m512 load(const float* x) { return _mm512_loadu_ps(x); }
    static __m512 broadcast(float x) { return _mm512_set1_ps(x); }

    template <KvDType kType>
    static void store(std::byte* plane, long index, __m512 v) {
        std::byte* at = plane + kElementBytes<kType> * index;
        if constexpr (kType == KvDType::kF32) {
            _mm512_storeu_ps(at, v);
        } else if constexpr (kType == KvDType::kInt8) {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(at), to_int8(v));
        } else {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(at),
                                kType == KvDType::kF16 ? to_half(v) : to_bfloat16(v));
        }
    }

    static void transpose(__m512 r[16]) {
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

    static std::uint32_t largest(const float* x, int count) {
        const __m512i mask = _mm512_set1_epi32(static_cast<int>(kAbsMask));
        __m512i top = _mm512_setzero_si512();
        for (int i = 0; i < count; i += 16) {
            top = _mm512_max_epu32(top, _mm512_and_si512(_mm512_loadu_si512(x + i), mask));
        }
        return _mm512_reduce_max_epu32(top);
    }
};

}  // namespace
}  // namespace taproot::avx512
