// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/dtype.h"

// What one instruction set provides for linear.cc. Plain data and function pointers only: these
// files are compiled with flags that must not leak into other code, so no inline library code here.
namespace taproot {

// Two neighbouring panels (32 output rows) is what every kernel works on at a time.
inline constexpr int kTilePanels = 2;
inline constexpr int kTileColumns = 32;
// Most rows of x in one tile (partial sums of a tile live on the stack).
inline constexpr int kTileRowsMax = 128;

// 32 quantised activations. One struct, so that a kernel needs one pointer per row of x.
struct alignas(16) ActivationBlock {
    std::int8_t q[32];  // -127 .. 127
    float d;
    float scaled_sum;           // d * float(sum)
    std::int32_t sum;           // of q
    std::int16_t half_sums[2];  // of q[0..15] and q[16..31]
};
static_assert(sizeof(ActivationBlock) == 48);

// Where a tile's result goes: out[row][column], `columns` <= 32 of them valid.
struct TileOut {
    float* data;
    std::int64_t stride;
    int columns;
    bool add;  // out += result, else out = result
};

struct QuantizedTile {
    DType dtype;
    int blocks;                            // K / 32
    const std::byte* panels[kTilePanels];  // both the same when N has an odd number of panels
    const ActivationBlock* x;              // [rows][blocks]
    int rows;                              // 1 .. kTileRowsMax
    TileOut out;
    // Panels that the thread will read next, to be prefetched while computing; may be null.
    const std::byte* next;
};

struct FloatTile {
    DType dtype;
    int columns;  // K
    const std::byte* panels[kTilePanels];
    const float* x;  // [rows][x_stride]
    std::int64_t x_stride;
    int rows;
    TileOut out;
};

struct LinearOps {
    void (*quantize_row)(const float* x, int blocks, ActivationBlock* out);
    void (*quantized_tile)(const QuantizedTile& tile);
    void (*float_tile)(const FloatTile& tile);
};

namespace ref {
const LinearOps& linear_ops();
}
namespace avx2 {
const LinearOps& linear_ops();
}
namespace avx512 {
const LinearOps& linear_ops();
}

}  // namespace taproot
