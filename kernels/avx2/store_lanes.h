// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/unroll.h"

namespace taproot::avx2 {

// Stores (or adds to memory) the first `columns` of 8 lanes; none when columns <= 0.
TAPROOT_INLINE void store_lanes(__m256 sums, float* to, int columns, bool add) {
    if (columns >= 8) {
        if (add) sums = _mm256_add_ps(_mm256_loadu_ps(to), sums);
        _mm256_storeu_ps(to, sums);
        return;
    }
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(columns), lanes);
    if (add) sums = _mm256_add_ps(_mm256_maskload_ps(to, mask), sums);
    _mm256_maskstore_ps(to, mask, sums);
}

}  // namespace taproot::avx2
