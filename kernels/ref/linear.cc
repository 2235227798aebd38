// SPDX-License-Identifier: Apache-2.0
// The definition of a linear layer, to the bit (words: kernels/README.md). Written to be read; the
// only concession to speed is that each panel block is decoded once for all rows of a tile.
#include <cmath>
#include <cstring>

#include "kernels/half.h"
#include "kernels/linear_ops.h"
#include "kernels/panel_layout.h"
#include "kernels/ref/quantize.h"
#include "kernels/super_block.h"
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

// One block of one panel, decoded. In the names of kernels/README.md: w = (quant - bias), times the
// scale of its half for types whose scales of halves are exact integers (Q2_K, Q3_K).
struct DecodedBlock {
    std::int16_t w[kPanelRows][kBlockColumns];
    float d[kPanelRows][2];  // of each half of the columns; both the same but for Q6_K
    float m[kPanelRows];
    std::int16_t offsets[kPanelRows][2];  // Q2_K: integer offsets of the halves
};

std::uint8_t sub_scale(PanelFormat format, const std::byte* panel, int b, int row, int which) {
    return static_cast<std::uint8_t>(
        panel[sub_scale_offset(format, b) + static_cast<std::size_t>(which * kPanelRows + row)]);
}

// Applies the bytes that go with the row's block to its d, m and w.
void apply_sub_scales(PanelFormat format, const std::byte* panel, int b, int row,
                      DecodedBlock* out) {
    if (format.sub_scales == SubScales::kNone) return;
    for (int h = 0; h < 2; ++h) {
        bool halves = format.sub_scales == SubScales::kHalves;
        bool half_offsets = format.sub_scales == SubScales::kHalfOffsets;
        std::uint8_t bits = sub_scale(format, panel, b, row, halves || half_offsets ? h : 0);
        int scale = half_offsets                                   ? bits & 15
                    : format.sub_scales == SubScales::kBlockOffset ? bits
                                                                   : static_cast<std::int8_t>(bits);
        out->offsets[row][h] = static_cast<std::int16_t>(bits >> 4);
        bool in_quants = half_offsets || (halves && format.quant_bits == 3);
        if (!in_quants) {
            out->d[row][h] *= static_cast<float>(scale);
            continue;
        }
        for (int k = 16 * h; k < 16 * h + 16; ++k) {
            out->w[row][k] = static_cast<std::int16_t>(out->w[row][k] * scale);
        }
    }
    if (format.sub_scales == SubScales::kBlockOffset) {
        out->m[row] *= static_cast<float>(sub_scale(format, panel, b, row, 1));
    }
}

void decode_block(PanelFormat format, int blocks, const std::byte* panel, int b,
                  DecodedBlock* out) {
    const std::byte* head = panel + scale_head_offset(format, b);
    const std::byte* quants = panel + quants_offset(format, blocks) +
                              static_cast<std::size_t>(b) * quant_block_bytes(format);
    for (int row = 0; row < kPanelRows; ++row) {
        out->d[row][0] = out->d[row][1] = half_at(head + row * 2);
        out->m[row] = format.offset ? half_at(head + (kPanelRows + row) * 2) : 0.0f;
        std::uint8_t q[kBlockColumns];
        get_quants(format, row, quants, q);
        for (int k = 0; k < kBlockColumns; ++k) {
            int value = format.iq4_values ? kIq4Values[q[k]] : q[k] - format.bias;
            out->w[row][k] = static_cast<std::int16_t>(value);
        }
        apply_sub_scales(format, panel, b, row, out);
    }
}

TAPROOT_INLINE std::int32_t integer_dot(const std::int16_t* w, const std::int8_t* q) {
    std::int32_t dot = 0;
    for (int k = 0; k < kBlockColumns / 2; ++k) dot += std::int32_t{w[k]} * q[k];
    return dot;
}

// How the two dots of a block (one per half of its columns) reach the sum: one float32 rounding per
// operation.
enum class Form { kScaled, kOffset, kHalfScales, kHalfOffsets };

Form form_of(PanelFormat format) {
    if (format.sub_scales == SubScales::kHalfOffsets) return Form::kHalfOffsets;
    if (format.sub_scales == SubScales::kHalves && format.quant_bits == 6) return Form::kHalfScales;
    return format.offset ? Form::kOffset : Form::kScaled;
}

TAPROOT_INLINE void add_block(const DecodedBlock& block, Form form, const ActivationBlock& x,
                              float* sums) {
    for (int row = 0; row < kPanelRows; ++row) {
        std::int32_t low = integer_dot(block.w[row], x.q);
        std::int32_t high = integer_dot(block.w[row] + 16, x.q + 16);
        auto dot = static_cast<float>(low + high);
        const float* d = block.d[row];
        float m = block.m[row];
        float& sum = sums[row];
        if (form == Form::kScaled || form == Form::kOffset) {
            sum = std::fma(dot, d[0] * x.d, sum);
            if (form == Form::kOffset) sum = std::fma(m, x.scaled_sum, sum);
        } else if (form == Form::kHalfScales) {
            float both = std::fma(static_cast<float>(high), d[1], static_cast<float>(low) * d[0]);
            sum = std::fma(both, x.d, sum);
        } else {
            std::int32_t offset =
                block.offsets[row][0] * x.half_sums[0] + block.offsets[row][1] * x.half_sums[1];
            float both = std::fma(static_cast<float>(offset), m, dot * d[0]);
            sum = std::fma(both, x.d, sum);
        }
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
    Form form = form_of(format);
    for (int p = 0; p < kTilePanels && p * kPanelRows < tile.out.columns; ++p) {
        float sums[kTileRowsMax][kPanelRows] = {};
        for (int b = 0; b < tile.blocks; ++b) {
            DecodedBlock block;
            decode_block(format, tile.blocks, tile.panels[p], b, &block);
            for (int t = 0; t < tile.rows; ++t) {
                const ActivationBlock& x = tile.x[std::int64_t{t} * tile.blocks + b];
                add_block(block, form, x, sums[t]);
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
