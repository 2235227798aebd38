// SPDX-License-Identifier: Apache-2.0
// Quantised linear layers with VNNI. Output rows lie in lanes: one vpdpbusd multiplies 16 rows x 4
// columns of weights (unsigned bytes) with 4 activations broadcast to all lanes, so nothing is ever
// summed across lanes. Accumulators stay in registers: two panels by up to 6 rows of x, or one by
// up to 12.
//
// Roof: per block of 32 columns, panel and row of x, 8 vpdpbusd and 3 float operations that apply
// the scales (4 with an offset). Both kinds share the two 512-bit ports, so 67-73 % of the vpdpbusd
// peak is the most that can be reached. One row of x is bound by reading the weights.
#include "kernels/avx512/linear_kernels.h"
#include "kernels/avx512/quantized_weights.h"

namespace taproot::avx512 {
namespace {

// Fastest for up to so many rows of x (measured with bench/kernels/linear_bench): two panels
// unpacked in registers; one panel; beyond, a chunk unpacked once for groups of rows.
constexpr int kFewRows = 6;
constexpr int kSomeRows = 12;
constexpr int kGroupRows = 6;
constexpr int kGroupRowsLeast = 3;  // 7 rows are 3 + 4

TAPROOT_INLINE __m512i broadcast_4(const std::int8_t* q) {
    int bits;
    __builtin_memcpy(&bits, q, sizeof bits);
    return _mm512_set1_epi32(bits);
}

// The bytes this thread will read next, brought near a few lines per block while it computes.
struct Prefetch {
    const std::byte* next;
    const std::byte* end;
    int lines;  // per block

    Prefetch(const QuantizedTile& tile, int steps)
        : next(tile.next),
          end(tile.next + tile.next_bytes),
          lines((static_cast<int>(tile.next_bytes / 64) + steps - 1) / steps) {}

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
    if (columns <= 0) return;
    auto mask = static_cast<__mmask16>(columns >= 16 ? 0xffff : (1 << columns) - 1);
    if (add) sums = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sums);
    _mm512_mask_storeu_ps(to, mask, sums);
}

// sums[p][t] += blocks [0, blocks) of weights panel p times row t of x.
template <typename Weights, int kRows>
TAPROOT_INLINE void accumulate(const Weights& w, int blocks, const ActivationBlock* x,
                               std::int64_t x_stride, Prefetch* prefetch,
                               __m512 (&sums)[Weights::kPanels][kRows]) {
    constexpr int kPanels = Weights::kPanels;
    // As 16-bit pairs (-bias, 0): one vpdpwssd starts the integer sum at -bias * sum(q).
    const __m512i minus_bias = _mm512_set1_epi32((-w.bias()) & 0xffff);
    const __m512i zero = _mm512_setzero_si512();
    for (int b = 0; b < blocks; ++b) {
        prefetch->step();
        __m512i dots[kPanels][kRows];
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m512i start = zero;
            if constexpr (!Weights::kOffset) {
                start = _mm512_dpwssd_epi32(zero, minus_bias,
                                            _mm512_set1_epi32(x[t.value * x_stride + b].sum));
            }
            unroll<kPanels>([&](auto p) TAPROOT_INLINE_LAMBDA { dots[p.value][t.value] = start; });
        });
        typename Weights::Block weights[kPanels];
        unroll<kPanels>([&](auto p)
                            TAPROOT_INLINE_LAMBDA { weights[p.value] = w.block(p.value, b); });
        // Not unrolled: it would gain nothing and compile four times as long.
#pragma GCC unroll 1
        for (int v = 0; v < 4; ++v) {
            __m512i low[kPanels];
            __m512i high[kPanels];
            unroll<kPanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
                weights[p.value].next(low[p.value], high[p.value]);
            });
            unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
                const std::int8_t* q = x[t.value * x_stride + b].q + 4 * v;
                __m512i x_low = broadcast_4(q);
                __m512i x_high = broadcast_4(q + 16);
                unroll<kPanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
                    __m512i& dot = dots[p.value][t.value];
                    dot = _mm512_dpbusd_epi32(dot, low[p.value], x_low);
                });
                unroll<kPanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
                    __m512i& dot = dots[p.value][t.value];
                    dot = _mm512_dpbusd_epi32(dot, high[p.value], x_high);
                });
            });
        }
        unroll<kPanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
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
    float* partial_in;   // [kRows][kTileColumns]; null: start at zero
    float* partial_out;  // null: finished, store to `out`
    TileOut out;         // out.data at the group's first row and column
};

template <typename Weights, int kRows>
void run_group(const Weights& w, int blocks, const ActivationBlock* x, std::int64_t x_stride,
               Prefetch* prefetch, const GroupEnds& ends) {
    constexpr int kPanels = Weights::kPanels;
    __m512 sums[kPanels][kRows];
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        unroll<kPanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
            constexpr int kAt = t.value * kTileColumns + p.value * 16;
            sums[p.value][t.value] = ends.partial_in == nullptr
                                         ? _mm512_setzero_ps()
                                         : _mm512_load_ps(ends.partial_in + kAt);
        });
    });
    accumulate<Weights, kRows>(w, blocks, x, x_stride, prefetch, sums);
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        unroll<kPanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
            constexpr int kColumn = p.value * 16;
            __m512 sum = sums[p.value][t.value];
            if (ends.partial_out != nullptr) {
                _mm512_store_ps(ends.partial_out + t.value * kTileColumns + kColumn, sum);
                return;
            }
            store_panel(sum, ends.out.data + t.value * ends.out.stride + kColumn,
                        ends.out.columns - kColumn, ends.out.add);
        });
    });
}

// run_group with the constant that equals `rows`, from kRows down to kLeast.
template <int kLeast, int kRows, typename Weights>
void run_rows(int rows, const Weights& w, int blocks, const ActivationBlock* x,
              std::int64_t x_stride, Prefetch* prefetch, const GroupEnds& ends) {
    if constexpr (kRows > kLeast) {
        if (rows < kRows) {
            return run_rows<kLeast, kRows - 1>(rows, w, blocks, x, x_stride, prefetch, ends);
        }
    }
    run_group<Weights, kRows>(w, blocks, x, x_stride, prefetch, ends);
}

template <DType kType>
void few_rows(const QuantizedTile& tile) {
    Prefetch prefetch(tile, tile.blocks);
    run_rows<1, kFewRows>(tile.rows, PackedWeights<kType, kTilePanels>(tile, 0), tile.blocks,
                          tile.x, tile.blocks, &prefetch, GroupEnds{nullptr, nullptr, tile.out});
}

template <DType kType>
void some_rows(const QuantizedTile& tile) {
    Prefetch prefetch(tile, tile.blocks * kTilePanels);
    for (int p = 0; p < kTilePanels && p * kPanelRows < tile.out.columns; ++p) {
        GroupEnds ends{nullptr, nullptr, tile.out};
        ends.out.data += p * kPanelRows;
        ends.out.columns -= p * kPanelRows;
        run_rows<kFewRows + 1, kSomeRows>(tile.rows, PackedWeights<kType, 1>(tile, p), tile.blocks,
                                          tile.x, tile.blocks, &prefetch, ends);
    }
}

template <DType kType>
void many_rows(const QuantizedTile& tile) {
    using Packed = PackedWeights<kType, kTilePanels>;
    Packed packed(tile, 0);
    UnpackedChunk chunk;
    PartialSums partial;
    UnpackedWeights<Packed::kOffset> unpacked{chunk, packed.bias()};
    int groups = (tile.rows + kGroupRows - 1) / kGroupRows;
    int chunks = (tile.blocks + kChunkBlocks - 1) / kChunkBlocks;
    Prefetch prefetch(tile, tile.blocks * groups);
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
            run_rows<kGroupRowsLeast, kGroupRows>(rows, unpacked, blocks, x, tile.blocks, &prefetch,
                                                  ends);
        }
    }
}

template <DType kType>
void tile_of(const QuantizedTile& tile) {
    if (tile.rows <= kFewRows) return few_rows<kType>(tile);
    // 5 bits: rare, and these are the functions that take longest to compile.
    if constexpr (panel_format(kType).quant_bits != 5) {
        if (tile.rows <= kSomeRows) return some_rows<kType>(tile);
    }
    many_rows<kType>(tile);
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
