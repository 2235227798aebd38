// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace taproot {

// How a weight matrix is stored in a model file. Block layouts are those of GGUF (little-endian).
enum class DType : std::uint8_t { kF32, kF16, kBF16, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0 };

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
    }
    return {"?", 1, 1, false};
}

// Storage bits without arithmetic: g++ 12 has no scalar __bf16, and kernels convert explicitly.
struct Half {
    std::uint16_t bits;
};
struct BFloat16 {
    std::uint16_t bits;
};

}  // namespace taproot
