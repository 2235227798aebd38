// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise_ops.h"

#include <immintrin.h>

#include "kernels/avx2/exp2.h"

namespace taproot::avx2 {
namespace {

// Eight values from x, of which `left` (any number) exist; the others read as 0.
inline __m256 load(const float* x, int left) {
    return left >= 8 ? _mm256_loadu_ps(x) : _mm256_maskload_ps(x, first_lanes(left));
}

inline void store(float* x, int left, __m256 v) {
    if (left >= 8) {
        _mm256_storeu_ps(x, v);
    } else {
        _mm256_maskstore_ps(x, first_lanes(left), v);
    }
}

void rmsnorm_row(const float* x, const float* weight, float eps, int columns, float* out) {
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (int i = 0; i < columns; i += 16) {
        const __m256 a = load(x + i, columns - i);
        low = _mm256_fmadd_ps(a, a, low);
        if (i + 8 >= columns) break;
        const __m256 b = load(x + i + 8, columns - i - 8);
        high = _mm256_fmadd_ps(b, b, high);
    }
    const float mean = sum_lanes(low, high) / static_cast<float>(columns);
    const float scale = 1.0f / _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(mean + eps)));
    const __m256 factor = _mm256_set1_ps(scale);
    for (int i = 0; i < columns; i += 8) {
        const __m256 scaled = _mm256_mul_ps(load(x + i, columns - i), factor);
        store(out + i, columns - i, _mm256_mul_ps(scaled, load(weight + i, columns - i)));
    }
}

void swiglu_row(const float* gate, const float* up, int columns, float* out) {
    const __m256 one = _mm256_set1_ps(1.0f);
    for (int i = 0; i < columns; i += 8) {
        const __m256 g = load(gate + i, columns - i);
        const __m256 negated = _mm256_xor_ps(g, _mm256_set1_ps(-0.0f));
        const __m256 silu = _mm256_div_ps(g, _mm256_add_ps(one, exp(negated)));
        store(out + i, columns - i, _mm256_mul_ps(silu, load(up + i, columns - i)));
    }
}

void rope_interleaved(float* x, int heads, int head_dim, const float* cos, const float* sin,
                      int rotary_dim) {
    const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    for (int d = 0; d < rotary_dim; d += 8) {
        const int left = rotary_dim - d;
        const __m256i pairs = first_lanes(left >= 8 ? 4 : left / 2);
        const __m256 c = _mm256_permutevar8x32_ps(_mm256_maskload_ps(cos + d / 2, pairs), twice);
        const __m256 s = _mm256_permutevar8x32_ps(_mm256_maskload_ps(sin + d / 2, pairs), twice);
        for (int h = 0; h < heads; ++h) {
            float* at = x + static_cast<long>(h) * head_dim + d;
            const __m256 v = load(at, left);
            const __m256 swapped = _mm256_permute_ps(v, 0xb1);
            store(at, left, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(swapped, s)));
        }
    }
}

void rope_halves(float* x, int heads, int head_dim, const float* cos, const float* sin,
                 int rotary_dim) {
    const int half = rotary_dim / 2;
    for (int i = 0; i < half; i += 8) {
        const int left = half - i;
        const __m256 c = load(cos + i, left);
        const __m256 s = load(sin + i, left);
        for (int h = 0; h < heads; ++h) {
            float* at = x + static_cast<long>(h) * head_dim + i;
            const __m256 a = load(at, left);
            const __m256 b = load(at + half, left);
            store(at, left, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
            store(at + half, left, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
        }
    }
}

}  // namespace

const ElementwiseOps& elementwise_ops() {
    static constexpr ElementwiseOps kOps = {rmsnorm_row, swiglu_row, rope_interleaved, rope_halves};
    return kOps;
}

}  // namespace taproot::avx2
