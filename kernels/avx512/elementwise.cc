// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise_ops.h"

#include <immintrin.h>

#include "kernels/avx512/exp2.h"

namespace taproot::avx512 {
namespace {

void rmsnorm_row(const float* x, const float* weight, float eps, int columns, float* out) {
    __m512 lanes = _mm512_setzero_ps();
    int i = 0;
    for (; i + 16 <= columns; i += 16) {
        const __m512 v = _mm512_loadu_ps(x + i);
        lanes = _mm512_fmadd_ps(v, v, lanes);
    }
    const __mmask16 tail = first_lanes(columns - i);
    const __m512 last = _mm512_maskz_loadu_ps(tail, x + i);
    lanes = _mm512_mask3_fmadd_ps(last, last, lanes, tail);
    const float mean = sum_lanes(lanes) / static_cast<float>(columns);
    const float scale = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps)));
    const __m512 factor = _mm512_set1_ps(scale);
    for (i = 0; i + 16 <= columns; i += 16) {
        const __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(x + i), factor);
        _mm512_storeu_ps(out + i, _mm512_mul_ps(scaled, _mm512_loadu_ps(weight + i)));
    }
    if (tail != 0) {
        const __m512 scaled = _mm512_mul_ps(last, factor);
        const __m512 w = _mm512_maskz_loadu_ps(tail, weight + i);
        _mm512_mask_storeu_ps(out + i, tail, _mm512_mul_ps(scaled, w));
    }
}

inline __m512 swiglu(__m512 gate, __m512 up) {
    const __m512 negated = _mm512_xor_ps(gate, _mm512_set1_ps(-0.0f));
    const __m512 silu = _mm512_div_ps(gate, _mm512_add_ps(_mm512_set1_ps(1.0f), exp(negated)));
    return _mm512_mul_ps(silu, up);
}

void swiglu_row(const float* gate, const float* up, int columns, float* out) {
    int i = 0;
    for (; i + 16 <= columns; i += 16) {
        _mm512_storeu_ps(out + i, swiglu(_mm512_loadu_ps(gate + i), _mm512_loadu_ps(up + i)));
    }
    if (i == columns) return;
    const __mmask16 tail = first_lanes(columns - i);
    const __m512 result =
        swiglu(_mm512_maskz_loadu_ps(tail, gate + i), _mm512_maskz_loadu_ps(tail, up + i));
    _mm512_mask_storeu_ps(out + i, tail, result);
}

void rope_interleaved(float* x, int heads, int head_dim, const float* cos, const float* sin,
                      int rotary_dim) {
    const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    for (int d = 0; d < rotary_dim; d += 16) {
        const int count = rotary_dim - d;
        const __mmask16 mask = first_lanes(count);
        const __mmask16 pairs = first_lanes(count >= 16 ? 8 : count / 2);
        const __m512 c = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(pairs, cos + d / 2));
        const __m512 s = _mm512_permutexvar_ps(twice, _mm512_maskz_loadu_ps(pairs, sin + d / 2));
        for (int h = 0; h < heads; ++h) {
            float* at = x + static_cast<long>(h) * head_dim + d;
            const __m512 v = _mm512_maskz_loadu_ps(mask, at);
            const __m512 swapped = _mm512_permute_ps(v, 0xb1);
            const __m512 turned = _mm512_fmaddsub_ps(v, c, _mm512_mul_ps(swapped, s));
            _mm512_mask_storeu_ps(at, mask, turned);
        }
    }
}

void rope_halves(float* x, int heads, int head_dim, const float* cos, const float* sin,
                 int rotary_dim) {
    const int half = rotary_dim / 2;
    for (int i = 0; i < half; i += 16) {
        const __mmask16 mask = first_lanes(half - i);
        const __m512 c = _mm512_maskz_loadu_ps(mask, cos + i);
        const __m512 s = _mm512_maskz_loadu_ps(mask, sin + i);
        for (int h = 0; h < heads; ++h) {
            float* at = x + static_cast<long>(h) * head_dim + i;
            const __m512 a = _mm512_maskz_loadu_ps(mask, at);
            const __m512 b = _mm512_maskz_loadu_ps(mask, at + half);
            _mm512_mask_storeu_ps(at, mask, _mm512_fmsub_ps(a, c, _mm512_mul_ps(b, s)));
            _mm512_mask_storeu_ps(at + half, mask, _mm512_fmadd_ps(b, c, _mm512_mul_ps(a, s)));
        }
    }
}

}  // namespace

const ElementwiseOps& elementwise_ops() {
    static constexpr ElementwiseOps kOps = {rmsnorm_row, swiglu_row, rope_interleaved, rope_halves};
    return kOps;
}

}  // namespace taproot::avx512
