// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace taproot::testing {

// Types that quantise() knows, by their lower-case GGUF names.
struct QuantType {
    std::string_view name;
    std::uint32_t id;  // of ggml
    int block;         // weights
    int bytes;         // per block
};
// Null when unknown.
const QuantType* find_quant_type(std::string_view name);

// Appends `values` (whole blocks) to `out` as a file holds them: scales from the extremes of each
// sub-block, every weight to the nearest level. Plain, not clever: made for tests, written from the
// formats' definitions independently of kernels/.
void quantise(const QuantType& type, std::span<const float> values, std::string* out);

std::uint16_t to_nearest_half(float value);
float from_half(std::uint16_t bits);

}  // namespace taproot::testing
