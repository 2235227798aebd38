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
    // Columns 4v .. 4v + 3 of 8 rows: unsigned below 32, or signed for 8 bits.
    template <int v>
    [[nodiscard]] TAPROOT_INLINE __m256i load(int b) const {
        const std::byte* block = quants + static_cast<std::size_t>(b) * quant_block_bytes(kFormat);
        if constexpr (kBits == 8) {
            return _mm256_xor_si256(load_vector(block + v * 64), _mm256_set1_epi8(-128));
        } else {
            __m256i q = load_vector(block + v % 4 * 64);
            if constexpr (v >= 4) q = _mm256_srli_epi16(q, 4);
            q = _mm256_and_si256(q, _mm256_set1_epi8(15));
            if constexpr (kBits == 5) {
                __m256i bits = load_vector(block + 4 * 64);
                if constexpr (v < 4) bits = _mm256_slli_epi16(bits, 4 - v);
                if constexpr (v > 4) bits = _mm256_srli_epi16(bits, v - 4);
                q = _mm256_or_si256(q, _mm256_and_si256(bits, _mm256_set1_epi8(16)));
            }
            return q;
        }
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
    template <int v>
    [[nodiscard]] TAPROOT_INLINE __m256i load(int b) const {
        return load_vector(chunk.q[half][b][v]);
    }
};

template <DType kType>
void unpack(const QuantizedTile& tile, int half, int block_begin, int blocks, UnpackedChunk* out) {
    PackedWeights<kType> packed(tile, half);
    for (int b = 0; b < blocks; ++b) {
        unroll<kVectors>([&](auto v) TAPROOT_INLINE_LAMBDA {
            _mm256_store_si256(reinterpret_cast<__m256i*>(out->q[half][b][v.value]),
                               packed.template load<v.value>(block_begin + b));
        });
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

// The integer dots of one block: 8 output rows times kRows rows of x.
template <typename Weights, int kRows>
TAPROOT_INLINE void block_dots(const Weights& w, int b, const ActivationBlock* x,
                               std::int64_t x_stride, __m256i (&dots)[kRows]) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (Weights::kBits == 8) {
        unroll<kRows>([&](auto t)
                          TAPROOT_INLINE_LAMBDA { dots[t.value] = _mm256_setzero_si256(); });
        unroll<kVectors>([&](auto v) TAPROOT_INLINE_LAMBDA {
            __m256i weights = w.template load<v.value>(b);
            __m256i magnitude = _mm256_abs_epi8(weights);
            unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
                __m256i q = broadcast_4(x[t.value * x_stride + b].q + 4 * v.value);
                __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(q, weights));
                dots[t.value] = _mm256_add_epi32(dots[t.value], _mm256_madd_epi16(pairs, ones));
            });
        });
        return;
    }
    constexpr int kParts = Weights::kBits == 4 ? 1 : 2;  // sums that fit int16
    unroll<kParts>([&](auto part) TAPROOT_INLINE_LAMBDA {
        __m256i pairs[kRows];
        unroll<kVectors / kParts>([&](auto i) TAPROOT_INLINE_LAMBDA {
            constexpr int kVector = part.value * (kVectors / kParts) + i.value;
            __m256i weights = w.template load<kVector>(b);
            unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
                __m256i q = broadcast_4(x[t.value * x_stride + b].q + 4 * kVector);
                __m256i products = _mm256_maddubs_epi16(weights, q);
                pairs[t.value] =
                    i.value == 0 ? products : _mm256_add_epi16(pairs[t.value], products);
            });
        });
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m256i sums = _mm256_madd_epi16(pairs[t.value], ones);
            dots[t.value] = part.value == 0 ? sums : _mm256_add_epi32(dots[t.value], sums);
        });
    });
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
        default:
            return tile_of<DType::kQ8_0>(tile);
    }
}

}  // namespace taproot::avx2
