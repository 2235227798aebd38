// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "kernels/roof_ops.h"

namespace taproot::avx2 {
namespace {

constexpr int kChains = 12;

// Without VNNI a 4-product sum is maddubs, madd with ones, add.
float int8(std::int64_t rounds) {
    __m256i sums[kChains];
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_epi32(i);
    __m256i a = _mm256_set1_epi8(3);
    const __m256i b = _mm256_set1_epi8(-2);
    const __m256i ones = _mm256_set1_epi16(1);
    for (std::int64_t r = 0; r < rounds; ++r) {
        for (int i = 0; i < kChains; ++i) {
            __asm__("" : "+v"(a));  // the product must not be hoisted
            const __m256i pairs = _mm256_maddubs_epi16(a, b);
            sums[i] = _mm256_add_epi32(sums[i], _mm256_madd_epi16(pairs, ones));
        }
    }
    __m256i total = sums[0];
    for (int i = 1; i < kChains; ++i) total = _mm256_xor_si256(total, sums[i]);
    return static_cast<float>(_mm_cvtsi128_si32(_mm256_castsi256_si128(total)));
}

float fp32(std::int64_t rounds) {
    __m256 sums[kChains];
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
    const __m256 a = _mm256_set1_ps(0.999f);
    const __m256 b = _mm256_set1_ps(1.0f);
    for (std::int64_t r = 0; r < rounds; ++r) {
        for (int i = 0; i < kChains; ++i) {
            sums[i] = _mm256_fmadd_ps(sums[i], a, b);
        }
    }
    __m256 total = sums[0];
    for (int i = 1; i < kChains; ++i) total = _mm256_add_ps(total, sums[i]);
    return _mm_cvtss_f32(_mm256_castps256_ps128(total));
}

float read(const std::byte* data, std::size_t bytes) {
    __m256i sums[4] = {};
    for (std::size_t i = 0; i < bytes; i += 128) {
        for (int k = 0; k < 4; ++k) {
            const auto* at = reinterpret_cast<const __m256i*>(data + i + 32 * k);
            sums[k] = _mm256_xor_si256(sums[k], _mm256_load_si256(at));
        }
    }
    const __m256i total =
        _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
    return static_cast<float>(_mm_cvtsi128_si32(_mm256_castsi256_si128(total)));
}

float read_streams(const std::byte* data, std::size_t bytes) {
    __m256i sums[4] = {};
    const std::size_t part = bytes / kReadStreams;
    for (std::size_t i = 0; i < part; i += 512) {
        for (int stream = 0; stream < kReadStreams; ++stream) {
            const std::byte* at = data + part * static_cast<std::size_t>(stream) + i;
            for (int k = 0; k < 16; ++k) {
                if (k % 2 == 0) {
                    _mm_prefetch(reinterpret_cast<const char*>(at) + 1024 + 32 * k, _MM_HINT_T0);
                }
                sums[k % 4] = _mm256_xor_si256(
                    sums[k % 4], _mm256_load_si256(reinterpret_cast<const __m256i*>(at + 32 * k)));
            }
        }
    }
    const __m256i total =
        _mm256_xor_si256(_mm256_xor_si256(sums[0], sums[1]), _mm256_xor_si256(sums[2], sums[3]));
    return static_cast<float>(_mm256_extract_epi32(total, 0));
}

}  // namespace

const RoofOps& roof_ops() {
    static constexpr RoofOps kOps = {int8, kChains * 32 * 2, fp32, kChains * 8 * 2,
                                     read, read_streams};
    return kOps;
}

}  // namespace taproot::avx2
