// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/avx2/quantized_weights.h"

// Weights of the types with super-blocks (K-quants, IQ4_XS) as they lie in the panels.
namespace taproot::avx2 {

TAPROOT_INLINE __m256i load_bytes(const std::byte* at) {  // 8 of them, to 32-bit lanes
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
}
TAPROOT_INLINE __m256i load_signed_bytes(const std::byte* at) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
}
// 16-bit pairs of the lower halves of 32-bit lanes.
TAPROOT_INLINE __m256i pair_halves(__m256i low, __m256i high) {
    return _mm256_blend_epi16(low, _mm256_slli_epi32(high, 16), 0xaa);
}

// Two bits of 32 columns: see panel_layout.h. Step v of 4 has those of columns 4v .. at bits 0, 1
// of its bytes, those of 16 + 4v .. at bits 4, 5; the others are to be masked off.
struct BitPairs {
    __m256i now;
    __m256i later;

    static TAPROOT_INLINE BitPairs load(const std::byte* at) {
        return {load_vector(at), load_vector(at + 64)};
    }
    TAPROOT_INLINE __m256i next() {
        __m256i out = now;
        now = later;
        later = _mm256_srli_epi16(out, 2);
        return out;
    }
};

struct SixBits {
    const std::byte* at;
    BitPairs upper;

    static TAPROOT_INLINE SixBits load(const std::byte* at) {
        return {at, BitPairs::load(at + 4 * 64)};
    }
    TAPROOT_INLINE void next(__m256i& low, __m256i& high) {
        const __m256i nibble = _mm256_set1_epi8(15);
        const __m256i two = _mm256_set1_epi8(0x30);
        __m256i raw = load_vector(at);
        __m256i pairs = upper.next();
        low = _mm256_or_si256(_mm256_and_si256(raw, nibble),
                              _mm256_and_si256(_mm256_slli_epi16(pairs, 4), two));
        high = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(raw, 4), nibble),
                               _mm256_and_si256(pairs, two));
        at += 64;
    }
};

// Two bits, or three with `third` bits.
template <bool kThird>
struct FewBits {
    BitPairs pairs;
    __m256i third;

    static TAPROOT_INLINE FewBits load(const std::byte* at) {
        __m256i third = _mm256_setzero_si256();
        if constexpr (kThird) third = load_vector(at + 2 * 64);
        return {BitPairs::load(at), third};
    }
    TAPROOT_INLINE void next(__m256i& low, __m256i& high) {
        const __m256i two = _mm256_set1_epi8(3);
        __m256i both = pairs.next();
        low = _mm256_and_si256(both, two);
        high = _mm256_and_si256(_mm256_srli_epi16(both, 4), two);
        if constexpr (kThird) {
            const __m256i bit = _mm256_set1_epi8(4);
            low = _mm256_or_si256(low, _mm256_and_si256(_mm256_slli_epi16(third, 2), bit));
            high = _mm256_or_si256(high, _mm256_and_si256(_mm256_srli_epi16(third, 2), bit));
            third = _mm256_srli_epi16(third, 1);
        }
    }
};

template <DType kType>
requires(panel_format(kType).sub_scales != SubScales::kNone) struct PackedWeights<kType> {
    static constexpr PanelFormat kFormat = panel_format(kType);
    static constexpr SubScales kSub = kFormat.sub_scales;
    static constexpr int kBits = kFormat.iq4_values ? 8 : kFormat.quant_bits;
    static constexpr int kBias = kFormat.bias;
    static constexpr bool kHalfIntegers = kBits <= 3;
    static constexpr bool kHalfScales = kSub == SubScales::kHalves && kBits == 6;
    static constexpr bool kHalfOffsets = kSub == SubScales::kHalfOffsets;
    static constexpr bool kOffset = kFormat.offset && !kHalfOffsets;
    static constexpr std::size_t kHeadBytes = scale_head_bytes(kFormat);
    static constexpr std::size_t kScaleBytes = scale_block_bytes(kFormat);
    static constexpr std::size_t kSubBytes = sub_scale_bytes(kFormat);
    static constexpr std::size_t kQuantBytes = quant_block_bytes(kFormat);

    const std::byte* scales;
    const std::byte* quants;
    int upper;  // 1: rows 8 .. 15 of the panel

    TAPROOT_INLINE PackedWeights(const QuantizedTile& tile, int half)
        : scales(tile.panels[half / 2]),
          quants(tile.panels[half / 2] + quants_offset(kFormat, tile.blocks) + half % 2 * 32),
          upper(half % 2) {}

    [[nodiscard]] TAPROOT_INLINE const std::byte* head(int b) const {
        return scales + static_cast<unsigned>(b) / kSuperBlocks * kScaleBytes + upper * 16;
    }
    [[nodiscard]] TAPROOT_INLINE const std::byte* sub_scales(int b) const {
        return scales + static_cast<unsigned>(b) / kSuperBlocks * kScaleBytes + kHeadBytes +
               static_cast<unsigned>(b) % kSuperBlocks * kSubBytes + upper * 8;
    }
    // The scale of the block, or of its columns 0 .. 15.
    [[nodiscard]] TAPROOT_INLINE __m256 d(int b) const {
        __m256 d = load_half(head(b));
        if constexpr (kSub == SubScales::kBlockOffset) {
            d = _mm256_mul_ps(d, _mm256_cvtepi32_ps(load_bytes(sub_scales(b))));
        }
        if constexpr (kSub == SubScales::kBlock || kHalfScales) {
            d = _mm256_mul_ps(d, _mm256_cvtepi32_ps(load_signed_bytes(sub_scales(b))));
        }
        return d;
    }
    // The offset of the block, of one integer offset, or the scale of its columns 16 .. 31.
    [[nodiscard]] TAPROOT_INLINE __m256 m(int b) const {
        const std::byte* second = sub_scales(b) + kPanelRows;
        if constexpr (kHalfScales) {
            return _mm256_mul_ps(load_half(head(b)), _mm256_cvtepi32_ps(load_signed_bytes(second)));
        }
        __m256 m = load_half(head(b) + 32);
        if constexpr (kSub == SubScales::kBlockOffset) {
            m = _mm256_mul_ps(m, _mm256_cvtepi32_ps(load_bytes(second)));
        }
        return m;
    }
    // Q2_K: the pairs are the offsets; Q3_K: they are bias * scale.
    [[nodiscard]] TAPROOT_INLINE HalfIntegers half_integers(int b) const {
        const std::byte* first = sub_scales(b);
        if constexpr (kHalfOffsets) {
            const __m256i nibble = _mm256_set1_epi32(15);
            __m256i low = load_bytes(first);
            __m256i high = load_bytes(first + kPanelRows);
            __m256i low_scale = _mm256_and_si256(low, nibble);
            __m256i high_scale = _mm256_and_si256(high, nibble);
            return {pair_halves(low_scale, low_scale), pair_halves(high_scale, high_scale),
                    pair_halves(_mm256_srli_epi32(low, 4), _mm256_srli_epi32(high, 4))};
        }
        __m256i low = load_signed_bytes(first);
        __m256i high = load_signed_bytes(first + kPanelRows);
        const __m256i bias = _mm256_set1_epi16(kBias);
        return {pair_halves(low, low), pair_halves(high, high),
                _mm256_mullo_epi16(pair_halves(low, high), bias)};
    }
    [[nodiscard]] TAPROOT_INLINE auto block(int b) const {
        const std::byte* at = quants + static_cast<unsigned>(b) * kQuantBytes;
        if constexpr (kFormat.iq4_values) {
            return PackedWeights<DType::kIQ4_NL>::Block::load(at);
        } else if constexpr (kBits == 6) {
            return SixBits::load(at);
        } else if constexpr (kBits == 5) {
            return PackedWeights<DType::kQ5_1>::Block::load(at);
        } else if constexpr (kBits == 4) {
            return PackedWeights<DType::kQ4_1>::Block::load(at);
        } else {
            return FewBits<kBits == 3>::load(at);
        }
    }
};

}  // namespace taproot::avx2
