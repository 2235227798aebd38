// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kernels/dtype.h"

namespace taproot::cli {

// Every weight type that the kernels know: a new one appears by itself.
inline std::vector<DType> all_dtypes() {
    std::vector<DType> out;
    for (int i = 0; i < 256; ++i) {
        auto type = static_cast<DType>(i);
        if (dtype_info(type).name != "?") out.push_back(type);
    }
    return out;
}

inline std::optional<DType> find_dtype(std::string_view name) {
    for (DType type : all_dtypes())
        if (dtype_info(type).name == name) return type;
    return std::nullopt;
}

}  // namespace taproot::cli
