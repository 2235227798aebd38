// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace taproot {

// How a weight matrix is stored in a model file. Block layouts are those of GGUF (little-endian).
enum class DType : std::uint8_t {
    kF32,
    kF16,
    kBF16,
    kQ4_0,
    kQ4_1,
    kQ5_0,
    kQ5_1,
    kQ8_0,
    kQ2_K,
    kQ3_K,
    kQ4_K,
    kQ5_K,
    kQ6_K,
    kIQ4_NL,
    kIQ4_XS,
};
inline constexpr DType kDTypes[] = {
    DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,   DType::kQ4_1,
    DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K,   DType::kQ3_K,
    DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS,
};

struct DTypeInfo {
    std::string_view name;
    int block_elements;  // weights per block along a row
    int block_bytes;
    bool quantized;  // takes quantised activations (int8 per 32), else float32 ones
};

constexpr DTypeInfo dtype_info(DType type) {
    switch (type) {
        case DType::kF32:
            return {"F32", 1, 4, false};
        case DType::kF16:
            return {"F16", 1, 2, false};
        case DType::kBF16:
            return {"BF16", 1, 2, false};
        case DType::kQ4_0:
            return {"Q4_0", 32, 18, true};
        case DType::kQ4_1:
            return {"Q4_1", 32, 20, true};
        case DType::kQ5_0:
            return {"Q5_0", 32, 22, true};
        case DType::kQ5_1:
            return {"Q5_1", 32, 24, true};
        case DType::kQ8_0:
            return {"Q8_0", 32, 34, true};
        case DType::kQ2_K:
            return {"Q2_K", 256, 84, true};
        case DType::kQ3_K:
            return {"Q3_K", 256, 110, true};
        case DType::kQ4_K:
            return {"Q4_K", 256, 144, true};
        case DType::kQ5_K:
            return {"Q5_K", 256, 176, true};
        case DType::kQ6_K:
            return {"Q6_K", 256, 210, true};
        case DType::kIQ4_NL:
            return {"IQ4_NL", 32, 18, true};
        case DType::kIQ4_XS:
            return {"IQ4_XS", 256, 136, true};
    }
    return {"?", 1, 1, false};
}

// What a 4 bit quant of IQ4_NL and IQ4_XS stands for.
inline constexpr std::int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};

// Storage bits without arithmetic: g++ 12 has no scalar __bf16, and kernels convert explicitly.
struct Half {
    std::uint16_t bits;
};
struct BFloat16 {
    std::uint16_t bits;
};

}  // namespace taproot
