// SPDX-License-Identifier: Apache-2.0
#include "cli/kernel_cases.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace taproot::cli {

double RelativeError::value() const {
    return norm_ > 0 ? std::sqrt(difference_ / norm_) : std::sqrt(difference_);
}

std::size_t count_differing(const float* a, const float* b, std::size_t count) {
    std::size_t out = 0;
    for (std::size_t i = 0; i < count; ++i) {
        bool equal = std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]) ||
                     (std::isnan(a[i]) && std::isnan(b[i]));
        out += equal ? 0 : 1;
    }
    return out;
}

}  // namespace taproot::cli
