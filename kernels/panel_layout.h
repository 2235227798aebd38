// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/dtype.h"

namespace taproot {

// How one panel (16 output rows, all K) lies in memory. Drawings: kernels/README.md.
//
// Quantised: all scales first, then all quants, both block by block (a block is 32 columns):
//   scales: [blocks] { d: [16 rows] f16, m: [16 rows] f16 (types with an offset only) }, padded to
//   64 quants: [blocks][vectors] 64 bytes = [16 rows][4 bytes]
//     4 bit: vector v < 4, byte i: low nibble = column 4v + i, high nibble = column 16 + 4v + i
//     5 bit: as 4 bit, then one vector of high bits: byte i, bit v = column 4v + i (v < 8)
//     8 bit: vector v < 8, byte i = column 4v + i, stored with 128 added (unsigned)
// Float: [columns][16 rows], padded to 64 bytes.
inline constexpr int kPanelRows = 16;
inline constexpr int kBlockColumns = 32;
inline constexpr std::size_t kVectorBytes = 64;

struct PanelFormat {
    int quant_bits;     // 4, 5, 8; 0: float weights
    int element_bytes;  // float weights only
    bool offset;        // weight = d*q + m, else d*(q - bias)
    int bias;
};

constexpr PanelFormat panel_format(DType type) {
    switch (type) {
        case DType::kF32:
            return {0, 4, false, 0};
        case DType::kF16:
        case DType::kBF16:
            return {0, 2, false, 0};
        case DType::kQ4_0:
            return {4, 0, false, 8};
        case DType::kQ4_1:
            return {4, 0, true, 0};
        case DType::kQ5_0:
            return {5, 0, false, 16};
        case DType::kQ5_1:
            return {5, 0, true, 0};
        case DType::kQ8_0:
            return {8, 0, false, 128};
    }
    return {};
}

constexpr std::size_t round_up_64(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

constexpr std::size_t quant_block_bytes(PanelFormat format) {
    int vectors = format.quant_bits == 8 ? 8 : format.quant_bits == 5 ? 5 : 4;
    return static_cast<std::size_t>(vectors) * kVectorBytes;
}
constexpr std::size_t scale_block_bytes(PanelFormat format) {
    return format.offset ? 64 : 32;
}

// Bytes from the start of a panel to its quants.
constexpr std::size_t quants_offset(PanelFormat format, int blocks) {
    return round_up_64(static_cast<std::size_t>(blocks) * scale_block_bytes(format));
}

constexpr std::size_t panel_bytes(DType type, int columns) {
    PanelFormat format = panel_format(type);
    if (format.quant_bits == 0) {
        return round_up_64(static_cast<std::size_t>(columns) *
                           static_cast<std::size_t>(kPanelRows * format.element_bytes));
    }
    int blocks = columns / kBlockColumns;
    return quants_offset(format, blocks) +
           static_cast<std::size_t>(blocks) * quant_block_bytes(format);
}

static_assert(panel_bytes(DType::kQ4_1, 576) == 16 * 18 * 20);  // no byte more than GGUF's
static_assert(panel_bytes(DType::kQ8_0, 576) == 16 * 18 * 34);

}  // namespace taproot
