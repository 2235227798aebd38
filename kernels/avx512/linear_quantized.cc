// SPDX-License-Identifier: Apache-2.0
// Quantised linear layers with VNNI. Output rows lie in lanes: one vpdpbusd multiplies 16 rows x 4
// columns of weights (unsigned bytes) with 4 activations broadcast to all lanes, so nothing is ever
// summed across lanes. Two ways, both over two panels at a time:
//   few rows of x   sums and integer dots of all rows in registers, weights streamed
//   more            one block of the weights in registers, unpacked once; rows of x pass by in
//                   groups of 3 to 5, whose float sums wait in L1
//
// Roof: per block of 32 columns, panel and row of x, 8 vpdpbusd and 3 float operations that apply
// the scales (4 with an offset). Both kinds share the two 512-bit ports, so 67-73 % of the vpdpbusd
// peak is the most that can be reached. One row of x is bound by reading the weights.
#include "kernels/avx512/linear_kernels.h"
#include "kernels/avx512/quantized_weights.h"
#include "kernels/avx512/super_block_weights.h"
#include "kernels/avx512/tile_sums.h"

namespace taproot::avx512 {
namespace {

constexpr int kFewRows = 6;  // measured with bench/kernels/linear_bench
constexpr int kGroupRows = 5;
constexpr int kFewRowsAhead = 10;  // blocks
constexpr int kGroupsAhead = 18;

TAPROOT_INLINE int half_sums(const ActivationBlock& x) {  // as 16-bit pairs
    int bits;
    __builtin_memcpy(&bits, x.half_sums, sizeof bits);
    return bits;
}
TAPROOT_INLINE __m512i broadcast_4(const std::int8_t* q) {
    int bits;
    __builtin_memcpy(&bits, q, sizeof bits);
    return _mm512_set1_epi32(bits);
}

// Brings near what the thread reads some blocks later, in the order of reading: of the same panels,
// then of the next tile's. A whole tile at once would push itself out of L1 when K is large.
template <PanelFormat kFormat>
class Prefetch {
public:
    Prefetch(const QuantizedTile& tile, int blocks_ahead)
        : panels_{tile.panels[0], tile.panels[1]},
          quants_(quants_offset(kFormat, tile.blocks)),
          next_tile_(tile.next != nullptr ? tile.next - tile.panels[0] : 0),
          blocks_(tile.blocks),
          at_(blocks_ahead < tile.blocks ? blocks_ahead : tile.blocks),
          end_(tile.next != nullptr ? 2 * tile.blocks : tile.blocks) {}

    TAPROOT_INLINE void step() {
        if (at_ >= end_) return;
        const bool here = at_ < blocks_;
        const int block = here ? at_ : at_ - blocks_;
        ++at_;
        for (const std::byte* panel : panels_) {
            if (!here) panel += next_tile_;
            constexpr std::size_t kBytes = quant_block_bytes(kFormat);
            fetch<kBytes>(panel + quants_ + static_cast<std::size_t>(block) * kBytes);
            if (kFormat.sub_scales == SubScales::kNone || block % kSuperBlocks == 0) {
                fetch<scale_block_bytes(kFormat)>(panel + scale_head_offset(kFormat, block));
            }
        }
    }

private:
    template <std::size_t kBytes>
    static TAPROOT_INLINE void fetch(const std::byte* at) {
        for (std::size_t line = 0; line < kBytes; line += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(at + line), _MM_HINT_T0);
        }
    }

    const std::byte* panels_[kTilePanels];
    std::size_t quants_;
    std::ptrdiff_t next_tile_;
    int blocks_;
    int at_;
    int end_;
};

// Where an integer dot begins: at -bias * sum(q), so that it ends as the dot with (quant - bias).
template <typename Weights>
TAPROOT_INLINE __m512i first_dot(const Weights& w, const ActivationBlock& x) {
    const __m512i zero = _mm512_setzero_si512();
    if constexpr (Weights::kOffset || Weights::kHalfOffsets) return zero;
    // 16-bit pairs (-bias, 0) times (sum, its sign): |sum| < 2^12; or times the sums of the halves.
    const __m512i minus_bias = _mm512_set1_epi32((-w.bias()) & 0xffff);
    int sums = x.sum;
    if constexpr (Weights::kTwoDots) sums = half_sums(x);
    return _mm512_dpwssd_epi32(zero, minus_bias, _mm512_set1_epi32(sums));
}
// The same for the dot of columns 16 .. 31, where that has a scale of its own.
template <typename Weights>
TAPROOT_INLINE __m512i first_high_dot(const Weights& w, const ActivationBlock& x) {
    const __m512i zero = _mm512_setzero_si512();
    if constexpr (!Weights::kTwoDots || Weights::kHalfOffsets) return zero;
    const __m512i minus_bias = _mm512_set1_epi32(-w.bias() * 0x10000);
    return _mm512_dpwssd_epi32(zero, minus_bias, _mm512_set1_epi32(half_sums(x)));
}

// What a block's dots are multiplied with: of one panel.
struct Scales {
    __m512 d;
    __m512 m;
    __m512i half_offsets;
    __m512 low;
    __m512 high;
};
template <typename Weights>
TAPROOT_INLINE Scales load_scales(const Weights& w, int p, int b) {
    Scales out{w.d(p, b), _mm512_setzero_ps(), _mm512_setzero_si512(), _mm512_setzero_ps(),
               _mm512_setzero_ps()};
    if constexpr (Weights::kOffset || Weights::kHalfScales || Weights::kHalfOffsets) {
        out.m = w.m(p, b);
    }
    if constexpr (Weights::kHalfOffsets) out.half_offsets = w.half_offsets(p, b);
    if constexpr (Weights::kIntegerScales) {
        out.low = w.low_scale(p, b);
        out.high = w.high_scale(p, b);
    }
    return out;
}

// One block's share of a sum, in the canonical order.
template <typename Weights>
TAPROOT_INLINE __m512 add_block(__m512 sum, __m512i dot, __m512i high_dot, const Scales& by,
                                const ActivationBlock& x) {
    __m512 dots = _mm512_cvtepi32_ps(dot);
    if constexpr (Weights::kIntegerScales) {
        dots = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high_dot), by.high, _mm512_mul_ps(dots, by.low));
    }
    if constexpr (Weights::kHalfScales || Weights::kHalfOffsets) {
        if constexpr (Weights::kHalfOffsets) {
            high_dot = _mm512_dpwssd_epi32(_mm512_setzero_si512(), by.half_offsets,
                                           _mm512_set1_epi32(half_sums(x)));
        }
        __m512 both = _mm512_mul_ps(dots, by.d);
        both = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high_dot), by.m, both);
        return _mm512_fmadd_ps(both, _mm512_set1_ps(x.d), sum);
    }
    __m512 scale = _mm512_mul_ps(by.d, _mm512_set1_ps(x.d));
    sum = _mm512_fmadd_ps(dots, scale, sum);
    if constexpr (Weights::kOffset) sum = _mm512_fmadd_ps(by.m, _mm512_set1_ps(x.scaled_sum), sum);
    return sum;
}

template <typename Weights, int kRows>
TAPROOT_INLINE void first_dots(const Weights& w, const ActivationBlock* x, std::int64_t x_stride,
                               __m512i (&dots)[kTilePanels][kRows],
                               __m512i (&high_dots)[kTilePanels][kRows]) {
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        __m512i start = first_dot(w, x[t.value * x_stride]);
        __m512i high_start = first_high_dot(w, x[t.value * x_stride]);
        for (int p = 0; p < kTilePanels; ++p) {
            dots[p][t.value] = start;
            high_dots[p][t.value] = high_start;
        }
    });
}

// ---- few rows ----

// sums[p][t] += block b of panel p times row t of x.
template <typename Weights, int kRows>
TAPROOT_INLINE void few_rows_block(const Weights& w, int b, const ActivationBlock* x, int x_stride,
                                   __m512 (&sums)[kTilePanels][kRows]) {
    __m512i dots[kTilePanels][kRows];
    __m512i high_dots[kTilePanels][kRows];
    first_dots<Weights, kRows>(w, x, x_stride, dots, high_dots);
    decltype(w.block(0, b)) weights[kTilePanels] = {w.block(0, b), w.block(1, b)};
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
        __m512i low[kTilePanels];
        __m512i high[kTilePanels];
        unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
            weights[p.value].next(low[p.value], high[p.value]);
        });
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            const std::int8_t* q = x[t.value * x_stride].q + 4 * v;
            __m512i x_low = broadcast_4(q);
            __m512i x_high = broadcast_4(q + 16);
            unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
                __m512i& dot = dots[p.value][t.value];
                dot = _mm512_dpbusd_epi32(dot, low[p.value], x_low);
            });
            unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
                __m512i& dot = (Weights::kTwoDots ? high_dots : dots)[p.value][t.value];
                dot = _mm512_dpbusd_epi32(dot, high[p.value], x_high);
            });
        });
    }
    unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
        const Scales by = load_scales(w, p.value, b);
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m512& sum = sums[p.value][t.value];
            sum = add_block<Weights>(sum, dots[p.value][t.value], high_dots[p.value][t.value], by,
                                     x[t.value * x_stride]);
        });
    });
}

template <typename Weights, int kRows>
void few_rows(const QuantizedTile& tile) {
    Weights w(tile);
    Prefetch<Weights::kFormat> prefetch(tile, kFewRowsAhead);
    __m512 sums[kTilePanels][kRows];
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        for (int p = 0; p < kTilePanels; ++p) sums[p][t.value] = _mm512_setzero_ps();
    });
    for (int b = 0; b < tile.blocks; ++b) {
        prefetch.step();
        few_rows_block<Weights, kRows>(w, b, tile.x + b, tile.blocks, sums);
    }
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
            constexpr int kColumn = p.value * kPanelRows;
            store_panel(sums[p.value][t.value], tile.out.data + t.value * tile.out.stride + kColumn,
                        tile.out.columns - kColumn, tile.out.add);
        });
    });
}

// ---- more rows ----

// One block of both panels.
struct WeightBlock {
    __m512i q[kTilePanels][kVectors];
    Scales by[kTilePanels];
};

template <typename Weights>
TAPROOT_INLINE WeightBlock unpack(const Weights& w, int b) {
    WeightBlock out;
    unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
        auto block = w.block(p.value, b);
        unroll<4>([&](auto v) TAPROOT_INLINE_LAMBDA {
            block.next(out.q[p.value][v.value], out.q[p.value][v.value + 4]);
        });
        out.by[p.value] = load_scales(w, p.value, b);
    });
    return out;
}

// sums[t][panel, lane] += the block times rows of x.
template <typename Weights, int kRows>
TAPROOT_INLINE void group_block(const Weights& w, const WeightBlock& block,
                                const ActivationBlock* x, std::int64_t x_stride, float* sums) {
    __m512i dots[kTilePanels][kRows];
    __m512i high_dots[kTilePanels][kRows];
    first_dots<Weights, kRows>(w, x, x_stride, dots, high_dots);
    unroll<kVectors>([&](auto v) TAPROOT_INLINE_LAMBDA {
        unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
            __m512i q = broadcast_4(x[t.value * x_stride].q + 4 * v.value);
            unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
                constexpr bool kHigh = Weights::kTwoDots && v.value >= kVectors / 2;
                __m512i& dot = (kHigh ? high_dots : dots)[p.value][t.value];
                dot = _mm512_dpbusd_epi32(dot, block.q[p.value][v.value], q);
            });
        });
    });
    unroll<kRows>([&](auto t) TAPROOT_INLINE_LAMBDA {
        unroll<kTilePanels>([&](auto p) TAPROOT_INLINE_LAMBDA {
            float* at = sums + t.value * kTileColumns + p.value * kPanelRows;
            __m512 sum = add_block<Weights>(_mm512_load_ps(at), dots[p.value][t.value],
                                            high_dots[p.value][t.value], block.by[p.value],
                                            x[t.value * x_stride]);
            _mm512_store_ps(at, sum);
        });
    });
}

// How rows are cut into groups whose sizes differ by one: `larger` of kLeast + 1, then `smaller` of
// kLeast.
struct Groups {
    int larger;
    int smaller;
};

template <typename Weights, int kLeast>
void grouped_rows(const QuantizedTile& tile, Groups groups) {
    constexpr int kMore = kLeast + 1;
    const std::int64_t stride = tile.blocks;
    Weights w(tile);
    Prefetch<Weights::kFormat> prefetch(tile, kGroupsAhead);
    TileSums sums;
    sums.clear(tile.rows);
    for (int b = 0; b < tile.blocks; ++b) {
        prefetch.step();
        const WeightBlock block = unpack(w, b);
        const ActivationBlock* x = tile.x + b;
        float* at = sums.rows[0];
        for (int g = 0; g < groups.larger; ++g) {
            group_block<Weights, kMore>(w, block, x, stride, at);
            x += kMore * stride;
            at += kMore * kTileColumns;
        }
        for (int g = 0; g < groups.smaller; ++g) {
            group_block<Weights, kLeast>(w, block, x, stride, at);
            x += kLeast * stride;
            at += kLeast * kTileColumns;
        }
    }
    sums.store(tile.rows, tile.out);
}

template <typename Weights, int kRows>
void at_most_rows(const QuantizedTile& tile) {
    if constexpr (kRows > 1) {
        if (tile.rows < kRows) return at_most_rows<Weights, kRows - 1>(tile);
    }
    few_rows<Weights, kRows>(tile);
}

template <DType kType>
void tile_of(const QuantizedTile& tile) {
    using Weights = PackedWeights<kType>;
    using FewWeights = typename FewRowsWeights<kType>::Type;
    // Two dots for each row and panel take the registers of twice as many rows.
    constexpr int kFew = FewWeights::kTwoDots ? kFewRows / 2 : kFewRows;
    constexpr int kGroup = Weights::kTwoDots ? kGroupRows / 2 + 1 : kGroupRows;
    if (tile.rows <= kFew) return at_most_rows<FewWeights, kFew>(tile);
    static_assert(kFewRows == 6 && kGroupRows == 5);
    const int count = (tile.rows + kGroup - 1) / kGroup;
    const int least = tile.rows / count < kGroup - 1 ? kGroup - 2 : kGroup - 1;
    const Groups groups{tile.rows - least * count, (least + 1) * count - tile.rows};
    if constexpr (kGroup > 3) {  // groups of one row never come out
        if (least == kGroup - 2) return grouped_rows<Weights, kGroup - 2>(tile, groups);
    }
    grouped_rows<Weights, kGroup - 1>(tile, groups);
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

}  // namespace taproot::avx512
