// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/dispatch.h"
#include "kernels/fork_join.h"
#include "kernels/linear.h"
#include "kernels/ops.h"

namespace taproot::testing {

inline const std::vector<DType> kAllTypes(std::begin(kDTypes), std::end(kDTypes));
inline const std::vector<DType> kQuantizedTypes = [] {
    std::vector<DType> types = kAllTypes;
    std::erase_if(types, [](DType type) { return !dtype_info(type).quantized; });
    return types;
}();

// At least `columns` and a whole number of the type's blocks.
inline int whole_blocks(DType type, int columns) {
    int block = dtype_info(type).block_elements;
    return (columns + block - 1) / block * block;
}

// Where a block of the file has its f16 scale, and its f16 offset or minimum (-1: none).
struct HalvesAt {
    int d;
    int m;
};
inline HalvesAt halves_at(DType type) {
    switch (type) {
        case DType::kQ2_K:
            return {80, 82};
        case DType::kQ3_K:
            return {108, -1};
        case DType::kQ6_K:
            return {208, -1};
        case DType::kQ4_1:
        case DType::kQ5_1:
        case DType::kQ4_K:
        case DType::kQ5_K:
            return {0, 2};
        default:
            return {0, -1};
    }
}

// Every instruction set this machine has besides ref/.
inline std::vector<Isa> simd_isas() {
    std::vector<Isa> isas = available_isas();
    isas.erase(isas.begin());
    return isas;
}

inline double gaussian(Random& random) {
    double radius = std::sqrt(-2.0 * std::log(1.0 - random.unit()));
    return radius * std::cos(6.283185307179586 * random.unit());
}

// `exponents` biased f16 exponents [low, high], any mantissa and sign; sometimes zero or denormal.
inline std::uint16_t random_half(Random& random, int low, int high) {
    auto bits = static_cast<unsigned>(random.below(0x10000));
    if (random.chance(0.02)) return static_cast<std::uint16_t>(bits & 0x8000u);
    if (random.chance(0.02)) return static_cast<std::uint16_t>(bits & 0x83ffu);
    auto exponent = static_cast<unsigned>(random.between(low, high));
    return static_cast<std::uint16_t>((bits & 0x83ffu) | exponent << 10);
}

// Rows of a weight matrix as they lie in a file.
inline std::vector<std::byte> random_weights(Random& random, DType type, int rows, int columns) {
    DTypeInfo info = dtype_info(type);
    auto blocks =
        static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns / info.block_elements);
    std::vector<std::byte> out(blocks * static_cast<std::size_t>(info.block_bytes));
    std::byte* at = out.data();
    for (std::size_t b = 0; b < blocks; ++b, at += info.block_bytes) {
        if (type == DType::kF32) {
            auto value = static_cast<float>(gaussian(random) * 0.05);
            if (random.chance(0.01)) value = 1e-41f;
            std::memcpy(at, &value, 4);
            continue;
        }
        if (type == DType::kF16 || type == DType::kBF16) {
            std::uint16_t bits = random_half(random, 5, 13);
            if (type == DType::kBF16) {
                bits = static_cast<std::uint16_t>((bits & 0x807fu) | random.between(110, 124) << 7);
            }
            std::memcpy(at, &bits, 2);
            continue;
        }
        for (int i = 0; i < info.block_bytes; ++i) {
            at[i] = static_cast<std::byte>(random.below(256));
        }
        std::uint16_t d = random_half(random, 4, 9);
        std::uint16_t m = random_half(random, 7, 12);
        HalvesAt halves = halves_at(type);
        std::memcpy(at + halves.d, &d, 2);
        if (halves.m >= 0) std::memcpy(at + halves.m, &m, 2);
    }
    return out;
}

// Activations with outliers, zero blocks, denormals, ties and equal magnitudes.
inline std::vector<float> random_activations(Random& random, int rows, int columns) {
    std::vector<float> x(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
    for (float& value : x) value = static_cast<float>(gaussian(random));
    auto count = static_cast<std::uint64_t>(x.size());
    for (std::uint64_t i = 0; i < count / 97 + 1; ++i) x[random.below(count)] *= 60.0f;
    for (std::uint64_t i = 0; i < count / 53 + 1; ++i) x[random.below(count)] = -0.0f;
    for (std::size_t begin = 0; begin + 32 <= x.size(); begin += 32) {
        std::uint64_t kind = random.below(40);
        for (std::size_t k = begin; k < begin + 32; ++k) {
            if (kind == 0) x[k] = 0.0f;
            if (kind == 1) x[k] = std::ldexp(x[k], -130);
            if (kind == 2) x[k] = std::ldexp(x[k], -108);  // either side of the zero threshold
            if (kind == 3) x[k] = static_cast<float>(random.between(-254, 254)) * 0.5f;
            if (kind == 4) x[k] = random.chance(0.5) ? 3.0f : -3.0f;
            if (kind == 5) x[k] = std::ldexp(x[k], 100);
        }
    }
    return x;
}

struct Case {
    DType type;
    int rows;  // of x
    int columns;
    int outputs;
    std::string describe() const {
        return std::string(dtype_info(type).name) + " M=" + std::to_string(rows) +
               " K=" + std::to_string(columns) + " N=" + std::to_string(outputs);
    }
};

inline PanelMatrix must_pack(DType type, int columns, const std::vector<std::byte>& bytes,
                             int rows) {
    ForkJoin pool(1);
    PanelMatrix::Source source{bytes.data(), rows};
    Result<PanelMatrix> matrix = PanelMatrix::pack(type, columns, {&source, 1}, pool);
    EXPECT_TRUE(matrix.has_value());
    return std::move(matrix).value();
}

}  // namespace taproot::testing
