// SPDX-License-Identifier: Apache-2.0
// Quantised linear layers without VNNI. Half a panel (8 output rows in 8 lanes) by up to four rows
// of x stay in registers. vpmaddubsw multiplies unsigned weights with signed activations and adds
// pairs into int16, which must never saturate:
//   4 bits: a pair is at most 15 * 127 * 2 = 3810, the 8 pairs of a block 30480
//   5 bits: 31 * 127 * 2 = 7874, four pairs 31496: two partial sums per block
//   8 bits: |w| <= 128 times x with the sign of w, at most 128 * 127 * 2 = 32512: no adding. It
//           needs q >= -127 in activations, which quantize_row promises.
#include <immintrin.h>

#include "kernels/avx2/linear_kernels.h"
#include "kernels/avx2/store_lanes.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

namespace taproot::avx2 {
namespace {

constexpr int kGroupRows = 4;
constexpr int kHalves = 2 * kTilePanels;  // of 8 output rows in a tile
constexpr int kChunkBlocks = 16;          // K per unpacked chunk: 16 KiB of weights, half of L1
constexpr int kVectors = 8;               // of 4 columns in a block

TAPROOT_INLINE __m256i broadcast_4(const std::int8_t* q) {
    int bits;
    __builtin_memcpy(&bits, q, sizeof bits);
    return _mm256_set1_epi32(bits);
}
TAPROOT_INLINE __m256 load_half(const std::byte* at) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
}
TAPROOT_INLINE __m256i load_vector(const void* at) {
    return _mm256_load_si256(static_cast<const __m256i*>(at));
}

// Half a panel as pack() left it.
template <DType kType>
struct PackedWeights {
    static constexpr PanelFormat kFormat = panel_format(kType);
    static constexpr int kBits = kFormat.quant_bits;
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

        // Step v of 4: columns 4v .. 4v + 3 and 16 + 4v .. .
        TAPROOT_INLINE void next(__m256i& low, __m256i& high) {
            if constexpr (kBits == 8) {
                const __m256i sign = _mm256_set1_epi8(-128);
                low = _mm256_xor_si256(load_vector(at), sign);
                high = _mm256_xor_si256(load_vector(at + 4 * 64), sign);
            } else {
                const __m256i nibble = _mm256_set1_epi8(15);
                __m256i raw = load_vector(at);
                low = _mm256_and_si256(raw, nibble);
                high = _mm256_and_si256(_mm256_srli_epi16(raw, 4), nibble);
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
        const std::byte* at = quants + static_cast<std::size_t>(b) * quant_block_bytes(kFormat);
        if constexpr (kBits == 5) return {at, load_vector(at + 4 * 64)};
        return {at, _mm256_setzero_si256()};
    }
};

// A chunk of the tile's panels unpacked once for many rows of x.
struct UnpackedChunk {
    alignas(64) std::int8_t q[kHalves][kChunkBlocks][kVectors][32];
    alignas(64) float d[kHalves][kChunkBlocks][8];
    alignas(64) float m[kHalves][kChunkBlocks][8];
};

template <DType kType>
struct UnpackedWeights {
    static constexpr int kBits = panel_format(kType).quant_bits;
    static constexpr bool kOffset = panel_format(kType).offset;
    static constexpr int kBias = panel_format(kType).bias;

    const UnpackedChunk& chunk;
    int half;

    [[nodiscard]] TAPROOT_INLINE __m256 d(int b) const { return _mm256_load_ps(chunk.d[half][b]); }
    [[nodiscard]] TAPROOT_INLINE __m256 m(int b) const { return _mm256_load_ps(chunk.m[half][b]); }
    struct Block {
        const std::int8_t* at;
        TAPROOT_INLINE void next(__m256i& low, __m256i& high) {
            low = load_vector(at);
            high = load_vector(at + 4 * 32);
            at += 32;
        }
    };
    [[nodiscard]] TAPROOT_INLINE Block block(int b) const { return {chunk.q[half][b][0]}; }
};

template <DType kType>
void unpack(const QuantizedTile& tile, int half, int block_begin, int blocks, UnpackedChunk* out) {
    PackedWeights<kType> packed(tile, half);
    for (int b = 0; b < blocks; ++b) {
        auto block = packed.block(block_begin + b);
        for (int v = 0; v < 4; ++v) {
            __m256i low;
            __m256i high;
            block.next(low, high);
            _mm256_store_si256(reinterpret_cast<__m256i*>(out->q[half][b][v]), low);
            _mm256_store_si256(reinterpret_cast<__m256i*>(out->q[half][b][v + 4]), high);
        }
        _mm256_store_ps(out->d[half][b], packed.d(block_begin + b));
        if constexpr (PackedWeights<kType>::kOffset) {
            _mm256_store_ps(out->m[half][b], packed.m(block_begin + b));
        }
    }
}

// Sums of a group of rows between chunks of K.
struct PartialSums {
    alignas(64) float rows[kTileRowsMax][kTileColumns];
};

// dots[t] += 8 bit weights times x, for 4 columns.
template <int kRows>
TAPROOT_INLINE void add_signed(__m256i weights, const ActivationBlock* x, std::int64_t x_stride,
                               int column, __m256i (&dots)[kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    __m256i magnitude = _mm256_abs_epi8(weights);
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        __m256i q = broadcast_4(x[t.value * x_stride].q + column);
        __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, weights));
        dots[t.value] = _mm256_add_epi32(dots[t.value], _mm256_madd_epi16(pairs, ones));
    });
}

// pairs[t] += unsigned weights times x, for 4 columns.
template <int kRows>
TAPROOT_INLINE void add_unsigned(__m256i weights, const ActivationBlock* x, std::int64_t x_stride,
                                 int column, __m256i (&pairs)[kRows]) {
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        __m256i q = broadcast_4(x[t.value * x_stride].q + column);
        pairs[t.value] = _mm256_add_epi16(pairs[t.value], _mm256_maddubs_epi16(weights, q));
    });
}

// The integer dots of one block: 8 output rows times kRows rows of x. The loops over v are not
// unrolled: it would gain nothing and compile four times as long.
template <typename Weights, int kRows>
TAPROOT_INLINE void block_dots(const Weights& w, int b, const ActivationBlock* x,
                               std::int64_t x_stride, __m256i (&dots)[kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    auto block = w.block(b);
    __m256i low;
    __m256i high;
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA { dots[t.value] = _mm256_setzero_si256(); });
    if constexpr (Weights::kBits == 8) {
#pragma GCC unroll 1
        for (int v = 0; v < 4; ++v) {
            block.next(low, high);
            add_signed<kRows>(low, x + b, x_stride, 4 * v, dots);
            add_signed<kRows>(high, x + b, x_stride, 16 + 4 * v, dots);
        }
        return;
    }
    constexpr int kParts = Weights::kBits == 4 ? 1 : 2;  // whose pair sums fit int16
#pragma GCC unroll 1
    for (int part = 0; part < kParts; ++part) {
        __m256i pairs[kRows];
        unroll<kRows>([&](auto t)
                          TAPROOT_INLINE_LAMBDA { pairs[t.value] = _mm256_setzero_si256(); });
#pragma GCC unroll 1
        for (int v = 4 / kParts * part; v < 4 / kParts * (part + 1); ++v) {
            block.next(low, high);
            add_unsigned<kRows>(low, x + b, x_stride, 4 * v, pairs);
            add_unsigned<kRows>(high, x + b, x_stride, 16 + 4 * v, pairs);
        }
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            dots[t.value] =
                _mm256_add_epi32(dots[t.value], _mm256_madd_epi16(pairs[t.value], ones));
        });
    }
    if constexpr (Weights::kBias != 0) {
        // 16-bit pairs (bias, 0) times sum(q), which fits 16 bits.
        const __m256i bias = _mm256_set1_epi32(Weights::kBias);
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m256i sum = _mm256_set1_epi32(x[t.value * x_stride + b].sum);
            dots[t.value] = _mm256_sub_epi32(dots[t.value], _mm256_madd_epi16(bias, sum));
        });
    }
}

// Where a group's sums come from and go to: 8 columns at `column` of the tile.
struct GroupEnds {
    float* partial_in;   // [kRows][kTileColumns]; null: start at zero
    float* partial_out;  // null: finished, store to `out`
    TileOut out;         // out.data at the group's first row
    int column;
};

template <typename Weights, int kRows>
void run_group(const Weights& w, int blocks, const ActivationBlock* x, std::int64_t x_stride,
               const GroupEnds& ends) {
    __m256 sums[kRows];
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        sums[t.value] =
            ends.partial_in == nullptr
                ? _mm256_setzero_ps()
                : _mm256_load_ps(ends.partial_in + t.value * kTileColumns + ends.column);
    });
    for (int b = 0; b < blocks; ++b) {
        __m256i dots[kRows];
        block_dots<Weights, kRows>(w, b, x, x_stride, dots);
        __m256 d = w.d(b);
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m256 scale = _mm256_mul_ps(d, _mm256_broadcast_ss(&x[t.value * x_stride + b].d));
            sums[t.value] =
                _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[t.value]), scale, sums[t.value]);
        });
        if constexpr (Weights::kOffset) {
            __m256 m = w.m(b);
            unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
                __m256 scaled_sum = _mm256_broadcast_ss(&x[t.value * x_stride + b].scaled_sum);
                sums[t.value] = _mm256_fmadd_ps(m, scaled_sum, sums[t.value]);
            });
        }
    }
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        if (ends.partial_out != nullptr) {
            _mm256_store_ps(ends.partial_out + t.value * kTileColumns + ends.column, sums[t.value]);
            return;
        }
        store_lanes(sums[t.value], ends.out.data + t.value * ends.out.stride + ends.column,
                    ends.out.columns - ends.column, ends.out.add);
    });
}

template <typename Weights, int kRows = kGroupRows>
void run_rows(int rows, const Weights& w, int blocks, const ActivationBlock* x,
              std::int64_t x_stride, const GroupEnds& ends) {
    if constexpr (kRows > 1) {
        if (rows < kRows) {
            return run_rows<Weights, kRows - 1>(rows, w, blocks, x, x_stride, ends);
        }
    }
    run_group<Weights, kRows>(w, blocks, x, x_stride, ends);
}

template <DType kType>
void many_rows(const QuantizedTile& tile, int halves) {
    UnpackedChunk chunk;
    PartialSums partial;
    int groups = (tile.rows + kGroupRows - 1) / kGroupRows;
    int chunks = (tile.blocks + kChunkBlocks - 1) / kChunkBlocks;
    for (int c = 0; c < chunks; ++c) {
        int begin = tile.blocks * c / chunks;
        int blocks = tile.blocks * (c + 1) / chunks - begin;
        for (int h = 0; h < halves; ++h) unpack<kType>(tile, h, begin, blocks, &chunk);
        for (int g = 0; g < groups; ++g) {
            int row = tile.rows * g / groups;
            int rows = tile.rows * (g + 1) / groups - row;
            const ActivationBlock* x = tile.x + std::int64_t{row} * tile.blocks + begin;
            GroupEnds ends{c > 0 ? partial.rows[row] : nullptr,
                           c + 1 < chunks ? partial.rows[row] : nullptr, tile.out, 0};
            ends.out.data += row * tile.out.stride;
            for (int h = 0; h < halves; ++h) {
                ends.column = h * 8;
                run_rows(rows, UnpackedWeights<kType>{chunk, h}, blocks, x, tile.blocks, ends);
            }
        }
    }
}

template <DType kType>
void tile_of(const QuantizedTile& tile) {
    int halves = (tile.out.columns + 7) / 8;
    if (tile.rows > kGroupRows) return many_rows<kType>(tile, halves);
    for (int h = 0; h < halves; ++h) {
        run_rows(tile.rows, PackedWeights<kType>(tile, h), tile.blocks, tile.x, tile.blocks,
                 GroupEnds{nullptr, nullptr, tile.out, h * 8});
    }
}

}  // namespace

void quantized_tile(const QuantizedTile& tile) {
    switch (tile.dtype) {
        case DType::kQ4_0:
            return tile_of<DType::kQ4_0>(tile);
        case DType::kQ4_1:
            return tile_of<DType::kQ4_1>(tile);
        case DType::kQ5_0:
            return tile_of<DType::kQ5_0>(tile);
        case DType::kQ5_1:
            return tile_of<DType::kQ5_1>(tile);
        case DType::kQ8_0:
            return tile_of<DType::kQ8_0>(tile);
        default:
            return ref::linear_ops().quantized_tile(tile);
    }
}

}  // namespace taproot::avx2
