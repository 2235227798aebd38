// SPDX-License-Identifier: Apache-2.0
#include "tests/support/quantiser.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/assert.h"

namespace taproot::testing {
namespace {

constexpr QuantType kTypes[] = {
    {"q4_0", 2, 32, 18},    {"q4_1", 3, 32, 20},    {"q5_0", 6, 32, 22},
    {"q5_1", 7, 32, 24},    {"q8_0", 8, 32, 34},    {"q2_k", 10, 256, 84},
    {"q3_k", 11, 256, 110}, {"q4_k", 12, 256, 144}, {"q5_k", 13, 256, 176},
    {"q6_k", 14, 256, 210}, {"iq4_nl", 20, 32, 18}, {"iq4_xs", 23, 256, 136},
};

constexpr std::array<int, 16> kIq4 = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

using Values = std::span<const float>;

// A block being written; fields are set by their offset.
class Block {
public:
    explicit Block(int bytes) : bytes_(static_cast<std::size_t>(bytes), '\0') {}

    // Rounds to f16, stores it and returns what was stored.
    float half(int at, float value) {
        std::uint16_t bits = to_nearest_half(value);
        std::memcpy(&bytes_[static_cast<std::size_t>(at)], &bits, 2);
        return from_half(bits);
    }
    void bits(int at, int value, int shift = 0) {
        char& byte = bytes_[static_cast<std::size_t>(at)];
        byte = static_cast<char>(static_cast<unsigned char>(byte) | (value << shift));
    }
    [[nodiscard]] const std::string& bytes() const { return bytes_; }

private:
    std::string bytes_;
};

int nearest(float value, float step, int least, int most) {
    if (step == 0.0f) return std::clamp(0, least, most);
    return std::clamp(static_cast<int>(std::lround(value / step)), least, most);
}
// The value of largest magnitude.
float extreme(Values x) {
    return *std::max_element(x.begin(), x.end(),
                             [](float a, float b) { return std::abs(a) < std::abs(b); });
}
float largest(std::span<const float> x) {
    return std::abs(extreme(x));
}
// `levels` steps from `-min` up cover x; min >= 0.
struct Affine {
    float step;
    float min;
};
Affine affine(Values x, int levels) {
    float low = std::min(0.0f, *std::min_element(x.begin(), x.end()));
    float high = std::max(low, *std::max_element(x.begin(), x.end()));
    return {(high - low) / static_cast<float>(levels), -low};
}

void nibbles(Block& block, int at, const int (&q)[32]) {
    for (int k = 0; k < 16; ++k) block.bits(at + k, (q[k] & 15) | (q[k + 16] & 15) << 4);
}

Block small_block(const QuantType& type, Values x) {
    Block block(type.bytes);
    int q[32];
    if (type.name == "q8_0") {
        float d = block.half(0, largest(x) / 127.0f);
        for (int k = 0; k < 32; ++k)
            block.bits(2 + k, nearest(x[static_cast<std::size_t>(k)], d, -127, 127) & 255);
        return block;
    }
    int bits = type.name[1] == '5' ? 5 : 4;
    int half = 1 << (bits - 1);
    bool offset = type.name.back() == '1';
    int at = offset ? 4 : 2;
    if (offset) {
        float low = *std::min_element(x.begin(), x.end());
        float high = *std::max_element(x.begin(), x.end());
        float d = block.half(0, (high - low) / static_cast<float>(2 * half - 1));
        float m = block.half(2, low);
        for (std::size_t k = 0; k < 32; ++k) q[k] = nearest(x[k] - m, d, 0, 2 * half - 1);
    } else {
        float d = block.half(0, -extreme(x) / static_cast<float>(half));
        for (std::size_t k = 0; k < 32; ++k) q[k] = nearest(x[k], d, -half, half - 1) + half;
    }
    if (bits == 5) {
        for (int k = 0; k < 32; ++k) block.bits(at + k / 8, q[k] >> 4, k % 8);
        at += 4;
    }
    nibbles(block, at, q);
    return block;
}

int nearest_iq4(float value, float step) {
    int best = 0;
    for (int i = 1; i < 16; ++i) {
        auto distance = [&](int level) {
            return std::abs(value -
                            step * static_cast<float>(kIq4[static_cast<std::size_t>(level)]));
        };
        if (distance(i) < distance(best)) best = i;
    }
    return best;
}

Block iq4_nl_block(const QuantType& type, Values x) {
    Block block(type.bytes);
    float d = block.half(0, extreme(x) / -127.0f);
    int q[32];
    for (std::size_t k = 0; k < 32; ++k) q[k] = nearest_iq4(x[k], d);
    nibbles(block, 2, q);
    return block;
}

Block iq4_xs_block(const QuantType& type, Values x) {
    Block block(type.bytes);
    float steps[8];
    for (std::size_t b = 0; b < 8; ++b) steps[b] = extreme(x.subspan(32 * b, 32)) / -127.0f;
    float d = block.half(0, largest(steps) / 31.0f);
    for (int b = 0; b < 8; ++b) {
        int scale = nearest(steps[b], d, -32, 31);
        block.bits(4 + b / 2, (scale + 32) & 15, b % 2 * 4);
        block.bits(2 + b / 4, (scale + 32) >> 4, b % 4 * 2);
        int q[32];
        for (int k = 0; k < 32; ++k)
            q[k] =
                nearest_iq4(x[static_cast<std::size_t>(32 * b + k)], d * static_cast<float>(scale));
        nibbles(block, 8 + 16 * b, q);
    }
    return block;
}

Block q4_or_q5_k_block(const QuantType& type, Values x) {
    Block block(type.bytes);
    bool five = type.name == "q5_k";
    int levels = five ? 31 : 15;
    float steps[8], mins[8];
    for (std::size_t b = 0; b < 8; ++b) {
        Affine fit = affine(x.subspan(32 * b, 32), levels);
        steps[b] = fit.step;
        mins[b] = fit.min;
    }
    float d = block.half(0, largest(steps) / 63.0f);
    float dmin = block.half(2, largest(mins) / 63.0f);
    for (int b = 0; b < 8; ++b) {
        int scale = nearest(steps[b], d, 0, 63);
        int min = nearest(mins[b], dmin, 0, 63);
        if (b < 4) {
            block.bits(4 + b, scale);
            block.bits(8 + b, min);
        } else {
            block.bits(8 + b, (scale & 15) | (min & 15) << 4);
            block.bits(b, scale >> 4, 6);
            block.bits(4 + b, min >> 4, 6);
        }
        for (int k = 0; k < 32; ++k) {
            float value = x[static_cast<std::size_t>(32 * b + k)] + dmin * static_cast<float>(min);
            int q = nearest(value, d * static_cast<float>(scale), 0, levels);
            block.bits((five ? 48 : 16) + b / 2 * 32 + k, q & 15, b % 2 * 4);
            if (five) block.bits(16 + k, q >> 4, b);
        }
    }
    return block;
}

Block q6_k_block(const QuantType& type, Values x) {
    Block block(type.bytes);
    float steps[16];
    for (std::size_t g = 0; g < 16; ++g) steps[g] = extreme(x.subspan(16 * g, 16)) / -32.0f;
    float d = block.half(208, largest(steps) / 127.0f);
    for (int e = 0; e < 256; ++e) {
        int scale = nearest(steps[e / 16], d, -128, 127);
        if (e % 16 == 0) block.bits(192 + e / 16, scale & 255);
        int q =
            nearest(x[static_cast<std::size_t>(e)], d * static_cast<float>(scale), -32, 31) + 32;
        int part = e % 128 / 32;
        block.bits(e / 128 * 64 + part % 2 * 32 + e % 32, q & 15, part / 2 * 4);
        block.bits(128 + e / 128 * 32 + e % 32, q >> 4, part * 2);
    }
    return block;
}

Block q3_k_block(const QuantType& type, Values x) {
    Block block(type.bytes);
    float steps[16];
    for (std::size_t g = 0; g < 16; ++g) steps[g] = extreme(x.subspan(16 * g, 16)) / -4.0f;
    float d = block.half(108, largest(steps) / 31.0f);
    for (int e = 0; e < 256; ++e) {
        int g = e / 16;
        int scale = nearest(steps[g], d, -32, 31);
        if (e % 16 == 0) {
            block.bits(96 + g % 8, (scale + 32) & 15, g / 8 * 4);
            block.bits(104 + g % 4, (scale + 32) >> 4, g / 4 * 2);
        }
        int q = nearest(x[static_cast<std::size_t>(e)], d * static_cast<float>(scale), -4, 3) + 4;
        block.bits(32 + e / 128 * 32 + e % 32, q & 3, e % 128 / 32 * 2);
        block.bits(e % 32, q >> 2, e / 32);
    }
    return block;
}

Block q2_k_block(const QuantType& type, Values x) {
    Block block(type.bytes);
    float steps[16], mins[16];
    for (std::size_t g = 0; g < 16; ++g) {
        Affine fit = affine(x.subspan(16 * g, 16), 3);
        steps[g] = fit.step;
        mins[g] = fit.min;
    }
    float d = block.half(80, largest(steps) / 15.0f);
    float dmin = block.half(82, largest(mins) / 15.0f);
    for (int e = 0; e < 256; ++e) {
        int scale = nearest(steps[e / 16], d, 0, 15);
        int min = nearest(mins[e / 16], dmin, 0, 15);
        if (e % 16 == 0) block.bits(e / 16, scale | min << 4);
        float value = x[static_cast<std::size_t>(e)] + dmin * static_cast<float>(min);
        int q = nearest(value, d * static_cast<float>(scale), 0, 3);
        block.bits(16 + e / 128 * 32 + e % 32, q, e % 128 / 32 * 2);
    }
    return block;
}

Block make_block(const QuantType& type, Values x) {
    if (type.name == "q2_k") return q2_k_block(type, x);
    if (type.name == "q3_k") return q3_k_block(type, x);
    if (type.name == "q4_k" || type.name == "q5_k") return q4_or_q5_k_block(type, x);
    if (type.name == "q6_k") return q6_k_block(type, x);
    if (type.name == "iq4_nl") return iq4_nl_block(type, x);
    if (type.name == "iq4_xs") return iq4_xs_block(type, x);
    return small_block(type, x);
}

}  // namespace

const QuantType* find_quant_type(std::string_view name) {
    for (const QuantType& type : kTypes)
        if (type.name == name) return &type;
    return nullptr;
}

void quantise(const QuantType& type, std::span<const float> values, std::string* out) {
    auto count = static_cast<std::size_t>(type.block);
    TAPROOT_ASSERT(values.size() % count == 0);
    for (; !values.empty(); values = values.subspan(count))
        *out += make_block(type, values.first(count)).bytes();
}

std::uint16_t to_nearest_half(float value) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
    if (bits >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (bits < 0x38800000u) {  // below 2^-14: whole steps of 2^-24
        float steps = std::nearbyint(std::bit_cast<float>(bits) * 0x1p24f);
        return static_cast<std::uint16_t>(sign | static_cast<std::uint16_t>(steps));
    }
    bits += 0xfffu + ((bits >> 13) & 1u);  // to nearest, ties to even
    return static_cast<std::uint16_t>(sign | ((bits >> 13) - (112u << 10)));
}

float from_half(std::uint16_t bits) {
    int exponent = (bits >> 10) & 31;
    int mantissa = bits & 1023;
    float magnitude = exponent == 0
                          ? std::ldexp(static_cast<float>(mantissa), -24)
                          : std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
    if (exponent == 31) magnitude = mantissa == 0 ? HUGE_VALF : NAN;
    return bits >= 0x8000 ? -magnitude : magnitude;
}

}  // namespace taproot::testing
