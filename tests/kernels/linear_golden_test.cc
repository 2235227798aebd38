// SPDX-License-Identifier: Apache-2.0
// Blocks and their values as another implementation of GGUF computes them.
#include "tests/kernels/linear_support.h"
#include "tests/support/shared_data.h"

namespace taproot {
namespace {

// The value of `key` inside the object of `type`: the file is flat and machine-written.
std::string field(const std::string& json, const std::string& type, const std::string& key) {
    std::size_t object = json.find("\"" + type + "\"");
    if (object == std::string::npos) return "";
    std::size_t at = json.find("\"" + key + "\"", object);
    if (at == std::string::npos) return "";
    std::size_t open = json.find('"', json.find(':', at));
    return json.substr(open + 1, json.find('"', open + 1) - open - 1);
}

std::vector<std::byte> from_hex(const std::string& hex) {
    std::vector<std::byte> bytes(hex.size() / 2);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    }
    return bytes;
}

class QuantGoldens : public ::testing::TestWithParam<DType> {};

TEST_P(QuantGoldens, DequantiseExactly) {
    auto path = testing::shared_dir() / "data" / "quant_goldens.json";
    TAPROOT_NEEDS_FILE(path);
    DTypeInfo info = dtype_info(GetParam());
    std::string json = testing::read_file(path);
    std::string type(info.name);
    std::vector<std::byte> expected = from_hex(field(json, type, "values_f32_le_hex"));
    std::vector<std::byte> raw = from_hex(field(json, type, "raw_hex"));
    auto count = static_cast<std::int64_t>(expected.size() / 4);
    ASSERT_GT(count, 0);
    ASSERT_EQ(static_cast<std::int64_t>(raw.size()),
              count / info.block_elements * info.block_bytes);
    std::vector<float> values(static_cast<std::size_t>(count));
    dequantize(GetParam(), raw.data(), count, values.data());
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), expected.size()), 0);

    // The same through the panel layout.
    int columns = info.quantized ? info.block_elements : static_cast<int>(count);
    int rows = static_cast<int>(count) / columns;
    PanelMatrix w = testing::must_pack(GetParam(), columns, raw, rows);
    for (int r = 0; r < rows; ++r) {
        std::vector<float> row(static_cast<std::size_t>(columns));
        w.dequantize_row(r, row.data());
        EXPECT_EQ(std::memcmp(row.data(), expected.data() + r * columns * 4, row.size() * 4), 0);
    }
}

// The file has no F32 and no F16: the first is a copy, the second is tested below, whole.
INSTANTIATE_TEST_SUITE_P(FileTypes, QuantGoldens,
                         ::testing::Values(DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0,
                                           DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ3_K,
                                           DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL,
                                           DType::kIQ4_XS),
                         [](const ::testing::TestParamInfo<DType>& type) {
                             return std::string(dtype_info(type.param).name);
                         });

TEST(Half, EveryValueConvertsAsItsDefinitionSays) {
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
        unsigned exponent = (bits >> 10) & 31u;
        unsigned mantissa = bits & 1023u;
        auto half = static_cast<std::uint16_t>(bits);
        float actual;
        auto raw = static_cast<std::byte*>(static_cast<void*>(&half));
        dequantize(DType::kF16, raw, 1, &actual);
        if (exponent == 31) {
            EXPECT_EQ(std::isnan(actual), mantissa != 0);
            EXPECT_EQ(std::isinf(actual), mantissa == 0);
            continue;
        }
        double magnitude = exponent == 0
                               ? std::ldexp(mantissa, -24)
                               : std::ldexp(1024 + mantissa, static_cast<int>(exponent) - 25);
        auto expected = static_cast<float>(bits >= 0x8000 ? -magnitude : magnitude);
        ASSERT_EQ(std::memcmp(&actual, &expected, 4), 0) << bits;
    }
}

}  // namespace
}  // namespace taproot
