// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/row_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "worker/sample/exact_math.h"

namespace taproot {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_row(Random& random, std::size_t n) {
    std::vector<float> row(n);
    for (float& logit : row) logit = static_cast<float>(random.unit() * 40 - 25);
    return row;
}

TEST(ExactMath, ExpAgreesWithTheLibraryToTheLastBits) {
    for (double x = 0; x > -708; x -= 0.0137) {
        double expected = std::exp(x);
        EXPECT_NEAR(exact_exp(x) / expected, 1.0, 1e-15) << x;
    }
    EXPECT_EQ(exact_exp(0.0), 1.0);
    EXPECT_EQ(exact_exp(-709.0), 0.0);
    EXPECT_EQ(exact_exp(-std::numeric_limits<double>::infinity()), 0.0);
}

TEST(ExactMath, LogAgreesWithTheLibrary) {
    for (double x = 1e-300; x < 1e300; x *= 1.37) {
        double expected = std::log(x);
        EXPECT_NEAR(exact_log(x), expected, 2e-15 * std::max(1.0, std::abs(expected))) << x;
    }
    EXPECT_EQ(exact_log(1.0), 0.0);
}

TEST(RowOps, MaxTakesTheLowestIdAmongEquals) {
    std::vector<float> row{1, 5, 2, 5, 5};
    EXPECT_EQ(row_max(row).token, 1);
    std::vector<float> negative_zero{-0.0f, 0.0f};
    EXPECT_EQ(row_max(negative_zero).token, 0);
}

TEST(RowOps, MaxIgnoresNanAndReportsARowWithoutAnyFiniteLogit) {
    std::vector<float> row(100, kNan);
    EXPECT_EQ(row_max(row).token, -1);
    row[70] = -kInfinity;
    EXPECT_EQ(row_max(row).token, -1);
    row[71] = -3;
    EXPECT_EQ(row_max(row).token, 71);
    row[99] = kInfinity;
    EXPECT_EQ(row_max(row).token, 99);
    EXPECT_TRUE(std::isfinite(row_max(row).logit));
}

TEST(RowOps, MaxAgreesWithAPlainLoopForEverySize) {
    Random random(7);
    for (std::size_t n = 1; n < 300; ++n) {
        std::vector<float> row = random_row(random, n);
        std::size_t best = 0;
        for (std::size_t i = 1; i < n; ++i)
            if (row[i] > row[best]) best = i;
        EXPECT_EQ(row_max(row).token, static_cast<TokenId>(best));
    }
}

TEST(RowOps, EveryInstructionSetGivesTheSameBits) {
    Random random(11);
    for (std::size_t n : {1u, 7u, 8u, 63u, 64u, 65u, 1000u, 49152u}) {
        std::vector<float> row = random_row(random, n);
        if (n > 60) row[33] = kNan, row[40] = -kInfinity;
        float top = row_max(row).logit;
        std::size_t chunks = div_ceil(n, kRowChunk);
        std::vector<double> weights(n), sums(chunks), other_weights(n), other_sums(chunks);
        double total = row_exp_variant(0, row, top, 1.25, weights, sums);
        for (int variant : {1, 2}) {
            double other = row_exp_variant(variant, row, top, 1.25, other_weights, other_sums);
            if (std::isnan(other)) continue;  // not on this machine
            EXPECT_EQ(std::memcmp(&other, &total, sizeof total), 0) << n << " " << variant;
            EXPECT_EQ(std::memcmp(weights.data(), other_weights.data(), n * sizeof(double)), 0);
            EXPECT_EQ(std::memcmp(sums.data(), other_sums.data(), chunks * sizeof(double)), 0);
        }
    }
}

TEST(RowOps, LogSumExpSurvivesExtremes) {
    std::vector<float> huge(300, 3e38f);
    EXPECT_NEAR(row_log_sum_exp(huge, row_max(huge).logit), 3e38, 1e32);
    std::vector<float> mixed{0.0f, kNan, -kInfinity, 0.0f};
    EXPECT_NEAR(row_log_sum_exp(mixed, 0.0f), std::log(2.0), 1e-15);
}

}  // namespace
}  // namespace taproot
