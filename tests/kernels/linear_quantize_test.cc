// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "tests/kernels/linear_support.h"

namespace taproot {
namespace {

QuantizedRows quantized(Isa isa, const std::vector<float>& x, int rows, int threads = 1) {
    ForkJoin pool(threads);
    KernelContext context{ops_for(isa), pool};
    QuantizedRows out;
    int columns = static_cast<int>(x.size()) / rows;
    quantize_rows(context, {x.data(), columns, rows, columns}, &out);
    return out;
}

TEST(LinearQuantize, EveryIsaGivesTheSameBytes) {
    Random random(3);
    for (int rows : {1, 3, 64}) {
        std::vector<float> x = testing::random_activations(random, rows, 32 * 37);
        QuantizedRows expected = quantized(Isa::kRef, x, rows);
        for (Isa isa : testing::simd_isas()) {
            for (int threads : {1, 2, 3}) {
                QuantizedRows actual = quantized(isa, x, rows, threads);
                ASSERT_EQ(
                    std::memcmp(expected.row(0), actual.row(0),
                                sizeof(ActivationBlock) * static_cast<std::size_t>(rows) * 37),
                    0)
                    << to_string(isa);
            }
        }
    }
}

TEST(LinearQuantize, RemaindersRestoreTheRowsToTwoQuantisingSteps) {
    Random random(5);
    constexpr int kRows = 5, kColumns = 96;
    std::vector<float> x = testing::random_activations(random, kRows, kColumns);
    std::vector<ActivationBlock> expected;
    for (Isa isa : available_isas()) {
        ForkJoin pool(1);
        KernelContext context{ops_for(isa), pool};
        QuantizedRows rows = quantized(isa, x, kRows), rest;
        constexpr int kFirst = 2, kCount = 3;
        quantize_remainders(context, {x.data(), kColumns, kRows, kColumns}, rows,
                            {kFirst, kFirst + kCount}, &rest);
        for (int r = 0; r < kCount; ++r) {
            for (int k = 0; k < kColumns; ++k) {
                const ActivationBlock& coarse = rows.row(kFirst + r)[k / 32];
                const ActivationBlock& fine = rest.row(kFirst + r)[k / 32];
                float value = x[static_cast<std::size_t>((kFirst + r) * kColumns + k)];
                float sum = coarse.d * coarse.q[k % 32] + fine.d * fine.q[k % 32];
                // Half a step of the second level, float32 roundings of the first product, and
                // remainders below 2^-110, which count as zero.
                EXPECT_LE(std::abs(value - sum),
                          0.501f * fine.d + 1e-5f * std::abs(value) + std::ldexp(1.0f, -110));
            }
        }
        std::vector<ActivationBlock> got(rest.row(kFirst), rest.row(kFirst + kCount));
        if (expected.empty()) expected = got;
        EXPECT_EQ(std::memcmp(expected.data(), got.data(), sizeof(ActivationBlock) * got.size()), 0)
            << to_string(isa);
    }
}

TEST(LinearQuantize, RoundsTiesToEvenAndKeepsTheLargestAt127) {
    std::vector<float> x(32, 0.0f);
    x[0] = 127.0f;
    x[1] = 0.5f;
    x[2] = 1.5f;
    x[3] = -2.5f;
    x[4] = -126.5f;
    for (Isa isa : available_isas()) {
        QuantizedRows rows = quantized(isa, x, 1);
        const ActivationBlock& block = *rows.row(0);
        EXPECT_EQ(block.d, 1.0f);
        EXPECT_EQ(block.q[0], 127);
        EXPECT_EQ(block.q[1], 0);
        EXPECT_EQ(block.q[2], 2);
        EXPECT_EQ(block.q[3], -2);
        EXPECT_EQ(block.q[4], -126);
        EXPECT_EQ(block.sum, 127 + 0 + 2 - 2 - 126);
        EXPECT_EQ(block.scaled_sum, 1.0f);
    }
}

TEST(LinearQuantize, SumsAreThoseOfTheQuants) {
    Random random(12);
    std::vector<float> x = testing::random_activations(random, 3, 32 * 37);
    for (Isa isa : available_isas()) {
        QuantizedRows rows = quantized(isa, x, 3);
        for (int b = 0; b < 3 * 37; ++b) {
            const ActivationBlock& block = rows.row(0)[b];
            int halves[2] = {};
            for (int k = 0; k < 32; ++k) halves[k / 16] += block.q[k];
            ASSERT_EQ(block.half_sums[0], halves[0]);
            ASSERT_EQ(block.half_sums[1], halves[1]);
            ASSERT_EQ(block.sum, halves[0] + halves[1]);
        }
    }
}

TEST(LinearQuantize, QuantsNeverLeavePlusMinus127) {
    Random random(11);
    for (int round = 0; round < 2000; ++round) {
        std::vector<float> x(32);
        auto value = static_cast<float>(
            std::ldexp(1.0 + random.unit(), static_cast<int>(random.between(-105, 126))));
        for (std::size_t i = 0; i < 32; ++i) x[i] = i % 2 == 0 ? value : -value;
        for (Isa isa : available_isas()) {
            QuantizedRows rows = quantized(isa, x, 1);
            for (int i = 0; i < 32; ++i) ASSERT_EQ(rows.row(0)->q[i], i % 2 == 0 ? 127 : -127);
        }
    }
}

TEST(LinearQuantize, ZeroAndTinyBlocksAreZero) {
    for (float value : {0.0f, -0.0f, 1e-45f, 1e-38f, 0x1.fffffep-111f}) {
        std::vector<float> x(32, value);
        for (Isa isa : available_isas()) {
            QuantizedRows rows = quantized(isa, x, 1);
            const ActivationBlock& block = *rows.row(0);
            EXPECT_EQ(block.d, 0.0f) << value;
            EXPECT_EQ(block.sum, 0);
            EXPECT_EQ(block.scaled_sum, 0.0f);
            for (std::int8_t q : block.q) EXPECT_EQ(q, 0);
        }
    }
    std::vector<float> x(32, 0x1p-110f);  // the smallest that counts
    for (Isa isa : available_isas()) EXPECT_EQ(quantized(isa, x, 1).row(0)->q[7], 127);
}

// A fault upstream must show in the output instead of turning into a plausible number.
TEST(LinearQuantize, NotFiniteInputsMakeTheirRowNaNAndNoOther) {
    float infinity = std::numeric_limits<float>::infinity();
    float nan = std::numeric_limits<float>::quiet_NaN();
    Random random(4);
    auto weights = testing::random_weights(random, DType::kQ4_1, 20, 96);
    PanelMatrix w = testing::must_pack(DType::kQ4_1, 96, weights, 20);
    for (float bad : {infinity, -infinity, nan, -nan}) {
        for (Isa isa : available_isas()) {
            std::vector<float> x(3 * 96, 1.0f);
            x[96 + 40] = bad;
            QuantizedRows rows = quantized(isa, x, 3);
            EXPECT_TRUE(std::isnan(rows.row(1)[1].d));
            EXPECT_EQ(rows.row(1)[1].sum, 0);
            EXPECT_EQ(rows.row(1)[0].d, 1.0f / 127.0f);
            ForkJoin pool(1);
            KernelContext context{ops_for(isa), pool};
            std::vector<float> out(3 * 20);
            linear(context, w, {{x.data(), 96, 3, 96}, &rows}, {out.data(), 20, 3, 20});
            for (std::size_t n = 0; n < 20; ++n) {
                EXPECT_FALSE(std::isnan(out[n]));
                EXPECT_TRUE(std::isnan(out[20 + n]));
                EXPECT_FALSE(std::isnan(out[40 + n]));
            }
        }
    }
}

TEST(LinearQuantize, ErrorOfAnElementIsAtMostHalfAStep) {
    Random random(8);
    std::vector<float> x = testing::random_activations(random, 4, 320);
    QuantizedRows rows = quantized(Isa::kRef, x, 4);
    for (std::size_t i = 0; i < x.size(); ++i) {
        const ActivationBlock& block = rows.row(static_cast<int>(i) / 320)[i % 320 / 32];
        double error = std::fabs(double{block.d} * block.q[i % 32] - double{x[i]});
        ASSERT_LE(error, 0.5001 * double{block.d} + 0x1p-110) << i;
    }
}

TEST(LinearQuantize, ResizeKeepsCapacityAndShapes) {
    QuantizedRows rows;
    rows.resize(8, 64);
    const ActivationBlock* before = rows.row(0);
    rows.resize(2, 128);
    EXPECT_EQ(rows.row(0), before);
    EXPECT_EQ(rows.row(1), before + 4);
    EXPECT_EQ(rows.blocks(), 4);
}

}  // namespace
}  // namespace taproot
