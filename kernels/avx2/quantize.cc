// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "kernels/avx2/linear_kernels.h"
#include "kernels/panel_layout.h"
#include "kernels/quantize_limits.h"
#include "kernels/unroll.h"

namespace taproot::avx2 {
namespace {

TAPROOT_INLINE std::uint32_t max_lane(__m256i v) {
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(m));
}
// Lane 0: the sum of `low`'s lanes, lane 1: of `high`'s.
TAPROOT_INLINE __m128i sum_lanes(__m256i low, __m256i high) {
    __m256i s = _mm256_hadd_epi32(low, high);  // sums of pairs: two of low, two of high, per half
    __m128i pairs = _mm_add_epi32(_mm256_castsi256_si128(s), _mm256_extracti128_si256(s, 1));
    return _mm_hadd_epi32(pairs, pairs);
}

void set_empty_block(float d, ActivationBlock* out) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->q), _mm256_setzero_si256());
    out->d = d;
    out->sum = 0;
    out->half_sums[0] = out->half_sums[1] = 0;
    out->scaled_sum = d;
}

void quantize_block(const float* x, ActivationBlock* out) {
    const __m256i mask = _mm256_set1_epi32(static_cast<int>(kAbsMask));
    __m256 values[4];
    __m256i bits = _mm256_setzero_si256();
    unroll<4>([&](auto i) TAPROOT_INLINE_LAMBDA {
        values[i.value] = _mm256_loadu_ps(x + 8 * i.value);
        bits = _mm256_max_epu32(bits, _mm256_and_si256(_mm256_castps_si256(values[i.value]), mask));
    });
    std::uint32_t largest = max_lane(bits);
    if (largest >= kNotFiniteBits) return set_empty_block(__builtin_nanf(""), out);
    if (largest < kTinyBits) return set_empty_block(0.0f, out);
    float amax = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(largest))));
    __m256 inverse = _mm256_set1_ps(127.0f / amax);
    __m256i q[4];
    // The conversion rounds to nearest even (the default mode).
    unroll<4>([&](auto i) TAPROOT_INLINE_LAMBDA {
        q[i.value] = _mm256_cvtps_epi32(_mm256_mul_ps(values[i.value], inverse));
    });
    __m128i half_sums = sum_lanes(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3]));
    std::int32_t sum = _mm_cvtsi128_si32(half_sums) + _mm_extract_epi32(half_sums, 1);
    __m256i bytes =
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    // Packing works within 128-bit halves: put the groups of four back in order.
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out->q), bytes);
    out->d = amax / 127.0f;
    out->sum = sum;
    int packed = _mm_cvtsi128_si32(_mm_packs_epi32(half_sums, half_sums));
    __builtin_memcpy(out->half_sums, &packed, sizeof packed);
    out->scaled_sum = out->d * static_cast<float>(sum);
}

}  // namespace

void quantize_row(const float* x, int blocks, ActivationBlock* out) {
    for (int b = 0; b < blocks; ++b) quantize_block(x + b * kBlockColumns, out + b);
}

}  // namespace taproot::avx2
