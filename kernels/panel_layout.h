// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/dtype.h"

namespace taproot {

// How one panel (16 output rows, all K) lies in memory. Drawings: kernels/README.md.
//
// Quantised: all scales first, padded to 64, then all quants, both block by block (a block is 32
// columns).
//   quants: [blocks][vectors] 64 bytes = [16 rows][4 bytes]; as many vectors as bits. Bytes i:
//     4 bit: vector v < 4: low nibble = column 4v + i, high nibble = column 16 + 4v + i
//     5 bit: as 4 bit, then one vector of high bits: bit v = column 4v + i (v < 8)
//     6 bit: as 4 bit, then the upper two bits as 2 bit
//     2 bit: vector v % 2, v < 4: at bits v / 2 * 2 column 4v + i, four bits higher 16 + 4v + i
//     3 bit: as 2 bit, then one vector of high bits as 5 bit
//     8 bit: vector v < 8 = column 4v + i, stored with 128 added (unsigned)
//   scales, types with blocks of 32 in the file: [blocks] { d [, m] }
//   scales, types with super-blocks of 256: [blocks / 8] { d [, m], 8 x [sub_scales][16 rows] byte
//   }
//     d, m: [16 rows] f16; m (types with an offset only) is added: K-quants' dmin, negated
// Float: [columns][16 rows], padded to 64 bytes.
inline constexpr int kPanelRows = 16;
inline constexpr int kBlockColumns = 32;
inline constexpr int kSuperBlocks = 8;  // blocks that share d and m where there are sub-scales
inline constexpr std::size_t kVectorBytes = 64;

// What the bytes of a super-block's block are, in the order they are stored.
enum class SubScales : unsigned char {
    kNone,
    kBlock,        // int8 scale
    kBlockOffset,  // uint8 scale, uint8 offset
    kHalves,       // int8 scale of columns 0..15, int8 of 16..31
    kHalfOffsets,  // one byte per half: low nibble scale, high nibble offset
};

struct PanelFormat {
    int quant_bits;     // 2, 3, 4, 5, 6, 8; 0: float weights
    int element_bytes;  // float weights only
    bool offset;        // there is an m
    int bias;           // the quant stands for quant - bias
    SubScales sub_scales = SubScales::kNone;
    bool iq4_values = false;  // the quant stands for kIq4Values[quant]
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
        case DType::kQ2_K:
            return {2, 0, true, 0, SubScales::kHalfOffsets};
        case DType::kQ3_K:
            return {3, 0, false, 4, SubScales::kHalves};
        case DType::kQ4_K:
            return {4, 0, true, 0, SubScales::kBlockOffset};
        case DType::kQ5_K:
            return {5, 0, true, 0, SubScales::kBlockOffset};
        case DType::kQ6_K:
            return {6, 0, false, 32, SubScales::kHalves};
        case DType::kIQ4_NL:
            return {4, 0, false, 0, SubScales::kNone, true};
        case DType::kIQ4_XS:
            return {4, 0, false, 0, SubScales::kBlock, true};
    }
    return {};
}

constexpr std::size_t round_up_64(std::size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

constexpr std::size_t quant_block_bytes(PanelFormat format) {
    return static_cast<std::size_t>(format.quant_bits) * kVectorBytes;
}

// d and m of 16 rows.
constexpr std::size_t scale_head_bytes(PanelFormat format) {
    return format.offset ? 64 : 32;
}
// Bytes of 16 rows for one block of a super-block.
constexpr std::size_t sub_scale_bytes(PanelFormat format) {
    return format.sub_scales == SubScales::kNone    ? 0
           : format.sub_scales == SubScales::kBlock ? kPanelRows
                                                    : 2 * kPanelRows;
}
// From the d of one block (types without sub-scales) or super-block to the next.
constexpr std::size_t scale_block_bytes(PanelFormat format) {
    return scale_head_bytes(format) + kSuperBlocks * sub_scale_bytes(format);
}
// Where a block's d (and m after it) and sub-scales are, from the start of the panel.
constexpr std::size_t scale_head_offset(PanelFormat format, int block) {
    int group = format.sub_scales == SubScales::kNone ? block : block / kSuperBlocks;
    return static_cast<std::size_t>(group) * scale_block_bytes(format);
}
constexpr std::size_t sub_scale_offset(PanelFormat format, int block) {
    return scale_head_offset(format, block) + scale_head_bytes(format) +
           static_cast<std::size_t>(block % kSuperBlocks) * sub_scale_bytes(format);
}

// Bytes from the start of a panel to its quants.
constexpr std::size_t quants_offset(PanelFormat format, int blocks) {
    int groups = format.sub_scales == SubScales::kNone ? blocks : blocks / kSuperBlocks;
    return round_up_64(static_cast<std::size_t>(groups) * scale_block_bytes(format));
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
static_assert(panel_bytes(DType::kQ6_K, 512) == 16 * 2 * 210);
static_assert(panel_bytes(DType::kQ2_K, 512) == 16 * 2 * 84);
// Where GGUF packs sub-scales into 4 or 6 bits, a byte each: 1 to 4 % more.
static_assert(panel_bytes(DType::kQ4_K, 512) == 16 * 2 * (144 + 4));
static_assert(panel_bytes(DType::kQ5_K, 512) == 16 * 2 * (176 + 4));
static_assert(panel_bytes(DType::kQ3_K, 512) == 16 * 2 * (110 + 4));
static_assert(panel_bytes(DType::kIQ4_XS, 512) == 16 * 2 * (136 + 2));

}  // namespace taproot
