// SPDX-License-Identifier: Apache-2.0
// Quantised linear layers with VNNI. Output rows lie in lanes: one vpdpbusd multiplies 16 rows x 4
// columns of weights (unsigned bytes) with 4 activations broadcast to all lanes, so nothing is ever
// summed across lanes. Two panels by up to six rows of x stay in registers.
//
// Roof: per block of 32 columns, panel and row of x: 8 vpdpbusd, and to apply the scales 3 float
// operations (4 with an offset); both kinds share the two 512-bit ports, so at most 67-73 % of the
// vpdpbusd peak can be reached. One row of x is bound by reading the weights.
#include <immintrin.h>

#include "kernels/avx512/linear_kernels.h"
#include "kernels/panel_layout.h"
#include "kernels/unroll.h"

namespace taproot::avx512 {
namespace {

constexpr int kGroupRows = 6;     // rows of x in registers
constexpr int kChunkBlocks = 32;  // K per unpacked chunk: 32 KiB of weights, they stay in L1
constexpr int kVectors = 8;       // of 4 columns in a block

TAPROOT_INLINE __m512i broadcast_4(const std::int8_t* q) {
    int bits;
    __builtin_memcpy(&bits, q, sizeof bits);
    return _mm512_set1_epi32(bits);
}
TAPROOT_INLINE __m512 load_half(const std::byte* at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
}
TAPROOT_INLINE __m512i load_vector(const void* at) {
    return _mm512_load_si512(static_cast<const __m512i*>(at));
}

// Weights as pack() left them; unpacked to bytes in registers. kType is only a layout.
template <DType kType>
struct PackedWeights {
    static constexpr PanelFormat kFormat = panel_format(kType);
    static constexpr bool kOffset = kFormat.offset;

    const std::byte* scales[kTilePanels];
    const std::byte* quants[kTilePanels];

    TAPROOT_INLINE explicit PackedWeights(const QuantizedTile& tile) {
        for (int p = 0; p < kTilePanels; ++p) {
            scales[p] = tile.panels[p];
            quants[p] = tile.panels[p] + quants_offset(kFormat, tile.blocks);
        }
    }

    [[nodiscard]] static TAPROOT_INLINE int bias() { return kFormat.bias; }
    [[nodiscard]] TAPROOT_INLINE __m512 d(int p, int b) const {
        return load_half(scales[p] + static_cast<std::size_t>(b) * scale_block_bytes(kFormat));
    }
    [[nodiscard]] TAPROOT_INLINE __m512 m(int p, int b) const {
        return load_half(scales[p] + static_cast<std::size_t>(b) * scale_block_bytes(kFormat) + 32);
    }
    // Columns 4v .. 4v + 3 and 16 + 4v .. of 16 rows, unsigned. v < 4.
    template <int v>
    TAPROOT_INLINE void load(int p, int b, __m512i& low, __m512i& high) const {
        const std::byte* block =
            quants[p] + static_cast<std::size_t>(b) * quant_block_bytes(kFormat);
        if constexpr (kFormat.quant_bits == 8) {
            low = load_vector(block + v * 64);
            high = load_vector(block + (v + 4) * 64);
        } else {
            const __m512i nibble = _mm512_set1_epi8(15);
            __m512i raw = load_vector(block + v * 64);
            low = _mm512_and_si512(raw, nibble);
            high = _mm512_and_si512(_mm512_srli_epi16(raw, 4), nibble);
        }
        if constexpr (kFormat.quant_bits == 5) {
            const __m512i bit = _mm512_set1_epi8(16);
            __m512i bits = load_vector(block + 4 * 64);
            constexpr int kOr = 0xf8;  // a | (b & c)
            low = _mm512_ternarylogic_epi32(low, _mm512_slli_epi16(bits, 4 - v), bit, kOr);
            __m512i shifted = v == 0 ? bits : _mm512_srli_epi16(bits, v);
            high = _mm512_ternarylogic_epi32(high, shifted, bit, kOr);
        }
    }
};

// A chunk of two panels unpacked once for many rows of x.
struct UnpackedChunk {
    alignas(64) std::uint8_t q[kChunkBlocks][kVectors][kTilePanels][64];
    alignas(64) float d[kChunkBlocks][kTilePanels][16];
    alignas(64) float m[kChunkBlocks][kTilePanels][16];
};

template <bool kHasOffset>
struct UnpackedWeights {
    static constexpr bool kOffset = kHasOffset;
    const UnpackedChunk& chunk;
    int bias_value;

    [[nodiscard]] TAPROOT_INLINE int bias() const { return bias_value; }
    [[nodiscard]] TAPROOT_INLINE __m512 d(int p, int b) const {
        return _mm512_load_ps(chunk.d[b][p]);
    }
    [[nodiscard]] TAPROOT_INLINE __m512 m(int p, int b) const {
        return _mm512_load_ps(chunk.m[b][p]);
    }
    template <int v>
    TAPROOT_INLINE void load(int p, int b, __m512i& low, __m512i& high) const {
        low = load_vector(chunk.q[b][v][p]);
        high = load_vector(chunk.q[b][v + 4][p]);
    }
};

template <DType kType>
void unpack(const PackedWeights<kType>& packed, int block_begin, int blocks, UnpackedChunk* out) {
    for (int b = 0; b < blocks; ++b) {
        for (int p = 0; p < kTilePanels; ++p) {
            unroll<4>([&](auto v) TAPROOT_INLINE_LAMBDA {
                __m512i low;
                __m512i high;
                packed.template load<v.value>(p, block_begin + b, low, high);
                _mm512_store_si512(out->q[b][v.value][p], low);
                _mm512_store_si512(out->q[b][v.value + 4][p], high);
            });
            _mm512_store_ps(out->d[b][p], packed.d(p, block_begin + b));
            if constexpr (PackedWeights<kType>::kOffset) {
                _mm512_store_ps(out->m[b][p], packed.m(p, block_begin + b));
            }
        }
    }
}

// The bytes this thread will read next, brought near a few lines per block while it computes.
struct Prefetch {
    const std::byte* next;
    const std::byte* end;
    int lines;  // per block

    TAPROOT_INLINE void step() {
        for (int i = 0; i < lines && next < end; ++i, next += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T0);
        }
    }
};

// Sums of a group of rows between chunks of K.
struct PartialSums {
    alignas(64) float rows[kTileRowsMax][kTileColumns];
};

TAPROOT_INLINE void store_panel(__m512 sums, float* to, int columns, bool add) {
    auto mask = static_cast<__mmask16>(columns >= 16 ? 0xffff : (1 << columns) - 1);
    if (add) sums = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sums);
    _mm512_mask_storeu_ps(to, mask, sums);
}

// sums[p][t] += blocks [0, blocks) of weights panel p times row t of x.
template <typename Weights, int kRows>
TAPROOT_INLINE void accumulate(const Weights& w, int blocks, const ActivationBlock* x,
                               std::int64_t x_stride, Prefetch* prefetch,
                               __m512 (&sums)[kTilePanels][kRows]) {
    // As 16-bit pairs (-bias, 0): one vpdpwssd starts the integer sum at -bias * sum(q).
    const __m512i minus_bias = _mm512_set1_epi32((-w.bias()) & 0xffff);
    const __m512i zero = _mm512_setzero_si512();
    for (int b = 0; b < blocks; ++b) {
        prefetch->step();
        __m512i dots[kTilePanels][kRows];
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m512i start = zero;
            if constexpr (!Weights::kOffset) {
                start = _mm512_dpwssd_epi32(zero, minus_bias,
                                            _mm512_set1_epi32(x[t.value * x_stride + b].sum));
            }
            dots[0][t.value] = start;
            dots[1][t.value] = start;
        });
        unroll<4>([&](auto v) TAPROOT_INLINE_LAMBDA {
            __m512i low[kTilePanels];
            __m512i high[kTilePanels];
            w.template load<v.value>(0, b, low[0], high[0]);
            w.template load<v.value>(1, b, low[1], high[1]);
            unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
                const std::int8_t* q = x[t.value * x_stride + b].q;
                __m512i x_low = broadcast_4(q + 4 * v.value);
                dots[0][t.value] = _mm512_dpbusd_epi32(dots[0][t.value], low[0], x_low);
                dots[1][t.value] = _mm512_dpbusd_epi32(dots[1][t.value], low[1], x_low);
                __m512i x_high = broadcast_4(q + 16 + 4 * v.value);
                dots[0][t.value] = _mm512_dpbusd_epi32(dots[0][t.value], high[0], x_high);
                dots[1][t.value] = _mm512_dpbusd_epi32(dots[1][t.value], high[1], x_high);
            });
        });
        unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
            __m512 d = w.d(p.value, b);
            __m512 m = d;
            if constexpr (Weights::kOffset) m = w.m(p.value, b);
            unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
                const ActivationBlock& block = x[t.value * x_stride + b];
                __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(block.d));
                __m512& sum = sums[p.value][t.value];
                sum = _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots[p.value][t.value]), scale, sum);
                if constexpr (Weights::kOffset) {
                    sum = _mm512_fmadd_ps(m, _mm512_set1_ps(block.scaled_sum), sum);
                }
            });
        });
    }
}

// Where a group's sums come from and go to.
struct GroupEnds {
    float* partial_in;   // null: start at zero
    float* partial_out;  // null: finished, store to `out`
    TileOut out;         // out.data at the group's first row
};

template <typename Weights, int kRows>
void run_group(const Weights& w, int blocks, const ActivationBlock* x, std::int64_t x_stride,
               Prefetch* prefetch, const GroupEnds& ends) {
    __m512 sums[kTilePanels][kRows];
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
            constexpr int kAt = t.value * kTileColumns + p.value * 16;
            sums[p.value][t.value] = ends.partial_in == nullptr
                                         ? _mm512_setzero_ps()
                                         : _mm512_load_ps(ends.partial_in + kAt);
        });
    });
    accumulate<Weights, kRows>(w, blocks, x, x_stride, prefetch, sums);
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        if (ends.partial_out != nullptr) {
            float* to = ends.partial_out + t.value * kTileColumns;
            _mm512_store_ps(to, sums[0][t.value]);
            _mm512_store_ps(to + 16, sums[1][t.value]);
            return;
        }
        float* to = ends.out.data + t.value * ends.out.stride;
        store_panel(sums[0][t.value], to, ends.out.columns, ends.out.add);
        if (ends.out.columns > 16) {
            store_panel(sums[1][t.value], to + 16, ends.out.columns - 16, ends.out.add);
        }
    });
}

template <typename Weights>
void run_group(int rows, const Weights& w, int blocks, const ActivationBlock* x,
               std::int64_t x_stride, Prefetch* prefetch, const GroupEnds& ends) {
    switch (rows) {
        case 1:
            return run_group<Weights, 1>(w, blocks, x, x_stride, prefetch, ends);
        case 2:
            return run_group<Weights, 2>(w, blocks, x, x_stride, prefetch, ends);
        case 3:
            return run_group<Weights, 3>(w, blocks, x, x_stride, prefetch, ends);
        case 4:
            return run_group<Weights, 4>(w, blocks, x, x_stride, prefetch, ends);
        case 5:
            return run_group<Weights, 5>(w, blocks, x, x_stride, prefetch, ends);
        default:
            return run_group<Weights, 6>(w, blocks, x, x_stride, prefetch, ends);
    }
}

Prefetch prefetch_over(const QuantizedTile& tile, int steps) {
    auto lines = static_cast<int>(tile.next_bytes / 64);
    return {tile.next, tile.next + tile.next_bytes, (lines + steps - 1) / steps};
}

template <DType kType>
void many_rows(const QuantizedTile& tile) {
    PackedWeights<kType> packed(tile);
    UnpackedChunk chunk;
    PartialSums partial;
    UnpackedWeights<PackedWeights<kType>::kOffset> unpacked{chunk, packed.bias()};
    int groups = (tile.rows + kGroupRows - 1) / kGroupRows;
    int chunks = (tile.blocks + kChunkBlocks - 1) / kChunkBlocks;
    Prefetch prefetch = prefetch_over(tile, tile.blocks * groups);
    for (int c = 0; c < chunks; ++c) {
        int begin = tile.blocks * c / chunks;
        int blocks = tile.blocks * (c + 1) / chunks - begin;
        unpack(packed, begin, blocks, &chunk);
        for (int g = 0; g < groups; ++g) {
            int row = tile.rows * g / groups;
            int rows = tile.rows * (g + 1) / groups - row;
            GroupEnds ends{c > 0 ? partial.rows[row] : nullptr,
                           c + 1 < chunks ? partial.rows[row] : nullptr, tile.out};
            ends.out.data += row * tile.out.stride;
            const ActivationBlock* x = tile.x + std::int64_t{row} * tile.blocks + begin;
            run_group(rows, unpacked, blocks, x, tile.blocks, &prefetch, ends);
        }
    }
}

template <DType kType>
void tile_of(const QuantizedTile& tile) {
    if (tile.rows > kGroupRows) return many_rows<kType>(tile);
    Prefetch prefetch = prefetch_over(tile, tile.blocks);
    run_group(tile.rows, PackedWeights<kType>(tile), tile.blocks, tile.x, tile.blocks, &prefetch,
              GroupEnds{nullptr, nullptr, tile.out});
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

}  // namespace taproot::avx512
