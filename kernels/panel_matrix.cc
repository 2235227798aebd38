// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/assert.h"
#include "kernels/half.h"
#include "kernels/linear.h"
#include "kernels/panel_layout.h"
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

void pack_float_row(DType dtype, int columns, const std::byte* row, int lane, std::byte* panel) {
    std::size_t element = static_cast<std::size_t>(panel_format(dtype).element_bytes);
    for (std::size_t k = 0; k < static_cast<std::size_t>(columns); ++k) {
        std::memcpy(panel + (k * kPanelRows + static_cast<std::size_t>(lane)) * element,
                    row + k * element, element);
    }
}

}  // namespace

Result<PanelMatrix> PanelMatrix::pack(DType dtype, int columns, std::span<const Source> sources,
                                      ForkJoin& pool) {
    TAPROOT_TRY(std::int64_t rows, checked_rows(dtype, columns, sources));
    DTypeInfo info = dtype_info(dtype);
    PanelMatrix matrix;
    matrix.dtype_ = dtype;
    matrix.rows_ = static_cast<int>(rows);
    matrix.columns_ = columns;
    matrix.panels_ = static_cast<int>((rows + kPanelRows - 1) / kPanelRows);
    matrix.panel_bytes_ = taproot::panel_bytes(dtype, columns);
    matrix.bytes_ = matrix.panel_bytes_ * static_cast<std::size_t>(matrix.panels_);
    matrix.data_ = AlignedBuffer(matrix.bytes_);
    if (matrix.data_.data() == nullptr) {
        return Error{ErrorCode::kUnavailable,
                     fmt::format("no memory for {} bytes of weights", matrix.bytes_)};
    }
    StackedRows stacked(sources, static_cast<std::size_t>(columns / info.block_elements) *
                                     static_cast<std::size_t>(info.block_bytes));
    auto pack_panel = [&](int p) {
        std::byte* panel = matrix.data_.data() + static_cast<std::size_t>(p) * matrix.panel_bytes_;
        for (int lane = 0; lane < kPanelRows; ++lane) {
            const std::byte* row = stacked.row(std::int64_t{p} * kPanelRows + lane);
            if (row == nullptr) break;  // padding rows keep their zeros
            if (info.quantized) {
                pack_quantized_row(dtype, columns / kBlockColumns, row, lane, panel);
            } else {
                pack_float_row(dtype, columns, row, lane, panel);
            }
        }
    };
    WorkRanges ranges(matrix.panels_, pool.threads(), 1);
    pool.share([&](int thread) { ranges.work(thread, pack_panel); });
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
    const std::byte* scales = from + lane * 2;
    const std::byte* quants = from + quants_offset(format, blocks) + lane * 4;
    auto half_at = [](const std::byte* at) {
        std::uint16_t bits;
        std::memcpy(&bits, at, 2);
        return half_to_float(bits);
    };
    for (int b = 0; b < blocks; ++b) {
        float d = half_at(scales);
        float m = format.offset ? half_at(scales + 2 * kPanelRows) : 0.0f;
        for (int k = 0; k < kBlockColumns; ++k) {
            int vector = k / 4;
            int byte = k % 4;
            bool nibble = format.quant_bits != 8;
            int stored_vector = nibble ? vector % 4 : vector;
            auto bits = static_cast<unsigned>(
                quants[static_cast<std::size_t>(stored_vector) * kVectorBytes +
                       static_cast<std::size_t>(byte)]);
            if (nibble) bits = vector < 4 ? bits & 15u : bits >> 4;
            if (format.quant_bits == 5) {
                auto high =
                    static_cast<unsigned>(quants[4 * kVectorBytes + static_cast<unsigned>(byte)]);
                bits |= ((high >> vector) & 1u) << 4;
            }
            int q = static_cast<int>(bits) - format.bias;
            float value = static_cast<float>(q) * d;
            out[b * kBlockColumns + k] = format.offset ? value + m : value;
        }
        scales += scale_block_bytes(format);
        quants += quant_block_bytes(format);
    }
}

}  // namespace taproot
