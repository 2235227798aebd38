// SPDX-License-Identifier: Apache-2.0
// The definition of a linear layer, to the bit (words: kernels/README.md). Written to be read; the
// only concession to speed is that each panel block is decoded once for all rows of a tile.
#include <cmath>
#include <cstring>

#include "kernels/half.h"
#include "kernels/linear_ops.h"
#include "kernels/panel_layout.h"
#include "kernels/ref/quantize.h"
#include "kernels/unroll.h"

#if defined(__x86_64__)
// The same source compiled twice: where the CPU has FMA, std::fma becomes one instruction instead
// of a library call. Both give the same bits, a fused multiply-add has one correct result.
#define TAPROOT_WITH_FMA __attribute__((target("avx2,fma")))
#endif

namespace taproot::ref {
namespace {

float half_at(const std::byte* at) {
    std::uint16_t bits;
    std::memcpy(&bits, at, sizeof bits);
    return half_to_float(bits);
}

// One block of one panel, decoded: weight(row, k) = d[row] * w[row][k] + m[row].
struct DecodedBlock {
    std::int16_t w[kPanelRows][kBlockColumns];
    float d[kPanelRows];
    float m[kPanelRows];
};

int quant_at(PanelFormat format, const std::byte* block, int row, int k) {
    int vector = k / 4;
    int stored = format.quant_bits == 8 ? vector : vector % 4;
    int byte = row * 4 + k % 4;
    auto bits = static_cast<unsigned>(block[stored * 64 + byte]);
    if (format.quant_bits != 8) bits = vector < 4 ? bits & 15u : bits >> 4;
    if (format.quant_bits == 5) {
        bits |= ((static_cast<unsigned>(block[4 * 64 + byte]) >> vector) & 1u) << 4;
    }
    return static_cast<int>(bits) - format.bias;
}

void decode_block(PanelFormat format, int blocks, const std::byte* panel, int b,
                  DecodedBlock* out) {
    const std::byte* scales = panel + static_cast<std::size_t>(b) * scale_block_bytes(format);
    const std::byte* quants = panel + quants_offset(format, blocks) +
                              static_cast<std::size_t>(b) * quant_block_bytes(format);
    for (int row = 0; row < kPanelRows; ++row) {
        out->d[row] = half_at(scales + row * 2);
        out->m[row] = format.offset ? half_at(scales + (kPanelRows + row) * 2) : 0.0f;
        for (int k = 0; k < kBlockColumns; ++k) {
            out->w[row][k] = static_cast<std::int16_t>(quant_at(format, quants, row, k));
        }
    }
}

TAPROOT_INLINE std::int32_t integer_dot(const std::int16_t* w, const std::int8_t* q) {
    std::int32_t dot = 0;
    for (int k = 0; k < kBlockColumns; ++k) dot += std::int32_t{w[k]} * q[k];
    return dot;
}

// One float32 rounding per operation: a product of scales, an fma, and for types with an offset a
// second fma.
TAPROOT_INLINE void add_block(const DecodedBlock& block, bool offset, const ActivationBlock& x,
                              float* sums) {
    for (int row = 0; row < kPanelRows; ++row) {
        auto dot = static_cast<float>(integer_dot(block.w[row], x.q));
        sums[row] = std::fma(dot, block.d[row] * x.d, sums[row]);
        if (offset) sums[row] = std::fma(block.m[row], x.scaled_sum, sums[row]);
    }
}

void store_sums(const float* sums, int row, int column, const TileOut& out) {
    float* to = out.data + row * out.stride + column;
    for (int i = 0; i < kPanelRows && column + i < out.columns; ++i) {
        to[i] = out.add ? to[i] + sums[i] : sums[i];
    }
}

TAPROOT_INLINE void quantized_tile_body(const QuantizedTile& tile) {
    PanelFormat format = panel_format(tile.dtype);
    for (int p = 0; p < kTilePanels && p * kPanelRows < tile.out.columns; ++p) {
        float sums[kTileRowsMax][kPanelRows] = {};
        for (int b = 0; b < tile.blocks; ++b) {
            DecodedBlock block;
            decode_block(format, tile.blocks, tile.panels[p], b, &block);
            for (int t = 0; t < tile.rows; ++t) {
                const ActivationBlock& x = tile.x[std::int64_t{t} * tile.blocks + b];
                add_block(block, format.offset, x, sums[t]);
            }
        }
        for (int t = 0; t < tile.rows; ++t) store_sums(sums[t], t, p * kPanelRows, tile.out);
    }
}

float float_at(DType dtype, const std::byte* weights, std::int64_t index) {
    if (dtype == DType::kF32) {
        float value;
        std::memcpy(&value, weights + index * 4, sizeof value);
        return value;
    }
    std::uint16_t bits;
    std::memcpy(&bits, weights + index * 2, sizeof bits);
    return dtype == DType::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
}

TAPROOT_INLINE void float_tile_body(const FloatTile& tile) {
    for (int p = 0; p < kTilePanels && p * kPanelRows < tile.out.columns; ++p) {
        float sums[kTileRowsMax][kPanelRows] = {};
        for (int k = 0; k < tile.columns; ++k) {
            float w[kPanelRows];
            for (int row = 0; row < kPanelRows; ++row) {
                w[row] = float_at(tile.dtype, tile.panels[p], std::int64_t{k} * kPanelRows + row);
            }
            for (int t = 0; t < tile.rows; ++t) {
                float x = tile.x[t * tile.x_stride + k];
                for (int row = 0; row < kPanelRows; ++row) {
                    sums[t][row] = std::fma(w[row], x, sums[t][row]);
                }
            }
        }
        for (int t = 0; t < tile.rows; ++t) store_sums(sums[t], t, p * kPanelRows, tile.out);
    }
}

void quantized_tile(const QuantizedTile& tile) {
    quantized_tile_body(tile);
}
void float_tile(const FloatTile& tile) {
    float_tile_body(tile);
}

#if defined(TAPROOT_WITH_FMA)
TAPROOT_WITH_FMA void quantized_tile_fma(const QuantizedTile& tile) {
    quantized_tile_body(tile);
}
TAPROOT_WITH_FMA void float_tile_fma(const FloatTile& tile) {
    float_tile_body(tile);
}
#endif

void quantize_row(const float* x, int blocks, ActivationBlock* out) {
    for (int b = 0; b < blocks; ++b) quantize_block(x + b * kBlockColumns, out + b);
}

LinearOps choose_ops() {
#if defined(TAPROOT_WITH_FMA)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        return {&quantize_row, &quantized_tile_fma, &float_tile_fma};
    }
#endif
    return {&quantize_row, &quantized_tile, &float_tile};
}

}  // namespace

const LinearOps& linear_ops() {
    static const LinearOps ops = choose_ops();
    return ops;
}

}  // namespace taproot::ref
