// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace taproot {

// Metadata value types, numbered as in the file.
enum class GgufType : std::uint32_t {
    kU8 = 0,
    kI8 = 1,
    kU16 = 2,
    kI16 = 3,
    kU32 = 4,
    kI32 = 5,
    kF32 = 6,
    kBool = 7,
    kString = 8,
    kArray = 9,
    kU64 = 10,
    kI64 = 11,
    kF64 = 12,
};
std::string_view to_string(GgufType type);

// Bytes of a number; 0 for strings and arrays.
constexpr std::uint64_t number_bytes(GgufType type) {
    switch (type) {
        case GgufType::kU8:
        case GgufType::kI8:
        case GgufType::kBool:
            return 1;
        case GgufType::kU16:
        case GgufType::kI16:
            return 2;
        case GgufType::kU32:
        case GgufType::kI32:
        case GgufType::kF32:
            return 4;
        case GgufType::kU64:
        case GgufType::kI64:
        case GgufType::kF64:
            return 8;
        case GgufType::kString:
        case GgufType::kArray:
            return 0;
    }
    return 0;
}

// How ggml stores one tensor type: `elements` weights along a row take `bytes`.
struct GgmlType {
    std::uint32_t id;
    std::string_view name;
    std::uint32_t elements;
    std::uint32_t bytes;
};
// Null for ids that ggml removed or that are newer than this table.
const GgmlType* find_ggml_type(std::uint32_t id);

}  // namespace taproot
