// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/work_ranges.h"
#include "worker/model/step_profile.h"

namespace taproot {

// A scratch matrix: up to as many rows as allocate() was asked for, each beginning a cache line.
struct ScratchMatrix {
    AlignedBuffer buffer;
    int columns = 0;
    std::int64_t stride = 0;

    // False: no memory.
    [[nodiscard]] bool allocate(int rows, int wanted_columns) {
        columns = wanted_columns;
        stride = round_up(columns, 16);
        buffer = AlignedBuffer(static_cast<std::size_t>(stride) * sizeof(float) *
                               static_cast<std::size_t>(rows));
        return buffer.data() != nullptr;
    }
    [[nodiscard]] Rows rows(int count) { return {buffer.as<float>(), stride, count, columns}; }
};

// What a row of a step needs between two attentions and nobody else reads. One per thread that
// takes rows through the layers by itself, so that it stays in that thread's cache.
struct RowScratch {
    ScratchMatrix normed;   // input of qkv and of gate and up
    ScratchMatrix gate_up;  // gate, then up
    QuantizedRows quantized;
    QuantizedRows gated;  // silu(gate) * up while `quantized` is still read
    QuantizedRows remainders;
    std::vector<Range> precise;                // rows within the first block of a sequence
    std::vector<AttentionSequence> sequences;  // the parts of them that the rows belong to
    PartClock clock;

    [[nodiscard]] std::size_t bytes() const {
        return normed.buffer.bytes() + gate_up.buffer.bytes() + quantized.bytes() + gated.bytes() +
               remainders.bytes();
    }
};

}  // namespace taproot
