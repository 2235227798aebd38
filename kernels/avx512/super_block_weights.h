// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/avx512/quantized_weights.h"

// Weights of the types with super-blocks (K-quants, IQ4_XS) as they lie in the panels.
namespace taproot::avx512 {

TAPROOT_INLINE __m512i load_bytes(const std::byte* at) {  // 16 of them, to 32-bit lanes
    return _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
}
TAPROOT_INLINE __m512i load_signed_bytes(const std::byte* at) {
    return _mm512_cvtepi8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(at)));
}
// The lowest byte of each 32-bit lane, in all four of its bytes.
TAPROOT_INLINE __m512i spread_byte(__m512i lanes) {
    return _mm512_shuffle_epi8(lanes, _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0));
}
// The lower half of each 32-bit lane, in both of its halves.
TAPROOT_INLINE __m512i spread_half(__m512i lanes) {
    return _mm512_or_si512(lanes, _mm512_slli_epi32(lanes, 16));
}

// Two bits of 32 columns: see panel_layout.h. Step v of 4 has those of columns 4v .. at bits 0, 1
// of its bytes, those of 16 + 4v .. at bits 4, 5; the others are to be masked off.
struct BitPairs {
    __m512i now;
    __m512i later;

    static TAPROOT_INLINE BitPairs load(const std::byte* at) {
        return {load_vector(at), load_vector(at + 64)};
    }
    TAPROOT_INLINE __m512i next() {
        __m512i out = now;
        now = later;
        later = _mm512_srli_epi16(out, 2);
        return out;
    }
};

struct SixBits {
    const std::byte* at;
    BitPairs upper;

    static TAPROOT_INLINE SixBits load(const std::byte* at) {
        return {at, BitPairs::load(at + 4 * 64)};
    }
    TAPROOT_INLINE void next(__m512i& low, __m512i& high) {
        const __m512i nibble = _mm512_set1_epi8(15);
        const __m512i two = _mm512_set1_epi8(0x30);
        constexpr int kOr = 0xf8;  // a | (b & c)
        __m512i raw = load_vector(at);
        __m512i pairs = upper.next();
        low = _mm512_ternarylogic_epi32(_mm512_and_si512(raw, nibble), _mm512_slli_epi16(pairs, 4),
                                        two, kOr);
        high = _mm512_ternarylogic_epi32(_mm512_and_si512(_mm512_srli_epi16(raw, 4), nibble), pairs,
                                         two, kOr);
        at += 64;
    }
};

// Bytes that carry the scale of their half of the columns: scale * quant, at most 45.
struct ScaledTwoBits {
    BitPairs quants;
    __m512i low_scale;  // 16-bit lanes
    __m512i high_scale;

    static TAPROOT_INLINE ScaledTwoBits load(const std::byte* at, const std::byte* sub_scales) {
        const __m512i nibble = _mm512_set1_epi32(15);
        return {BitPairs::load(at), spread_half(_mm512_and_si512(load_bytes(sub_scales), nibble)),
                spread_half(_mm512_and_si512(load_bytes(sub_scales + 16), nibble))};
    }
    TAPROOT_INLINE void next(__m512i& low, __m512i& high) {
        const __m512i two = _mm512_set1_epi8(3);
        __m512i pairs = quants.next();
        // Two bytes at a time: no product reaches the neighbour.
        low = _mm512_mullo_epi16(_mm512_and_si512(pairs, two), low_scale);
        high = _mm512_mullo_epi16(_mm512_and_si512(_mm512_srli_epi16(pairs, 4), two), high_scale);
    }
};

// Bytes kBias + scale * (quant - 4), scale -32 .. 31: 3 .. 255.
struct ScaledThreeBits {
    static constexpr int kBias = 127;

    // x -> kBias + scale * (x - 4) as (|scale| * x, with all bits flipped for a negative scale) +
    // a constant. |scale| * x is at most 224: no product reaches the neighbouring byte.
    struct Scale {
        __m512i factor;  // 16-bit lanes
        __m512i flip;
        __m512i constant;

        static TAPROOT_INLINE Scale load(const std::byte* sub_scales) {
            __m512i scale = load_signed_bytes(sub_scales);
            __m512i negative = _mm512_srai_epi32(scale, 31);
            __m512i constant =
                _mm512_sub_epi32(_mm512_set1_epi32(kBias), _mm512_slli_epi32(scale, 2));
            return {spread_half(_mm512_abs_epi32(scale)), negative,
                    spread_byte(_mm512_sub_epi32(constant, negative))};
        }
        [[nodiscard]] TAPROOT_INLINE __m512i apply(__m512i x) const {
            __m512i product = _mm512_mullo_epi16(x, factor);
            return _mm512_add_epi8(_mm512_xor_si512(product, flip), constant);
        }
    };
    BitPairs quants;
    __m512i upper;
    Scale low_scale;
    Scale high_scale;

    static TAPROOT_INLINE ScaledThreeBits load(const std::byte* at, const std::byte* sub_scales) {
        return {BitPairs::load(at), load_vector(at + 2 * 64), Scale::load(sub_scales),
                Scale::load(sub_scales + 16)};
    }
    TAPROOT_INLINE void next(__m512i& low, __m512i& high) {
        const __m512i two = _mm512_set1_epi8(3);
        const __m512i third = _mm512_set1_epi8(4);
        constexpr int kOr = 0xf8;  // a | (b & c)
        __m512i pairs = quants.next();
        low = _mm512_ternarylogic_epi32(_mm512_and_si512(pairs, two), _mm512_slli_epi16(upper, 2),
                                        third, kOr);
        high = _mm512_ternarylogic_epi32(_mm512_and_si512(_mm512_srli_epi16(pairs, 4), two),
                                         _mm512_srli_epi16(upper, 2), third, kOr);
        upper = _mm512_srli_epi16(upper, 1);
        low = low_scale.apply(low);
        high = high_scale.apply(high);
    }
};

template <DType kType>
requires(panel_format(kType).sub_scales != SubScales::kNone) struct PackedWeights<kType> {
    static constexpr PanelFormat kFormat = panel_format(kType);
    static constexpr SubScales kSub = kFormat.sub_scales;
    static constexpr bool kHalfScales = kSub == SubScales::kHalves && kFormat.quant_bits == 6;
    static constexpr bool kTwoDots = kHalfScales;
    static constexpr bool kIntegerScales = false;
    static constexpr bool kHalfOffsets = kSub == SubScales::kHalfOffsets;
    static constexpr bool kOffset = kFormat.offset && !kHalfOffsets;
    static constexpr std::size_t kHeadBytes = scale_head_bytes(kFormat);
    static constexpr std::size_t kScaleBytes = scale_block_bytes(kFormat);
    static constexpr std::size_t kSubBytes = sub_scale_bytes(kFormat);
    static constexpr std::size_t kQuantBytes = quant_block_bytes(kFormat);

    const std::byte* scales[kTilePanels];
    const std::byte* quants[kTilePanels];

    TAPROOT_INLINE explicit PackedWeights(const QuantizedTile& tile) {
        for (int p = 0; p < kTilePanels; ++p) {
            scales[p] = tile.panels[p];
            quants[p] = tile.panels[p] + quants_offset(kFormat, tile.blocks);
        }
    }
    [[nodiscard]] static TAPROOT_INLINE int bias() {
        return kFormat.iq4_values        ? kIq4Bias
               : kFormat.quant_bits == 3 ? ScaledThreeBits::kBias
                                         : kFormat.bias;
    }

    [[nodiscard]] TAPROOT_INLINE const std::byte* head(int p, int b) const {
        return scales[p] + static_cast<unsigned>(b) / kSuperBlocks * kScaleBytes;
    }
    [[nodiscard]] TAPROOT_INLINE const std::byte* sub_scales(int p, int b) const {
        return head(p, b) + kHeadBytes + static_cast<unsigned>(b) % kSuperBlocks * kSubBytes;
    }
    // The scale of the block, or of its columns 0 .. 15.
    [[nodiscard]] TAPROOT_INLINE __m512 d(int p, int b) const {
        __m512 d = load_half(head(p, b));
        if constexpr (kSub == SubScales::kBlockOffset) {
            d = _mm512_mul_ps(d, _mm512_cvtepi32_ps(load_bytes(sub_scales(p, b))));
        }
        if constexpr (kSub == SubScales::kBlock || kHalfScales) {
            d = _mm512_mul_ps(d, _mm512_cvtepi32_ps(load_signed_bytes(sub_scales(p, b))));
        }
        return d;
    }
    // The offset of the block, of one half_offsets() unit, or the scale of its columns 16 .. 31.
    [[nodiscard]] TAPROOT_INLINE __m512 m(int p, int b) const {
        if constexpr (kHalfScales) {
            return _mm512_mul_ps(
                load_half(head(p, b)),
                _mm512_cvtepi32_ps(load_signed_bytes(sub_scales(p, b) + kPanelRows)));
        }
        __m512 m = load_half(head(p, b) + 32);
        if constexpr (kSub == SubScales::kBlockOffset) {
            m = _mm512_mul_ps(m, _mm512_cvtepi32_ps(load_bytes(sub_scales(p, b) + kPanelRows)));
        }
        return m;
    }
    // The integer offsets of both halves, as 16-bit pairs.
    [[nodiscard]] TAPROOT_INLINE __m512i half_offsets(int p, int b) const {
        __m512i low = _mm512_srli_epi32(load_bytes(sub_scales(p, b)), 4);
        __m512i high = _mm512_srli_epi32(load_bytes(sub_scales(p, b) + kPanelRows), 4);
        return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
    }
    [[nodiscard]] TAPROOT_INLINE auto block(int p, int b) const {
        const std::byte* at = quants[p] + static_cast<unsigned>(b) * kQuantBytes;
        if constexpr (kFormat.iq4_values)
            return PackedWeights<DType::kIQ4_NL>::Block::load(at);
        else if constexpr (kFormat.quant_bits == 6)
            return SixBits::load(at);
        else if constexpr (kFormat.quant_bits == 5)
            return PackedWeights<DType::kQ5_1>::Block::load(at);
        else if constexpr (kFormat.quant_bits == 4)
            return PackedWeights<DType::kQ4_1>::Block::load(at);
        else if constexpr (kFormat.quant_bits == 3)
            return ScaledThreeBits::load(at, sub_scales(p, b));
        else
            return ScaledTwoBits::load(at, sub_scales(p, b));
    }
};

// Two bits, or three.
template <bool kThree>
struct FewBits {
    BitPairs quants;
    __m512i upper;

    static TAPROOT_INLINE FewBits load(const std::byte* at) {
        if constexpr (kThree) return {BitPairs::load(at), load_vector(at + 2 * 64)};
        return {BitPairs::load(at), _mm512_setzero_si512()};
    }
    TAPROOT_INLINE void next(__m512i& low, __m512i& high) {
        const __m512i two = _mm512_set1_epi8(3);
        __m512i pairs = quants.next();
        low = _mm512_and_si512(pairs, two);
        high = _mm512_and_si512(_mm512_srli_epi16(pairs, 4), two);
        if constexpr (kThree) {
            const __m512i third = _mm512_set1_epi8(4);
            constexpr int kOr = 0xf8;  // a | (b & c)
            low = _mm512_ternarylogic_epi32(low, _mm512_slli_epi16(upper, 2), third, kOr);
            high = _mm512_ternarylogic_epi32(high, _mm512_srli_epi16(upper, 2), third, kOr);
            upper = _mm512_srli_epi16(upper, 1);
        }
    }
};

// Q2_K and Q3_K for few rows of x: there it is cheaper to multiply the dots with the scales of the
// halves than all bytes. In float32, but these are integers below 2^24: exact.
template <DType kType>
struct TwoDotWeights : PackedWeights<kType> {
    using Packed = PackedWeights<kType>;
    static constexpr bool kTwoDots = true;
    static constexpr bool kIntegerScales = true;

    using Packed::Packed;
    [[nodiscard]] static TAPROOT_INLINE int bias() { return Packed::kFormat.bias; }
    [[nodiscard]] TAPROOT_INLINE auto block(int p, int b) const {
        return FewBits<Packed::kFormat.quant_bits == 3>::load(
            this->quants[p] + static_cast<unsigned>(b) * Packed::kQuantBytes);
    }
    [[nodiscard]] TAPROOT_INLINE __m512 low_scale(int p, int b) const {
        return scale(this->sub_scales(p, b));
    }
    [[nodiscard]] TAPROOT_INLINE __m512 high_scale(int p, int b) const {
        return scale(this->sub_scales(p, b) + kPanelRows);
    }

private:
    static TAPROOT_INLINE __m512 scale(const std::byte* at) {
        if constexpr (Packed::kHalfOffsets) {
            return _mm512_cvtepi32_ps(_mm512_and_si512(load_bytes(at), _mm512_set1_epi32(15)));
        } else {
            return _mm512_cvtepi32_ps(load_signed_bytes(at));
        }
    }
};

// What kernels for few rows of x read.
template <DType kType>
struct FewRowsWeights {
    using Type = PackedWeights<kType>;
};
template <>
struct FewRowsWeights<DType::kQ2_K> {
    using Type = TwoDotWeights<DType::kQ2_K>;
};
template <>
struct FewRowsWeights<DType::kQ3_K> {
    using Type = TwoDotWeights<DType::kQ3_K>;
};

}  // namespace taproot::avx512
