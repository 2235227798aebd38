// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/kv_dtype.h"
#include "kernels/quantize_limits.h"

// Reading and rounding stored keys and values, 8 at a time. Only for files of this folder.
namespace taproot::avx2 {
namespace {

template <KvDType kType>
constexpr long kElementBytes = kType == KvDType::kInt8  ? 1
                               : kType == KvDType::kF32 ? 4
                                                        : 2;

// Exact for every type.
template <KvDType kType>
inline __m256 load(const std::byte* plane, long index) {
    const std::byte* at = plane + kElementBytes<kType> * index;
    if constexpr (kType == KvDType::kF32) {
        return _mm256_loadu_ps(reinterpret_cast<const float*>(at));
    } else if constexpr (kType == KvDType::kInt8) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(at));
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    } else {
        const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
        if constexpr (kType == KvDType::kF16) return _mm256_cvtph_ps(halves);
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
}

// Clamped to the finite halves; a NaN passes (min and max return their second operand for it).
inline __m128i to_half(__m256 v) {
    v = _mm256_max_ps(_mm256_set1_ps(-65504.0f), v);
    v = _mm256_min_ps(_mm256_set1_ps(65504.0f), v);
    return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

inline __m128i to_bfloat16(__m256 v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i both = _mm256_blendv_epi8(rounded, quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
}

// Rounded to nearest even; NaN gives 0. The result is in the low half.
inline __m128i to_int8(__m256 v) {
    const __m256i q = _mm256_cvtps_epi32(_mm256_and_ps(v, _mm256_cmp_ps(v, v, _CMP_ORD_Q)));
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1));
    return _mm_packs_epi16(words, words);
}

// For kernels/attention_append.h.
struct Vectors {
    using Floats = __m256;
    static constexpr int kWidth = 8;

    static __m256 load(const float* x) { return _mm256_loadu_ps(x); }
    static __m256 broadcast(float x) { return _mm256_set1_ps(x); }

    template <KvDType kType>
    static void store(std::byte* plane, long index, __m256 v) {
        std::byte* at = plane + kElementBytes<kType> * index;
        if constexpr (kType == KvDType::kF32) {
            _mm256_storeu_ps(reinterpret_cast<float*>(at), v);
        } else if constexpr (kType == KvDType::kInt8) {
            _mm_storel_epi64(reinterpret_cast<__m128i*>(at), to_int8(v));
        } else {
            _mm_storeu_si128(reinterpret_cast<__m128i*>(at),
                             kType == KvDType::kF16 ? to_half(v) : to_bfloat16(v));
        }
    }

    static void transpose(__m256 r[8]) {
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

    static std::uint32_t largest(const float* x, int count) {
        const __m256i mask = _mm256_set1_epi32(static_cast<int>(kAbsMask));
        __m256i top = _mm256_setzero_si256();
        for (int i = 0; i < count; i += 8) {
            const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i));
            top = _mm256_max_epu32(top, _mm256_and_si256(bits, mask));
        }
        __m128i m = _mm_max_epu32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
        m = _mm_max_epu32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
        m = _mm_max_epu32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
        return static_cast<std::uint32_t>(_mm_cvtsi128_si32(m));
    }
};

}  // namespace
}  // namespace taproot::avx2
