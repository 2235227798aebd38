// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/exp2_constants.h"

// The exponentials of ref/exp2.h, 8 at a time, and the 16-lane fold. Only for files of this folder.
namespace taproot::avx2 {
namespace {

inline __m256 exp2_parts(__m256i n, __m256 f) {
    __m256 p = _mm256_fmadd_ps(f, _mm256_set1_ps(kExp2C6), _mm256_set1_ps(kExp2C5));
    p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(kExp2C4));
    p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(kExp2C3));
    p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(kExp2C2));
    p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(kExp2C1));
    p = _mm256_fmadd_ps(f, p, _mm256_set1_ps(1.0f));
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(n, 23)));
}

// For x <= 0 and NaN: no overflow to care about. (A NaN converts to 0x80000000, which adds 0.)
inline __m256 exp2_not_positive(__m256 x) {
    const __m256i n = _mm256_cvtps_epi32(x);
    const __m256 f = _mm256_sub_ps(x, _mm256_cvtepi32_ps(n));
    const __m256 in_range = _mm256_cmp_ps(x, _mm256_set1_ps(kExp2Underflow), _CMP_NLT_UQ);
    return _mm256_and_ps(in_range, exp2_parts(n, f));
}

inline __m256 exp(__m256 x) {
    const __m256 t = _mm256_mul_ps(x, _mm256_set1_ps(kLog2E));
    const __m256i n = _mm256_cvtps_epi32(t);
    __m256 f = _mm256_fmsub_ps(x, _mm256_set1_ps(kLog2E), _mm256_cvtepi32_ps(n));
    f = _mm256_fmadd_ps(x, _mm256_set1_ps(kLog2ELow), f);
    const __m256 in_range = _mm256_cmp_ps(t, _mm256_set1_ps(kExp2Underflow), _CMP_NLT_UQ);
    const __m256 over = _mm256_cmp_ps(t, _mm256_set1_ps(kExp2Overflow), _CMP_GE_OQ);
    const __m256 value = _mm256_and_ps(in_range, exp2_parts(n, f));
    return _mm256_blendv_ps(value, _mm256_set1_ps(__builtin_inff()), over);
}

// Lanes 0..7 and 8..15 fold in halves: i + (i + 8), then + 4, + 2, + 1.
inline float sum_lanes(__m256 low, __m256 high) {
    const __m256 eight = _mm256_add_ps(low, high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline float max_lanes(__m256 eight) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

// All bits set in the lanes below `count` (any number).
inline __m256i first_lanes(int count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
}

}  // namespace
}  // namespace taproot::avx2
