// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "kernels/half.h"
#include "kernels/linear.h"
#include "kernels/panel_layout.h"
#include "kernels/super_block.h"
#include "kernels/work_ranges.h"

namespace taproot {
namespace {

constexpr std::int64_t kRowsMax = std::int64_t{1} << 28;
constexpr int kColumnsMax = 1 << 24;

Result<std::int64_t> checked_rows(DType dtype, int columns,
                                  std::span<const PanelMatrix::Source> sources) {
    DTypeInfo info = dtype_info(dtype);
    if (columns <= 0 || columns > kColumnsMax) {
        return invalid_argument(
            fmt::format("a weight matrix of {} columns; allowed: 1 to {}", columns, kColumnsMax));
    }
    if (columns % info.block_elements != 0) {
        return invalid_argument(
            fmt::format("{} columns of {}, which comes in blocks of {}: not a whole number",
                        columns, info.name, info.block_elements));
    }
    std::int64_t rows = 0;
    for (const PanelMatrix::Source& source : sources) {
        if (source.rows <= 0 || source.data == nullptr) {
            return invalid_argument("a weight matrix without rows");
        }
        rows += source.rows;
    }
    if (rows <= 0 || rows > kRowsMax) {
        return invalid_argument(
            fmt::format("a weight matrix of {} rows; allowed: 1 to {}", rows, kRowsMax));
    }
    return rows;
}

// Finds rows of the stacked sources; null beyond the last one.
class StackedRows {
public:
    StackedRows(std::span<const PanelMatrix::Source> sources, std::size_t row_bytes)
        : sources_(sources), row_bytes_(row_bytes) {}

    [[nodiscard]] const std::byte* row(std::int64_t index) const {
        for (const PanelMatrix::Source& source : sources_) {
            if (index < source.rows) {
                return source.data + static_cast<std::size_t>(index) * row_bytes_;
            }
            index -= source.rows;
        }
        return nullptr;
    }

private:
    std::span<const PanelMatrix::Source> sources_;
    std::size_t row_bytes_;
};

// GGUF puts the scales first, then the high bits of 5-bit types, then the quants.
void pack_quantized_row(DType dtype, int blocks, const std::byte* row, int lane, std::byte* panel) {
    PanelFormat format = panel_format(dtype);
    std::size_t source_block = static_cast<std::size_t>(dtype_info(dtype).block_bytes);
    std::byte* scales = panel + static_cast<std::size_t>(lane) * 2;
    std::byte* quants = panel + quants_offset(format, blocks) + static_cast<std::size_t>(lane) * 4;
    int nibble_vectors = format.quant_bits == 8 ? 8 : 4;
    for (int b = 0; b < blocks; ++b) {
        const std::byte* from = row + static_cast<std::size_t>(b) * source_block;
        std::memcpy(scales, from, 2);
        from += 2;
        if (format.offset) {
            std::memcpy(scales + 2 * kPanelRows, from, 2);
            from += 2;
        }
        std::uint32_t high = 0;
        if (format.quant_bits == 5) {
            std::memcpy(&high, from, 4);
            from += 4;
        }
        for (int v = 0; v < nibble_vectors; ++v) {
            std::byte* to = quants + static_cast<std::size_t>(v) * kVectorBytes;
            std::memcpy(to, from + v * 4, 4);
            if (format.quant_bits == 8) {
                for (int i = 0; i < 4; ++i) to[i] ^= std::byte{0x80};  // signed to 128 + q
            }
        }
        if (format.quant_bits == 5) {
            std::byte* to = quants + 4 * kVectorBytes;
            for (int i = 0; i < 4; ++i) {
                unsigned bits = 0;
                for (int v = 0; v < 8; ++v) bits |= ((high >> (4 * v + i)) & 1u) << v;
                to[i] = static_cast<std::byte>(bits);
            }
        }
        scales += scale_block_bytes(format);
        quants += quant_block_bytes(format);
    }
}

// Types with super-blocks: see SubScales for what their bytes are.
void pack_super_block_row(DType dtype, int blocks, const std::byte* row, int lane,
                          std::byte* panel) {
    PanelFormat format = panel_format(dtype);
    auto source_block = static_cast<std::size_t>(dtype_info(dtype).block_bytes);
    auto at = static_cast<std::size_t>(lane);
    std::size_t sub_scales = sub_scale_bytes(format) / kPanelRows;
    std::byte* quants = panel + quants_offset(format, blocks);
    for (int b = 0; b < blocks; b += kSuperBlocks, row += source_block) {
        SuperBlock block;
        read_super_block(dtype, row, &block);
        std::byte* head = panel + scale_head_offset(format, b);
        std::memcpy(head + 2 * at, &block.d, 2);
        if (format.offset) std::memcpy(head + 2 * kPanelRows + 2 * at, &block.m, 2);
        for (int i = 0; i < kSuperBlocks; ++i, quants += quant_block_bytes(format)) {
            std::byte* to = panel + sub_scale_offset(format, b + i) + at;
            for (std::size_t s = 0; s < sub_scales; ++s) {
                to[s * kPanelRows] = static_cast<std::byte>(block.sub_scales[i][s]);
            }
            put_quants(format, lane, block.quants[i], quants);
        }
    }
}

void pack_float_row(DType dtype, int columns, const std::byte* row, int lane, std::byte* panel) {
    std::size_t element = static_cast<std::size_t>(panel_format(dtype).element_bytes);
    for (std::size_t k = 0; k < static_cast<std::size_t>(columns); ++k) {
        std::memcpy(panel + (k * kPanelRows + static_cast<std::size_t>(lane)) * element,
                    row + k * element, element);
    }
}

}  // namespace

Result<PanelMatrix> PanelMatrix::of_shape(DType dtype, int columns,
                                          std::span<const Source> sources) {
    TAPROOT_TRY(std::int64_t rows, checked_rows(dtype, columns, sources));
    PanelMatrix matrix;
    matrix.dtype_ = dtype;
    matrix.rows_ = static_cast<int>(rows);
    matrix.columns_ = columns;
    matrix.panels_ = static_cast<int>((rows + kPanelRows - 1) / kPanelRows);
    matrix.panel_bytes_ = taproot::panel_bytes(dtype, columns);
    matrix.bytes_ = matrix.panel_bytes_ * static_cast<std::size_t>(matrix.panels_);
    return matrix;
}

void PanelMatrix::pack_panel(std::span<const Source> sources, int index, std::byte* out) const {
    DTypeInfo info = dtype_info(dtype_);
    StackedRows stacked(sources, static_cast<std::size_t>(columns_ / info.block_elements) *
                                     static_cast<std::size_t>(info.block_bytes));
    for (int lane = 0; lane < kPanelRows; ++lane) {
        const std::byte* row = stacked.row(std::int64_t{index} * kPanelRows + lane);
        if (row == nullptr) break;  // padding rows keep their zeros
        if (panel_format(dtype_).sub_scales != SubScales::kNone) {
            pack_super_block_row(dtype_, columns_ / kBlockColumns, row, lane, out);
        } else if (info.quantized) {
            pack_quantized_row(dtype_, columns_ / kBlockColumns, row, lane, out);
        } else {
            pack_float_row(dtype_, columns_, row, lane, out);
        }
    }
}

Result<PanelMatrix> PanelMatrix::pack(DType dtype, int columns, std::span<const Source> sources,
                                      ForkJoin& pool) {
    TAPROOT_TRY(PanelMatrix matrix, of_shape(dtype, columns, sources));
    matrix.own_ = AlignedBuffer(matrix.bytes_);
    if (matrix.own_.data() == nullptr) {
        return Error{ErrorCode::kUnavailable,
                     fmt::format("no memory for {} bytes of weights", matrix.bytes_)};
    }
    matrix.place(matrix.own_.data());
    WorkRanges ranges(matrix.panels_, pool.threads(), 1);
    pool.share([&](int thread) {
        ranges.work(thread, [&](int p) {
            matrix.pack_panel(
                sources, p, matrix.own_.data() + static_cast<std::size_t>(p) * matrix.panel_bytes_);
        });
    });
    return matrix;
}

void PanelMatrix::dequantize_row(int index, float* out) const {
    TAPROOT_ASSERT(index >= 0 && index < rows_);
    const std::byte* from = panel(index / kPanelRows);
    std::size_t lane = static_cast<std::size_t>(index % kPanelRows);
    PanelFormat format = panel_format(dtype_);
    if (format.quant_bits == 0) {
        std::size_t element = static_cast<std::size_t>(format.element_bytes);
        for (std::size_t k = 0; k < static_cast<std::size_t>(columns_); ++k) {
            dequantize(dtype_, from + (k * kPanelRows + lane) * element, 1, out + k);
        }
        return;
    }
    int blocks = columns_ / kBlockColumns;
    const std::byte* quants = from + quants_offset(format, blocks);
    auto half_at = [](const std::byte* at) {
        std::uint16_t bits;
        std::memcpy(&bits, at, 2);
        return half_to_float(bits);
    };
    for (int b = 0; b < blocks; ++b, quants += quant_block_bytes(format)) {
        const std::byte* head = from + scale_head_offset(format, b) + lane * 2;
        float d = half_at(head);
        float m = format.offset ? half_at(head + 2 * kPanelRows) : 0.0f;
        std::uint8_t sub_scales[2] = {};
        for (std::size_t s = 0; s < sub_scale_bytes(format) / kPanelRows; ++s) {
            sub_scales[s] = static_cast<std::uint8_t>(
                from[sub_scale_offset(format, b) + s * kPanelRows + lane]);
        }
        std::uint8_t q[kBlockColumns];
        get_quants(format, static_cast<int>(lane), quants, q);
        dequantize_block(format, d, m, sub_scales, q, out + b * kBlockColumns);
    }
}

}  // namespace taproot
