// SPDX-License-Identifier: Apache-2.0
#include "kernels/kv_dtype.h"

namespace taproot {

std::string_view to_string(KvDType dtype) {
    switch (dtype) {
        case KvDType::kF16:
            return "f16";
        case KvDType::kF32:
            return "f32";
        case KvDType::kBf16:
            return "bf16";
        case KvDType::kInt8:
            return "int8";
    }
    return "?";
}

std::optional<KvDType> parse_kv_dtype(std::string_view name) {
    for (int i = 0; i < kKvDTypes; ++i) {
        const auto dtype = static_cast<KvDType>(i);
        if (to_string(dtype) == name) return dtype;
    }
    return std::nullopt;
}

}  // namespace taproot
