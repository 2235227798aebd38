// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/fork_join.h"

namespace taproot {

struct Ops;  // kernels/ops.h: the functions of one instruction set

// What every kernel call needs: the instruction set chosen at start and the threads to run on.
// Results never depend on either (see kernels/README.md): all instruction sets and thread counts
// give the same bits.
struct KernelContext {
    const Ops& ops;
    ForkJoin& pool;
};

// Row-major views, not owning. Rows are 64-byte aligned when they come from AlignedBuffer.
struct ConstRows {
    const float* data;    // [rows][stride], the first `columns` of each row are used
    std::int64_t stride;  // floats from row to row
    int rows;
    int columns;
    [[nodiscard]] const float* row(int r) const { return data + r * stride; }
};
struct Rows {
    float* data;
    std::int64_t stride;
    int rows;
    int columns;
    [[nodiscard]] float* row(int r) const { return data + r * stride; }
    operator ConstRows() const { return {data, stride, rows, columns}; }  // NOLINT: implicit
};

}  // namespace taproot
