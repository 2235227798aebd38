// SPDX-License-Identifier: Apache-2.0
#include "kernels/super_block.h"

#include <cstring>

#include "base/assert.h"

namespace taproot {
namespace {

std::uint16_t load_u16(const std::byte* at) {
    std::uint16_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
}
const std::uint8_t* bytes_of(const std::byte* at) {
    return reinterpret_cast<const std::uint8_t*>(at);
}
std::uint16_t negated(std::uint16_t half) {
    return static_cast<std::uint16_t>(half ^ 0x8000u);
}
template <typename Value>
std::uint8_t byte(Value value) {
    return static_cast<std::uint8_t>(value);
}

// Eight scales and eight offsets of 6 bits in 12 bytes: the first four of each in the low bits of
// bytes 0..3 and 4..7, the rest in nibbles of 8..11 with their upper bits on top of the first.
void read_six_bit_pairs(const std::uint8_t* s, SuperBlock* out) {
    for (int j = 0; j < 4; ++j) {
        out->sub_scales[j][0] = byte(s[j] & 63);
        out->sub_scales[j][1] = byte(s[j + 4] & 63);
        out->sub_scales[j + 4][0] = byte((s[j + 8] & 15) | (s[j] >> 6) << 4);
        out->sub_scales[j + 4][1] = byte((s[j + 8] >> 4) | (s[j + 4] >> 6) << 4);
    }
}

// Sixteen scales of 6 bits, stored with 32 added: nibbles of 8 bytes, then 4 bytes of upper bits.
void read_six_bit_scales(const std::uint8_t* s, SuperBlock* out) {
    for (int j = 0; j < 16; ++j) {
        int low = j < 8 ? s[j] & 15 : s[j - 8] >> 4;
        int high = (s[8 + j % 4] >> (2 * (j / 4))) & 3;
        out->sub_scales[j / 2][j % 2] = byte((low | high << 4) - 32);
    }
}

// Blocks 2i and 2i + 1 share 32 bytes: low and high nibbles.
void read_nibbles(const std::uint8_t* from, SuperBlock* out) {
    for (int b = 0; b < kSuperBlocks; ++b) {
        const std::uint8_t* at = from + b / 2 * 32;
        for (int k = 0; k < 32; ++k) out->quants[b][k] = byte(at[k] >> (b % 2 * 4) & 15);
    }
}

// Four blocks share 32 bytes: bits 2i and 2i + 1 belong to the i-th.
void add_bit_pairs(const std::uint8_t* from, int shift, SuperBlock* out) {
    for (int b = 0; b < kSuperBlocks; ++b) {
        const std::uint8_t* at = from + b / 4 * 32;
        for (int k = 0; k < 32; ++k) {
            out->quants[b][k] |= byte((at[k] >> (b % 4 * 2) & 3) << shift);
        }
    }
}

// 32 bytes: bit i belongs to block i.
void add_bits(const std::uint8_t* from, int shift, SuperBlock* out) {
    for (int b = 0; b < kSuperBlocks; ++b) {
        for (int k = 0; k < 32; ++k) out->quants[b][k] |= byte((from[k] >> b & 1) << shift);
    }
}

void read_q2_k(const std::byte* block, SuperBlock* out) {
    out->d = load_u16(block + 80);
    out->m = negated(load_u16(block + 82));
    std::memcpy(out->sub_scales, block, 16);
    add_bit_pairs(bytes_of(block + 16), 0, out);
}

void read_q3_k(const std::byte* block, SuperBlock* out) {
    out->d = load_u16(block + 108);
    read_six_bit_scales(bytes_of(block + 96), out);
    add_bit_pairs(bytes_of(block + 32), 0, out);
    add_bits(bytes_of(block), 2, out);
}

void read_q4_or_q5_k(bool five_bits, const std::byte* block, SuperBlock* out) {
    out->d = load_u16(block);
    out->m = negated(load_u16(block + 2));
    read_six_bit_pairs(bytes_of(block + 4), out);
    read_nibbles(bytes_of(block + (five_bits ? 48 : 16)), out);
    if (five_bits) add_bits(bytes_of(block + 16), 4, out);
}

// The low nibbles of four blocks share 64 bytes: blocks 0, 1 the low, blocks 2, 3 the high ones.
void read_q6_k(const std::byte* block, SuperBlock* out) {
    out->d = load_u16(block + 208);
    std::memcpy(out->sub_scales, block + 192, 16);
    const std::uint8_t* low = bytes_of(block);
    for (int b = 0; b < kSuperBlocks; ++b) {
        const std::uint8_t* at = low + b / 4 * 64 + b % 2 * 32;
        for (int k = 0; k < 32; ++k) out->quants[b][k] = byte(at[k] >> (b % 4 / 2 * 4) & 15);
    }
    add_bit_pairs(bytes_of(block + 128), 4, out);
}

void read_iq4_xs(const std::byte* block, SuperBlock* out) {
    out->d = load_u16(block);
    unsigned high = load_u16(block + 2);
    const std::uint8_t* low = bytes_of(block + 4);
    const std::uint8_t* nibbles = bytes_of(block + 8);
    for (int b = 0; b < kSuperBlocks; ++b) {
        unsigned scale = (low[b / 2] >> (b % 2 * 4) & 15u) | (high >> (2 * b) & 3u) << 4;
        out->sub_scales[b][0] = byte(scale - 32);
        for (int k = 0; k < 16; ++k) {
            out->quants[b][k] = byte(nibbles[16 * b + k] & 15);
            out->quants[b][k + 16] = byte(nibbles[16 * b + k] >> 4);
        }
    }
}

float signed_byte(std::uint8_t value) {
    return static_cast<float>(static_cast<std::int8_t>(value));
}

// d * scale and m * offset of one half of a block; both exact in float32.
struct HalfScale {
    float scale;
    float offset;
};
HalfScale half_scale(SubScales kind, float d, float m, const std::uint8_t* bytes, int half) {
    switch (kind) {
        case SubScales::kNone:
            return {d, m};
        case SubScales::kBlock:
            return {d * signed_byte(bytes[0]), 0.0f};
        case SubScales::kBlockOffset:
            return {d * static_cast<float>(bytes[0]), m * static_cast<float>(bytes[1])};
        case SubScales::kHalves:
            return {d * signed_byte(bytes[half]), 0.0f};
        case SubScales::kHalfOffsets:
            return {d * static_cast<float>(bytes[half] & 15),
                    m * static_cast<float>(bytes[half] >> 4)};
    }
    TAPROOT_UNREACHABLE();
    return {};
}

}  // namespace

void read_super_block(DType type, const std::byte* block, SuperBlock* out) {
    *out = {};
    switch (type) {
        case DType::kQ2_K:
            return read_q2_k(block, out);
        case DType::kQ3_K:
            return read_q3_k(block, out);
        case DType::kQ4_K:
            return read_q4_or_q5_k(false, block, out);
        case DType::kQ5_K:
            return read_q4_or_q5_k(true, block, out);
        case DType::kQ6_K:
            return read_q6_k(block, out);
        case DType::kIQ4_XS:
            return read_iq4_xs(block, out);
        default:
            TAPROOT_UNREACHABLE();
    }
}

void dequantize_block(PanelFormat format, float d, float m, const std::uint8_t* sub_scales,
                      const std::uint8_t* quants, float* out) {
    for (int half = 0; half < 2; ++half) {
        HalfScale by = half_scale(format.sub_scales, d, m, sub_scales, half);
        for (int k = half * 16; k < half * 16 + 16; ++k) {
            int value = format.iq4_values ? kIq4Values[quants[k]] : quants[k] - format.bias;
            float scaled = static_cast<float>(value) * by.scale;
            out[k] = format.offset ? scaled + by.offset : scaled;
        }
    }
}

namespace {

// The four bytes of a row in each vector of a panel's block; how columns lie in them:
// panel_layout.h. Each function moves some bits of all 32 quants, from bit `lowest` on.

void get_nibbles(const std::byte* from, std::uint8_t* quants) {
    for (int v = 0; v < 4; ++v) {
        for (int i = 0; i < 4; ++i) {
            auto bits = static_cast<unsigned>(from[64 * v + i]);
            quants[4 * v + i] = byte(bits & 15);
            quants[16 + 4 * v + i] = byte(bits >> 4);
        }
    }
}
void put_nibbles(const std::uint8_t* quants, std::byte* to) {
    for (int v = 0; v < 4; ++v) {
        for (int i = 0; i < 4; ++i) {
            const std::uint8_t* q = quants + 4 * v + i;
            to[64 * v + i] = std::byte(byte((q[0] & 15) | (q[16] & 15) << 4));
        }
    }
}

void get_pairs(const std::byte* from, int lowest, std::uint8_t* quants) {
    for (int v = 0; v < 4; ++v) {
        for (int i = 0; i < 4; ++i) {
            unsigned bits = static_cast<unsigned>(from[64 * (v % 2) + i]) >> (v / 2 * 2);
            quants[4 * v + i] |= byte((bits & 3) << lowest);
            quants[16 + 4 * v + i] |= byte((bits >> 4 & 3) << lowest);
        }
    }
}
void put_pairs(const std::uint8_t* quants, int lowest, std::byte* to) {
    for (int v = 0; v < 4; ++v) {
        for (int i = 0; i < 4; ++i) {
            const std::uint8_t* q = quants + 4 * v + i;
            int bits = (q[0] >> lowest & 3) | (q[16] >> lowest & 3) << 4;
            to[64 * (v % 2) + i] |= std::byte(byte(bits << (v / 2 * 2)));
        }
    }
}

void get_bits(const std::byte* from, int lowest, std::uint8_t* quants) {
    for (int v = 0; v < 8; ++v) {
        for (int i = 0; i < 4; ++i) {
            unsigned bit = static_cast<unsigned>(from[i]) >> v & 1u;
            quants[4 * v + i] |= byte(bit << lowest);
        }
    }
}
void put_bits(const std::uint8_t* quants, int lowest, std::byte* to) {
    for (int v = 0; v < 8; ++v) {
        for (int i = 0; i < 4; ++i) {
            to[i] |= std::byte(byte((quants[4 * v + i] >> lowest & 1) << v));
        }
    }
}

}  // namespace

void put_quants(PanelFormat format, int row, const std::uint8_t* quants, std::byte* block) {
    std::byte* to = block + row * 4;
    int bits = format.quant_bits;
    if (bits == 8) {
        for (int k = 0; k < kBlockColumns; ++k) to[k / 4 * 64 + k % 4] = std::byte(quants[k]);
        return;
    }
    if (bits >= 4) put_nibbles(quants, to);
    if (bits == 5) put_bits(quants, 4, to + 4 * 64);
    if (bits == 6) put_pairs(quants, 4, to + 4 * 64);
    if (bits <= 3) put_pairs(quants, 0, to);
    if (bits == 3) put_bits(quants, 2, to + 2 * 64);
}

void get_quants(PanelFormat format, int row, const std::byte* block, std::uint8_t* quants) {
    const std::byte* from = block + row * 4;
    int bits = format.quant_bits;
    if (bits == 8) {
        for (int k = 0; k < kBlockColumns; ++k)
            quants[k] = static_cast<std::uint8_t>(from[k / 4 * 64 + k % 4]);
        return;
    }
    std::memset(quants, 0, kBlockColumns);
    if (bits >= 4) get_nibbles(from, quants);
    if (bits == 5) get_bits(from + 4 * 64, 4, quants);
    if (bits == 6) get_pairs(from + 4 * 64, 4, quants);
    if (bits <= 3) get_pairs(from, 0, quants);
    if (bits == 3) get_bits(from + 2 * 64, 2, quants);
}

}  // namespace taproot
