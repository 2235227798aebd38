// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/exp2_constants.h"

// The exponentials of ref/exp2.h, 16 at a time, and the 16-lane fold. Only for files of this
// folder.
namespace taproot::avx512 {
namespace {

inline __m512 exp2_polynomial(__m512 f) {
    __m512 p = _mm512_fmadd_ps(f, _mm512_set1_ps(kExp2C6), _mm512_set1_ps(kExp2C5));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(kExp2C4));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(kExp2C3));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(kExp2C2));
    p = _mm512_fmadd_ps(f, p, _mm512_set1_ps(kExp2C1));
    return _mm512_fmadd_ps(f, p, _mm512_set1_ps(1.0f));
}

// p * 2^n by adding to the exponent bits; 0 outside the mask.
inline __m512 scale(__m512 p, __m512i n, __mmask16 in_range) {
    return _mm512_castsi512_ps(
        _mm512_maskz_add_epi32(in_range, _mm512_castps_si512(p), _mm512_slli_epi32(n, 23)));
}

// For x <= 0 and NaN: no overflow to care about. (A NaN converts to 0x80000000, which adds 0.)
inline __m512 exp2_not_positive(__m512 x) {
    const __m512i n = _mm512_cvtps_epi32(x);
    const __m512 f = _mm512_sub_ps(x, _mm512_cvtepi32_ps(n));
    const __mmask16 in_range = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kExp2Underflow), _CMP_NLT_UQ);
    return scale(exp2_polynomial(f), n, in_range);
}

inline __m512 exp(__m512 x) {
    const __m512 t = _mm512_mul_ps(x, _mm512_set1_ps(kLog2E));
    const __m512i n = _mm512_cvtps_epi32(t);
    __m512 f = _mm512_fmsub_ps(x, _mm512_set1_ps(kLog2E), _mm512_cvtepi32_ps(n));
    f = _mm512_fmadd_ps(x, _mm512_set1_ps(kLog2ELow), f);
    const __mmask16 in_range = _mm512_cmp_ps_mask(t, _mm512_set1_ps(kExp2Underflow), _CMP_NLT_UQ);
    const __mmask16 over = _mm512_cmp_ps_mask(t, _mm512_set1_ps(kExp2Overflow), _CMP_GE_OQ);
    const __m512 value = scale(exp2_polynomial(f), n, in_range);
    return _mm512_mask_mov_ps(value, over, _mm512_set1_ps(__builtin_inff()));
}

// Lanes fold in halves: i + (i + 8), then + 4, + 2, + 1.
inline float sum_lanes(__m512 lanes) {
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float max_lanes(__m512 lanes) {
    const __m256 eight =
        _mm256_max_ps(_mm512_castps512_ps256(lanes), _mm512_extractf32x8_ps(lanes, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline __mmask16 first_lanes(int count) {
    return static_cast<__mmask16>(count >= 16 ? 0xffffu : (1u << count) - 1u);
}

}  // namespace
}  // namespace taproot::avx512
