// SPDX-License-Identifier: Apache-2.0
// Floats through a quantiser written apart from the kernels, and back.
#include "tests/kernels/linear_support.h"
#include "tests/support/quantiser.h"

namespace taproot {
namespace {

std::string lower(std::string_view name) {
    std::string out(name);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

// Relative L2 error of Gaussian weights: about step / sqrt(12) of plain rounding.
double allowed_error(DType type) {
    switch (type) {
        case DType::kQ8_0:
            return 0.01;
        case DType::kQ6_K:
            return 0.025;
        case DType::kQ5_0:
        case DType::kQ5_1:
        case DType::kQ5_K:
            return 0.06;
        case DType::kQ3_K:
            return 0.25;
        case DType::kQ2_K:
            return 0.35;
        default:
            return 0.11;
    }
}

TEST(LinearRoundTrip, QuantisedWeightsComeBackWithinTheirTypesError) {
    Random random(31);
    for (DType type : testing::kQuantizedTypes) {
        DTypeInfo info = dtype_info(type);
        const testing::QuantType* writer = testing::find_quant_type(lower(info.name));
        ASSERT_NE(writer, nullptr) << info.name;
        ASSERT_EQ(writer->block, info.block_elements);
        ASSERT_EQ(writer->bytes, info.block_bytes);
        constexpr int kColumns = 768;
        constexpr int kRows = 20;
        std::vector<float> values(kColumns * kRows);
        for (float& value : values) value = static_cast<float>(testing::gaussian(random));
        std::string file;
        testing::quantise(*writer, values, &file);
        std::vector<std::byte> bytes(file.size());
        std::memcpy(bytes.data(), file.data(), file.size());
        PanelMatrix packed = testing::must_pack(type, kColumns, bytes, kRows);
        double error = 0.0, size = 0.0;
        for (int r = 0; r < kRows; ++r) {
            std::vector<float> row(kColumns);
            packed.dequantize_row(r, row.data());
            for (int k = 0; k < kColumns; ++k) {
                double value = values[static_cast<std::size_t>(r * kColumns + k)];
                error += std::pow(row[static_cast<std::size_t>(k)] - value, 2);
                size += value * value;
            }
        }
        double relative = std::sqrt(error / size);
        EXPECT_LT(relative, allowed_error(type)) << info.name;
        EXPECT_GT(relative, 0.05 * allowed_error(type)) << info.name;
    }
}

TEST(LinearRoundTrip, AllZeroWeightsStayZero) {
    for (DType type : testing::kQuantizedTypes) {
        const testing::QuantType* writer = testing::find_quant_type(lower(dtype_info(type).name));
        std::vector<float> zeros(256);
        std::string file;
        testing::quantise(*writer, zeros, &file);
        std::vector<float> back(256, 1.0f);
        dequantize(type, reinterpret_cast<const std::byte*>(file.data()), 256, back.data());
        for (float value : back) ASSERT_EQ(value, 0.0f) << dtype_info(type).name;
    }
}

}  // namespace
}  // namespace taproot
