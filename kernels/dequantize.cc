// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "base/assert.h"
#include "kernels/half.h"
#include "kernels/linear.h"
#include "kernels/super_block.h"

namespace taproot {
namespace {

std::uint16_t load_u16(const std::byte* at) {
    std::uint16_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
}
std::uint32_t load_u32(const std::byte* at) {
    std::uint32_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
}
unsigned byte_at(const std::byte* at, int index) {
    return static_cast<unsigned>(at[index]);
}

// 16 bytes whose low nibbles are elements 0..15 and high nibbles 16..31.
void unpack_nibbles(const std::byte* nibbles, int (&q)[32]) {
    for (int j = 0; j < 16; ++j) {
        q[j] = static_cast<int>(byte_at(nibbles, j) & 15u);
        q[j + 16] = static_cast<int>(byte_at(nibbles, j) >> 4);
    }
}

void add_high_bits(std::uint32_t bits, int (&q)[32]) {
    for (int j = 0; j < 32; ++j) q[j] |= static_cast<int>((bits >> j) & 1u) << 4;
}

// y = d * (q - bias), or d * q + m: one rounding per operation, in this order.
void scale_block(const int (&q)[32], float d, int bias, float* out) {
    for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(q[j] - bias) * d;
}
void scale_block_offset(const int (&q)[32], float d, float m, float* out) {
    for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(q[j]) * d + m;
}

void dequantize_super_block(DType dtype, const std::byte* from, float* out) {
    PanelFormat format = panel_format(dtype);
    SuperBlock block;
    read_super_block(dtype, from, &block);
    float d = half_to_float(block.d);
    float m = half_to_float(block.m);
    for (int b = 0; b < kSuperBlocks; ++b) {
        dequantize_block(format, d, m, block.sub_scales[b], block.quants[b],
                         out + b * kBlockColumns);
    }
}

void dequantize_block(DType dtype, const std::byte* block, float* out) {
    int q[32];
    switch (dtype) {
        case DType::kF32:
            std::memcpy(out, block, 4);
            return;
        case DType::kF16:
            *out = half_to_float(load_u16(block));
            return;
        case DType::kBF16:
            *out = bfloat16_to_float(load_u16(block));
            return;
        case DType::kQ4_0:
            unpack_nibbles(block + 2, q);
            scale_block(q, half_to_float(load_u16(block)), 8, out);
            return;
        case DType::kQ4_1:
            unpack_nibbles(block + 4, q);
            scale_block_offset(q, half_to_float(load_u16(block)),
                               half_to_float(load_u16(block + 2)), out);
            return;
        case DType::kQ5_0:
            unpack_nibbles(block + 6, q);
            add_high_bits(load_u32(block + 2), q);
            scale_block(q, half_to_float(load_u16(block)), 16, out);
            return;
        case DType::kQ5_1:
            unpack_nibbles(block + 8, q);
            add_high_bits(load_u32(block + 4), q);
            scale_block_offset(q, half_to_float(load_u16(block)),
                               half_to_float(load_u16(block + 2)), out);
            return;
        case DType::kQ8_0:
            for (int j = 0; j < 32; ++j) {
                q[j] = static_cast<std::int8_t>(byte_at(block, 2 + j));
            }
            scale_block(q, half_to_float(load_u16(block)), 0, out);
            return;
        case DType::kIQ4_NL:
            unpack_nibbles(block + 2, q);
            for (int& value : q) value = kIq4Values[value];
            scale_block(q, half_to_float(load_u16(block)), 0, out);
            return;
        case DType::kQ2_K:
        case DType::kQ3_K:
        case DType::kQ4_K:
        case DType::kQ5_K:
        case DType::kQ6_K:
        case DType::kIQ4_XS:
            dequantize_super_block(dtype, block, out);
            return;
    }
    TAPROOT_UNREACHABLE();
}

}  // namespace

void dequantize(DType dtype, const std::byte* blocks, std::int64_t count, float* out) {
    DTypeInfo info = dtype_info(dtype);
    TAPROOT_ASSERT(count % info.block_elements == 0);
    for (std::int64_t done = 0; done < count; done += info.block_elements) {
        dequantize_block(dtype, blocks, out + done);
        blocks += info.block_bytes;
    }
}

}  // namespace taproot
