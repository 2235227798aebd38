// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"
#include "kernels/linear.h"
#include "kernels/ops.h"
#include "kernels/panel_layout.h"

namespace taproot {
namespace {

// Below this a fork costs more than the work.
constexpr std::int64_t kSerialElements = 8192;

void reserve(AlignedBuffer& buffer, std::int64_t bytes) {
    if (buffer.bytes() >= static_cast<std::size_t>(bytes)) return;
    buffer = AlignedBuffer(static_cast<std::size_t>(bytes));
    TAPROOT_ASSERT(buffer.data() != nullptr);  // out of memory after start: die with a message
}

}  // namespace

void QuantizedRows::resize(int rows, int columns) {
    TAPROOT_ASSERT(rows >= 0 && columns > 0 && columns % kBlockColumns == 0);
    rows_ = rows;
    columns_ = columns;
    q_stride_ = (columns + 63) / 64 * 64;
    block_stride_ = (columns / kBlockColumns + 15) / 16 * 16;
    std::int64_t count = rows > 0 ? rows : 1;
    reserve(q_, count * q_stride_);
    reserve(d_, count * block_stride_ * 4);
    reserve(sum_, count * block_stride_ * 4);
    reserve(scaled_sum_, count * block_stride_ * 4);
}

std::int8_t* QuantizedRows::q(int row) {
    return q_.as<std::int8_t>() + row * q_stride_;
}
float* QuantizedRows::d(int row) {
    return d_.as<float>() + row * block_stride_;
}
std::int32_t* QuantizedRows::sum(int row) {
    return sum_.as<std::int32_t>() + row * block_stride_;
}
float* QuantizedRows::scaled_sum(int row) {
    return scaled_sum_.as<float>() + row * block_stride_;
}
const std::int8_t* QuantizedRows::q(int row) const {
    return q_.as<std::int8_t>() + row * q_stride_;
}
const float* QuantizedRows::d(int row) const {
    return d_.as<float>() + row * block_stride_;
}
const std::int32_t* QuantizedRows::sum(int row) const {
    return sum_.as<std::int32_t>() + row * block_stride_;
}
const float* QuantizedRows::scaled_sum(int row) const {
    return scaled_sum_.as<float>() + row * block_stride_;
}

void quantize_rows(KernelContext& context, ConstRows x, QuantizedRows* out) {
    out->resize(x.rows, x.columns);
    auto quantize_range = [&](Range range) {
        for (int r = range.begin; r < range.end; ++r) {
            QuantizedRow row{out->q(r), out->d(r), out->scaled_sum(r), out->sum(r)};
            context.ops.linear.quantize_row(x.row(r), x.columns, row);
        }
    };
    if (std::int64_t{x.rows} * x.columns <= kSerialElements || context.pool.threads() == 1) {
        quantize_range({0, x.rows});
        return;
    }
    auto task = [&](int thread) {
        quantize_range(split_range(x.rows, context.pool.threads(), thread));
    };
    context.pool.run(task);
}

}  // namespace taproot
