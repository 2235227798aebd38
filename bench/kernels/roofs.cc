// SPDX-License-Identifier: Apache-2.0
#include "bench/kernels/roofs.h"

#include <immintrin.h>

#include "kernels/unroll.h"

namespace taproot::bench {
namespace {

constexpr int kChains = 20;  // each starts differently, or the compiler merges them

}  // namespace

std::int64_t run_vnni(std::int64_t rounds, int* sink) {
    __m512i sums[kChains];
    unroll<kChains>([&](auto i)
                        TAPROOT_INLINE_LAMBDA { sums[i.value] = _mm512_set1_epi32(i.value); });
    __m512i a = _mm512_set1_epi8(3);
    __m512i b = _mm512_set1_epi8(static_cast<char>(*sink));
    for (std::int64_t r = 0; r < rounds; ++r) {
        unroll<kChains>([&](auto i) TAPROOT_INLINE_LAMBDA {
            sums[i.value] = _mm512_dpbusd_epi32(sums[i.value], a, b);
        });
    }
    __m512i total = _mm512_setzero_si512();
    unroll<kChains>([&](auto i)
                        TAPROOT_INLINE_LAMBDA { total = _mm512_add_epi32(total, sums[i.value]); });
    *sink = _mm512_reduce_add_epi32(total);
    return rounds * kChains * 128;
}

std::int64_t run_fma(std::int64_t rounds, float* sink) {
    __m512 sums[kChains];
    unroll<kChains>([&](auto i) TAPROOT_INLINE_LAMBDA {
        sums[i.value] = _mm512_set1_ps(static_cast<float>(i.value));
    });
    __m512 a = _mm512_set1_ps(1.0001f);
    __m512 b = _mm512_set1_ps(*sink);
    for (std::int64_t r = 0; r < rounds; ++r) {
        unroll<kChains>([&](auto i) TAPROOT_INLINE_LAMBDA {
            sums[i.value] = _mm512_fmadd_ps(sums[i.value], a, b);
        });
    }
    __m512 total = _mm512_setzero_ps();
    unroll<kChains>([&](auto i)
                        TAPROOT_INLINE_LAMBDA { total = _mm512_add_ps(total, sums[i.value]); });
    *sink = _mm512_reduce_add_ps(total);
    return rounds * kChains * 32;
}

void read_stream(const std::byte* data, std::size_t bytes, int* sink) {
    __m512i sums[4];
    unroll<4>([&](auto i) TAPROOT_INLINE_LAMBDA { sums[i.value] = _mm512_setzero_si512(); });
    for (std::size_t at = 0; at < bytes; at += 1024) {
        unroll<16>([&](auto i) TAPROOT_INLINE_LAMBDA {
            // Hardware prefetch stops at 4 KiB; this does not.
            _mm_prefetch(reinterpret_cast<const char*>(data + at + 8192 + i.value * 64),
                         _MM_HINT_T0);
            sums[i.value % 4] =
                _mm512_xor_si512(sums[i.value % 4], _mm512_load_si512(data + at + i.value * 64));
        });
    }
    *sink = _mm512_reduce_add_epi32(
        _mm512_xor_si512(_mm512_xor_si512(sums[0], sums[1]), _mm512_xor_si512(sums[2], sums[3])));
}

}  // namespace taproot::bench
