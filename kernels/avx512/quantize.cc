// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "kernels/avx512/linear_kernels.h"
#include "kernels/panel_layout.h"
#include "kernels/quantize_limits.h"

namespace taproot::avx512 {
namespace {

void set_empty_block(float d, ActivationBlock* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->q), _mm256_setzero_si256());
    out->d = d;
    out->sum = 0;
    out->half_sums[0] = out->half_sums[1] = 0;
    out->scaled_sum = d;
}

void quantize_block(const float* x, ActivationBlock* out) {
    __m512 low = _mm512_loadu_ps(x);
    __m512 high = _mm512_loadu_ps(x + 16);
    const __m512i mask = _mm512_set1_epi32(static_cast<int>(kAbsMask));
    __m512i bits = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), mask),
                                    _mm512_and_si512(_mm512_castps_si512(high), mask));
    auto largest = static_cast<std::uint32_t>(_mm512_reduce_max_epu32(bits));
    if (largest >= kNotFiniteBits) return set_empty_block(__builtin_nanf(""), out);
    if (largest < kTinyBits) return set_empty_block(0.0f, out);
    float amax = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(largest))));
    __m512 inverse = _mm512_set1_ps(127.0f / amax);
    // The conversion rounds to nearest even (the default mode).
    __m512i q_low = _mm512_cvtps_epi32(_mm512_mul_ps(low, inverse));
    __m512i q_high = _mm512_cvtps_epi32(_mm512_mul_ps(high, inverse));
    __m256i q = _mm256_set_m128i(_mm512_cvtepi32_epi8(q_high), _mm512_cvtepi32_epi8(q_low));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->q), q);
    // Sums of four neighbours, then of the four sums in each half.
    __m256i fours = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), q);
    __m256i eights = _mm256_hadd_epi32(fours, fours);
    __m256i halves = _mm256_hadd_epi32(eights, eights);
    int low_sum = _mm256_cvtsi256_si32(halves);
    int high_sum = _mm_cvtsi128_si32(_mm256_extracti128_si256(halves, 1));
    int sum = low_sum + high_sum;
    out->d = amax / 127.0f;
    out->sum = sum;
    out->half_sums[0] = static_cast<std::int16_t>(low_sum);
    out->half_sums[1] = static_cast<std::int16_t>(high_sum);
    out->scaled_sum = out->d * static_cast<float>(sum);
}

}  // namespace

void quantize_row(const float* x, int blocks, ActivationBlock* out) {
    for (int b = 0; b < blocks; ++b) quantize_block(x + b * kBlockColumns, out + b);
}

}  // namespace taproot::avx512
