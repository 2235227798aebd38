// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <immintrin.h>

#include "kernels/linear_ops.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

// The unsigned weight bytes of panels, unpacked in registers as they come from memory.
namespace taproot::avx512 {

inline constexpr int kVectors = 8;  // of 4 columns in a block

TAPROOT_INLINE __m512 load_half(const std::byte* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
TAPROOT_INLINE __m512i load_vector(const void* at) {
    return _mm512_load_si512(static_cast<const __m512i*>(at));
}

inline constexpr int kIq4Bias = 128;  // added to the values of IQ4 types, for vpdpbusd

TAPROOT_INLINE __m512i iq4_values() {
    __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kIq4Values));
    return _mm512_broadcast_i32x4(_mm_xor_si128(values, _mm_set1_epi8(-128)));
}

// Both panels of a tile. Types with super-blocks: super_block_weights.h.
template <DType kType>
struct PackedWeights {
    static constexpr PanelFormat kFormat = panel_format(kType);
    static constexpr bool kOffset = kFormat.offset;
    static constexpr bool kTwoDots = false;        // one per half of a block's columns
    static constexpr bool kIntegerScales = false;  // for these dots: low_scale(), high_scale()
    static constexpr bool kHalfScales = false;     // another scale for columns 16 .. 31, as m()
    static constexpr bool kHalfOffsets = false;    // m() times an integer per half of the columns

    const std::byte* scales[kTilePanels];
    const std::byte* quants[kTilePanels];

    TAPROOT_INLINE explicit PackedWeights(const QuantizedTile& tile) {
        for (int p = 0; p < kTilePanels; ++p) {
            scales[p] = tile.panels[p];
            quants[p] = tile.panels[p] + quants_offset(kFormat, tile.blocks);
        }
    }

    [[nodiscard]] static TAPROOT_INLINE int bias() {
        return kFormat.iq4_values ? kIq4Bias : kFormat.bias;
    }
    [[nodiscard]] TAPROOT_INLINE __m512 d(int p, int b) const {
        return load_half(scales[p] + static_cast<std::size_t>(b) * scale_block_bytes(kFormat));
    }
    [[nodiscard]] TAPROOT_INLINE __m512 m(int p, int b) const {
        return load_half(scales[p] + static_cast<std::size_t>(b) * scale_block_bytes(kFormat) + 32);
    }
    // Walks through a block, 8 columns of 16 rows at a time.
    struct Block {
        const std::byte* at;
        __m512i high_bits;  // 5 bits only

        static TAPROOT_INLINE Block load(const std::byte* at) {
            if constexpr (kFormat.quant_bits == 5) return {at, load_vector(at + 4 * 64)};
            return {at, _mm512_setzero_si512()};
        }
        // Step v of 4: columns 4v .. 4v + 3 and 16 + 4v .. .
        TAPROOT_INLINE void next(__m512i& low, __m512i& high) {
            if constexpr (kFormat.quant_bits == 8) {
                low = load_vector(at);
                high = load_vector(at + 4 * 64);
            } else {
                const __m512i nibble = _mm512_set1_epi8(15);
                __m512i raw = load_vector(at);
                low = _mm512_and_si512(raw, nibble);
                high = _mm512_and_si512(_mm512_srli_epi16(raw, 4), nibble);
            }
            if constexpr (kFormat.iq4_values) {
                const __m512i values = iq4_values();
                low = _mm512_shuffle_epi8(values, low);
                high = _mm512_shuffle_epi8(values, high);
            }
            if constexpr (kFormat.quant_bits == 5) {
                // Bits v and v + 4 of each byte stand at 0 and 4. What the shift brings over from
                // the neighbouring byte never gets there in three steps.
                const __m512i bit = _mm512_set1_epi8(16);
                constexpr int kOr = 0xf8;  // a | (b & c)
                low = _mm512_ternarylogic_epi32(low, _mm512_slli_epi16(high_bits, 4), bit, kOr);
                high = _mm512_ternarylogic_epi32(high, high_bits, bit, kOr);
                high_bits = _mm512_srli_epi16(high_bits, 1);
            }
            at += 64;
        }
    };
    [[nodiscard]] TAPROOT_INLINE Block block(int p, int b) const {
        return Block::load(quants[p] + static_cast<std::size_t>(b) * quant_block_bytes(kFormat));
    }
};

}  // namespace taproot::avx512
