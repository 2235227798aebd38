// SPDX-License-Identifier: Apache-2.0
#include <immintrin.h>

#include "kernels/roof_ops.h"

namespace taproot::avx512 {
namespace {

// Independent chains: latency 4-5 times two pipes, with room to spare (and no more than compilers
// unroll).
constexpr int kChains = 16;

float int8(std::int64_t rounds) {
    __m512i sums[kChains];
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_epi32(i);
    const __m512i a = _mm512_set1_epi8(3);
    const __m512i b = _mm512_set1_epi8(-2);
    for (std::int64_t r = 0; r < rounds; ++r) {
        for (int i = 0; i < kChains; ++i) {
            sums[i] = _mm512_dpbusd_epi32(sums[i], a, b);
        }
    }
    __m512i total = sums[0];
    for (int i = 1; i < kChains; ++i) total = _mm512_xor_si512(total, sums[i]);
    return static_cast<float>(_mm_cvtsi128_si32(_mm512_castsi512_si128(total)));
}

float fp32(std::int64_t rounds) {
    __m512 sums[kChains];
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
    const __m512 a = _mm512_set1_ps(0.999f);
    const __m512 b = _mm512_set1_ps(1.0f);
    for (std::int64_t r = 0; r < rounds; ++r) {
        for (int i = 0; i < kChains; ++i) {
            sums[i] = _mm512_fmadd_ps(sums[i], a, b);
        }
    }
    __m512 total = sums[0];
    for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
    return _mm_cvtss_f32(_mm512_castps512_ps128(total));
}

float read(const std::byte* data, std::size_t bytes) {
    __m512i sums[4] = {};
    for (std::size_t i = 0; i < bytes; i += 256) {
        for (int k = 0; k < 4; ++k) {
            sums[k] = _mm512_xor_si512(sums[k], _mm512_load_si512(data + i + 64 * k));
        }
    }
    const __m512i total =
        _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
    return static_cast<float>(_mm_cvtsi128_si32(_mm512_castsi512_si128(total)));
}

float read_streams(const std::byte* data, std::size_t bytes) {
    __m512i sums[4] = {};
    const std::size_t part = bytes / kReadStreams;
    for (std::size_t i = 0; i < part; i += 512) {
        for (int stream = 0; stream < kReadStreams; ++stream) {
            const std::byte* at = data + part * static_cast<std::size_t>(stream) + i;
            for (int k = 0; k < 8; ++k) {
                _mm_prefetch(reinterpret_cast<const char*>(at) + 1024 + 64 * k, _MM_HINT_T0);
                sums[k % 4] = _mm512_xor_si512(sums[k % 4], _mm512_load_si512(at + 64 * k));
            }
        }
    }
    const __m512i total =
        _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3]));
    return static_cast<float>(_mm_cvtsi128_si32(_mm512_castsi512_si128(total)));
}

// Not every CPU that runs this folder has it, so only this function is compiled for it.
__attribute__((target("avx512bf16"))) float bf16(std::int64_t rounds) {
    __m512 sums[kChains];
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
    const __m512i ones = _mm512_set1_epi32(0x3f803f80);
    const __m512i small = _mm512_set1_epi32(0x3c003c00);
    __m512bh a, b;
    static_assert(sizeof a == sizeof ones);
    __builtin_memcpy(&a, &ones, sizeof a);
    __builtin_memcpy(&b, &small, sizeof b);
    for (std::int64_t r = 0; r < rounds; ++r) {
        for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], a, b);
    }
    __m512 total = sums[0];
    for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
    return _mm_cvtss_f32(_mm512_castps512_ps128(total));
}

}  // namespace

const RoofOps& roof_ops() {
    static constexpr RoofOps kOps = {int8, kChains * 64 * 2, fp32, kChains * 16 * 2,
                                     read, read_streams,     bf16, kChains * 32 * 2};
    return kOps;
}

}  // namespace taproot::avx512
