// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "kernels/aligned_buffer.h"
#include "kernels/context.h"
#include "kernels/dtype.h"
#include "kernels/linear_ops.h"
#include "kernels/work_ranges.h"

namespace taproot {

// A weight matrix W [N output features, K input features] repacked into panels of 16 output rows,
// so that rows lie in vector lanes and no sum ever crosses lanes (layout drawings:
// kernels/README.md). N is padded to 16 with zero rows. Immutable once its panels are written. The
// panels lie in its own memory (pack) or in somebody else's (of_shape, then place).
class PanelMatrix {
public:
    // One source matrix as it lies in a model file: `rows` rows of K weights each, GGUF row-major
    // blocks.
    struct Source {
        const std::byte* data;
        int rows;
    };

    PanelMatrix() = default;
    // Stacks the sources along N (q, k, v become one matrix). K must be a multiple of the block
    // size of `dtype` (32 for quantised types), N and K positive. Errors: kInvalidArgument, or
    // kUnavailable (no memory). Reads each source once; the matrix takes as many bytes as the
    // source, N rounded up to 16.
    static Result<PanelMatrix> pack(DType dtype, int columns, std::span<const Source> sources,
                                    ForkJoin& pool);

    // The same matrix without memory: all but panel() and dequantize_row() may be called.
    static Result<PanelMatrix> of_shape(DType dtype, int columns, std::span<const Source> sources);
    // Writes panel `index` as pack() does; `out` holds panel_bytes() zeros, the sources are those
    // of of_shape(). Several threads may write different panels.
    void pack_panel(std::span<const Source> sources, int index, std::byte* out) const;
    // Reads its panels from `memory` from now on: bytes() bytes at a multiple of 64, written with
    // pack_panel(), which outlive this.
    void place(const std::byte* memory) { panels_at_ = memory; }

    [[nodiscard]] int rows() const { return rows_; }        // N, unpadded
    [[nodiscard]] int columns() const { return columns_; }  // K
    [[nodiscard]] int panels() const { return panels_; }
    [[nodiscard]] DType dtype() const { return dtype_; }
    [[nodiscard]] bool quantized() const { return dtype_info(dtype_).quantized; }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }  // read once per decode step
    [[nodiscard]] const std::byte* panel(int index) const {
        return panels_at_ + static_cast<std::size_t>(index) * panel_bytes_;
    }
    [[nodiscard]] std::size_t panel_bytes() const { return panel_bytes_; }

    // out[K] = row `index`, dequantised exactly as dequantize() does. 0 <= index < rows().
    void dequantize_row(int index, float* out) const;

private:
    DType dtype_ = DType::kF32;
    int rows_ = 0;
    int columns_ = 0;
    int panels_ = 0;
    std::size_t panel_bytes_ = 0;
    std::size_t bytes_ = 0;
    AlignedBuffer own_;
    const std::byte* panels_at_ = nullptr;  // in own_ or, after place(), elsewhere
};

// Activations quantised per 32 values: q = round_half_even(x * (127/amax)), d = amax/127 in
// float32, sum = integer sum of q over the block. A block with amax below 2^-110 is all zero; a
// block that holds a NaN or an infinity has d = NaN and q = 0, so that the fault shows in every
// output.
class QuantizedRows {
public:
    void resize(int rows, int columns);  // columns a multiple of 32; keeps capacity
    [[nodiscard]] int rows() const { return rows_; }
    [[nodiscard]] int columns() const { return columns_; }
    [[nodiscard]] int blocks() const { return columns_ / 32; }
    [[nodiscard]] std::size_t bytes() const { return data_.bytes(); }  // of memory held

    ActivationBlock* row(int r) {  // [blocks()]
        return data_.as<ActivationBlock>() + std::int64_t{r} * blocks();
    }
    [[nodiscard]] const ActivationBlock* row(int r) const {
        return data_.as<ActivationBlock>() + std::int64_t{r} * blocks();
    }

private:
    int rows_ = 0;
    int columns_ = 0;
    AlignedBuffer data_;
};

void quantize_rows(KernelContext& context, ConstRows x, QuantizedRows* out);

// Quantises what quantize_rows lost of `rows` of x: x - d * q, a product and a difference, each
// rounded. `quantized` holds x; `out` becomes as large, and its other rows keep no promise. A
// linear() over the remainders added to the one over the rows gives what activations of about 15
// bits would give.
void quantize_remainders(KernelContext& context, ConstRows x, const QuantizedRows& quantized,
                         Range rows, QuantizedRows* out);

// out[t][n] = sum over k of W[n][k] * x[t][k], in the canonical order of kernels/README.md; with
// `add`, out[t][n] += that (one float32 add, after the sum: a residual connection).
// Quantised weights read `quantized` (from quantize_rows of the same x), the others read `x`.
// out.columns == W.rows(). Work splits over panels and rows of x, never over K.
enum class Accumulate : std::uint8_t { kOverwrite, kAdd };
struct LinearInput {
    ConstRows x;
    const QuantizedRows* quantized;  // may be null when the weights are not quantised
    int first_quantized = 0;         // its row that is row 0 of x
};
void linear(KernelContext& context, const PanelMatrix& w, const LinearInput& in, Rows out,
            Accumulate accumulate = Accumulate::kOverwrite);

// out[i] = row ids[i] of the (vocabulary x K) table, dequantised exactly. ids must be in range.
void embed_rows(KernelContext& context, const PanelMatrix& table, std::span<const std::int32_t> ids,
                Rows out);

// Dequantises `count` weights (a whole number of blocks) as GGUF defines them. Exact: the float32
// result of the format's formula. Used by ref mode, goldens and repacking to F32.
void dequantize(DType dtype, const std::byte* blocks, std::int64_t count, float* out);

}  // namespace taproot
