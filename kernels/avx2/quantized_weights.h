// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/linear_ops.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

// Weights of one half of a panel (8 output rows) as they lie in memory, unpacked in registers.
namespace taproot::avx2 {

TAPROOT_INLINE __m256 load_half(const std::byte* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
TAPROOT_INLINE __m256i load_vector(const void* at) {
    return _mm256_load_si256(static_cast<const __m256i*>(at));
}

// What the integer dots of the halves of a block are multiplied with, each in both 16-bit halves of
// a lane, and what the sums of the halves are: pairs (columns 0 .. 15, 16 .. 31).
struct HalfIntegers {
    __m256i low;
    __m256i high;
    __m256i pairs;
};

// Half a panel as pack() left it. Types with super-blocks: super_block_weights.h.
template <DType kType>
struct PackedWeights {
    static constexpr PanelFormat kFormat = panel_format(kType);
    static constexpr int kBits = kFormat.iq4_values ? 8 : kFormat.quant_bits;  // as unpacked
    static constexpr bool kHalfIntegers = false;  // integer scales of halves, see HalfIntegers
    static constexpr bool kHalfScales = false;    // another scale for columns 16 .. 31, as m()
    static constexpr bool kHalfOffsets = false;   // m() times an integer per half of the columns
    static constexpr bool kOffset = kFormat.offset;
    static constexpr int kBias = kFormat.bias;

    const std::byte* scales;
    const std::byte* quants;

    TAPROOT_INLINE PackedWeights(const QuantizedTile& tile, int half)
        : scales(tile.panels[half / 2] + half % 2 * 16),
          quants(tile.panels[half / 2] + quants_offset(kFormat, tile.blocks) + half % 2 * 32) {}

    [[nodiscard]] TAPROOT_INLINE __m256 d(int b) const {
        return load_half(scales + static_cast<std::size_t>(b) * scale_block_bytes(kFormat));
    }
    [[nodiscard]] TAPROOT_INLINE __m256 m(int b) const {
        return load_half(scales + static_cast<std::size_t>(b) * scale_block_bytes(kFormat) + 32);
    }
    // Walks through a block, 8 columns of 8 rows at a time: unsigned below 32, or signed for 8
    // bits.
    struct Block {
        const std::byte* at;
        __m256i high_bits;  // 5 bits only

        static TAPROOT_INLINE Block load(const std::byte* at) {
            if constexpr (kBits == 5) return {at, load_vector(at + 4 * 64)};
            return {at, _mm256_setzero_si256()};
        }
        // Step v of 4: columns 4v .. 4v + 3 and 16 + 4v .. .
        TAPROOT_INLINE void next(__m256i& low, __m256i& high) {
            if constexpr (kFormat.quant_bits == 8) {
                const __m256i sign = _mm256_set1_epi8(-128);
                low = _mm256_xor_si256(load_vector(at), sign);
                high = _mm256_xor_si256(load_vector(at + 4 * 64), sign);
            } else {
                const __m256i nibble = _mm256_set1_epi8(15);
                __m256i raw = load_vector(at);
                low = _mm256_and_si256(raw, nibble);
                high = _mm256_and_si256(_mm256_srli_epi16(raw, 4), nibble);
            }
            if constexpr (kFormat.iq4_values) {
                const __m256i values = _mm256_broadcastsi128_si256(
                    _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Values)));
                low = _mm256_shuffle_epi8(values, low);
                high = _mm256_shuffle_epi8(values, high);
            }
            if constexpr (kBits == 5) {
                // Bits v and v + 4 of each byte stand at 0 and 4. What the shift brings over from
                // the neighbouring byte never gets there in three steps.
                const __m256i bit = _mm256_set1_epi8(16);
                low = _mm256_or_si256(low, _mm256_and_si256(_mm256_slli_epi16(high_bits, 4), bit));
                high = _mm256_or_si256(high, _mm256_and_si256(high_bits, bit));
                high_bits = _mm256_srli_epi16(high_bits, 1);
            }
            at += 64;
        }
    };
    [[nodiscard]] TAPROOT_INLINE Block block(int b) const {
        return Block::load(quants + static_cast<std::size_t>(b) * quant_block_bytes(kFormat));
    }
};

}  // namespace taproot::avx2
