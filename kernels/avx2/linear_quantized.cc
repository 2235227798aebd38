// SPDX-License-Identifier: Apache-2.0
// Quantised linear layers without VNNI. Half a panel (8 output rows in 8 lanes) by up to four rows
// of x stay in registers. vpmaddubsw multiplies unsigned weights with signed activations and adds
// pairs into int16, which must never saturate:
//   4 bits: a pair is at most 15 * 127 * 2 = 3810, the 8 pairs of a block 30480
//   5 bits: 31 * 127 * 2 = 7874, four pairs 31496: two partial sums per block
//   8 bits: |w| <= 128 times x with the sign of w, at most 128 * 127 * 2 = 32512: no adding. It
//           needs q >= -127 in activations, which quantize_row promises.
//   6 bits: 63 * 127 * 2 = 16002, two pairs 32004; scales of halves, so two sums per half
//   2 and 3 bits: at most 7 * 127 * 2 = 1778, the four pairs of a half 7112
#include "kernels/avx2/linear_kernels.h"
#include "kernels/avx2/quantized_weights.h"
#include "kernels/avx2/store_lanes.h"
#include "kernels/avx2/super_block_weights.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

namespace taproot::avx2 {
namespace {

constexpr int kGroupRows = 4;
constexpr int kHalves = 2 * kTilePanels;  // of 8 output rows in a tile
constexpr int kChunkBlocks = 16;          // K per unpacked chunk: 16 KiB of weights, half of L1
constexpr int kVectors = 8;               // of 4 columns in a block

TAPROOT_INLINE int half_sums(const ActivationBlock& x) {  // as 16-bit pairs
    int bits;
    __builtin_memcpy(&bits, x.half_sums, sizeof bits);
    return bits;
}
TAPROOT_INLINE __m256i broadcast_4(const std::int8_t* q) {
    int bits;
    __builtin_memcpy(&bits, q, sizeof bits);
    return _mm256_set1_epi32(bits);
}
// A chunk of the tile's panels unpacked once for many rows of x.
struct UnpackedChunk {
    alignas(64) std::int8_t q[kHalves][kChunkBlocks][kVectors][32];
    alignas(64) float d[kHalves][kChunkBlocks][8];
    alignas(64) float m[kHalves][kChunkBlocks][8];
    alignas(64) HalfIntegers half_integers[kHalves][kChunkBlocks];
};

template <DType kType>
struct UnpackedWeights {
    using Packed = PackedWeights<kType>;
    static constexpr int kBits = Packed::kBits;
    static constexpr bool kOffset = Packed::kOffset;
    static constexpr bool kHalfIntegers = Packed::kHalfIntegers;
    static constexpr bool kHalfScales = Packed::kHalfScales;
    static constexpr bool kHalfOffsets = Packed::kHalfOffsets;
    static constexpr int kBias = Packed::kBias;

    const UnpackedChunk& chunk;
    int half;

    [[nodiscard]] TAPROOT_INLINE HalfIntegers half_integers(int b) const {
        return chunk.half_integers[half][b];
    }

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
    using Packed = PackedWeights<kType>;
    Packed packed(tile, half);
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
        if constexpr (Packed::kOffset || Packed::kHalfScales || Packed::kHalfOffsets) {
            _mm256_store_ps(out->m[half][b], packed.m(block_begin + b));
        }
        if constexpr (Packed::kHalfIntegers) {
            out->half_integers[half][b] = packed.half_integers(block_begin + b);
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

// The same for types whose halves of a block have scales of their own. Integer scales are applied
// here (`dots` are of the whole block); float ones are not (`high_dots` are of columns 16 .. 31).
// Q2_K: `high_dots` are its integer offsets times the sums of the halves.
template <typename Weights, int kRows>
TAPROOT_INLINE void half_dots(const Weights& w, int b, const ActivationBlock* x,
                              std::int64_t x_stride, __m256i (&dots)[kRows],
                              __m256i (&high_dots)[kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    HalfIntegers by{ones, ones, _mm256_setzero_si256()};
    if constexpr (Weights::kHalfIntegers) by = w.half_integers(b);
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        dots[t.value] = high_dots[t.value] = _mm256_setzero_si256();
    });
    auto block = w.block(b);
    constexpr int kParts = Weights::kBits == 6 ? 2 : 1;  // whose pair sums fit int16
#pragma GCC unroll 1
    for (int part = 0; part < kParts; ++part) {
        __m256i low_pairs[kRows];
        __m256i high_pairs[kRows];
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            low_pairs[t.value] = high_pairs[t.value] = _mm256_setzero_si256();
        });
#pragma GCC unroll 1
        for (int v = 4 / kParts * part; v < 4 / kParts * (part + 1); ++v) {
            __m256i low;
            __m256i high;
            block.next(low, high);
            add_unsigned<kRows>(low, x + b, x_stride, 4 * v, low_pairs);
            add_unsigned<kRows>(high, x + b, x_stride, 16 + 4 * v, high_pairs);
        }
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m256i& high_dot = (Weights::kHalfScales ? high_dots : dots)[t.value];
            dots[t.value] =
                _mm256_add_epi32(dots[t.value], _mm256_madd_epi16(low_pairs[t.value], by.low));
            high_dot = _mm256_add_epi32(high_dot, _mm256_madd_epi16(high_pairs[t.value], by.high));
        });
    }
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        __m256i sums = _mm256_set1_epi32(half_sums(x[t.value * x_stride + b]));
        __m256i& dot = dots[t.value];
        __m256i& high_dot = high_dots[t.value];
        if constexpr (Weights::kHalfOffsets) {
            high_dot = _mm256_madd_epi16(by.pairs, sums);
        } else if constexpr (Weights::kHalfIntegers) {
            dot = _mm256_sub_epi32(dot, _mm256_madd_epi16(by.pairs, sums));
        } else {
            const __m256i low_bias = _mm256_set1_epi32(Weights::kBias);
            const __m256i high_bias = _mm256_set1_epi32(Weights::kBias << 16);
            dot = _mm256_sub_epi32(dot, _mm256_madd_epi16(low_bias, sums));
            high_dot = _mm256_sub_epi32(high_dot, _mm256_madd_epi16(high_bias, sums));
        }
    });
}

// sums[t] += block b, in the canonical order.
template <typename Weights, int kRows>
TAPROOT_INLINE void add_block(const Weights& w, int b, const ActivationBlock* x,
                              std::int64_t x_stride, __m256 (&sums)[kRows]) {
    __m256i dots[kRows];
    __m256 d = w.d(b);
    if constexpr (Weights::kHalfIntegers || Weights::kHalfScales) {
        __m256i high_dots[kRows];
        half_dots<Weights, kRows>(w, b, x, x_stride, dots, high_dots);
        if constexpr (Weights::kHalfScales || Weights::kHalfOffsets) {
            __m256 m = w.m(b);
            unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
                __m256 both = _mm256_mul_ps(_mm256_cvtepi32_ps(dots[t.value]), d);
                both = _mm256_fmadd_ps(_mm256_cvtepi32_ps(high_dots[t.value]), m, both);
                __m256 x_scale = _mm256_broadcast_ss(&x[t.value * x_stride + b].d);
                sums[t.value] = _mm256_fmadd_ps(both, x_scale, sums[t.value]);
            });
            return;
        }
    } else {
        block_dots<Weights, kRows>(w, b, x, x_stride, dots);
    }
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        __m256 scale = _mm256_mul_ps(d, _mm256_broadcast_ss(&x[t.value * x_stride + b].d));
        sums[t.value] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dots[t.value]), scale, sums[t.value]);
    });
    if constexpr (Weights::kOffset) {
        __m256 m = w.m(b);
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m256 scaled_sum = _mm256_broadcast_ss(&x[t.value * x_stride + b].scaled_sum);
            sums[t.value] = _mm256_fmadd_ps(m, scaled_sum, sums[t.value]);
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
    for (int b = 0; b < blocks; ++b) add_block<Weights, kRows>(w, b, x, x_stride, sums);
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
        case DType::kQ2_K:
            return tile_of<DType::kQ2_K>(tile);
        case DType::kQ3_K:
            return tile_of<DType::kQ3_K>(tile);
        case DType::kQ4_K:
            return tile_of<DType::kQ4_K>(tile);
        case DType::kQ5_K:
            return tile_of<DType::kQ5_K>(tile);
        case DType::kQ6_K:
            return tile_of<DType::kQ6_K>(tile);
        case DType::kIQ4_NL:
            return tile_of<DType::kIQ4_NL>(tile);
        case DType::kIQ4_XS:
            return tile_of<DType::kIQ4_XS>(tile);
        default:
            __builtin_unreachable();  // float types have their own kernel
    }
}

}  // namespace taproot::avx2
