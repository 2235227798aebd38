// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/panel_layout.h"

namespace taproot {

// 256 weights of a type with super-blocks (Q2_K .. Q6_K, IQ4_XS) taken apart: one row's share of
// what a panel stores, in plain order.
struct SuperBlock {
    std::uint16_t d;                           // f16 bits
    std::uint16_t m;                           // f16 bits of -dmin; types with an offset only
    std::uint8_t sub_scales[kSuperBlocks][2];  // as SubScales says; kBlock uses the first
    std::uint8_t quants[kSuperBlocks][kBlockColumns];
};
// `block` as it lies in a GGUF file.
void read_super_block(DType type, const std::byte* block, SuperBlock* out);

// One block of one row: out[k] = weight, with the roundings that GGUF's formulas have.
//   (d * scale) * (quant - bias)   [+ m * offset]      or kIq4Values[quant] for quant - bias
void dequantize_block(PanelFormat format, float d, float m, const std::uint8_t* sub_scales,
                      const std::uint8_t* quants, float* out);

// Puts one row's 32 quants into a panel's block (`block` = its first vector), or takes them out.
// The vectors must be zero where nothing was put yet.
void put_quants(PanelFormat format, int row, const std::uint8_t* quants, std::byte* block);
void get_quants(PanelFormat format, int row, const std::byte* block, std::uint8_t* quants);

}  // namespace taproot
