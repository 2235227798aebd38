// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace taproot {
namespace {

TEST(Logprobs, SumToOneAndMatchANaiveSoftmax) {
    Random random(3);
    std::vector<float> row(1000);
    for (float& logit : row) logit = static_cast<float>(random.unit() * 30 - 15);
    double sum = 0;
    for (float logit : row) sum += std::exp(static_cast<double>(logit));
    RowLogprobs logprobs(row);
    double total = 0;
    for (TokenId token = 0; token < 1000; ++token) {
        double expected = static_cast<double>(row[static_cast<std::size_t>(token)]) - std::log(sum);
        EXPECT_NEAR(logprobs.of(token), expected, 2e-6);
        total += std::exp(static_cast<double>(logprobs.of(token)));
    }
    EXPECT_NEAR(total, 1.0, 1e-5);
}

TEST(Logprobs, ImpossibleTokensReportTheFloorInsteadOfInfinity) {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    std::vector<float> row{0.0f, -kInf, std::numeric_limits<float>::quiet_NaN(), -1e6f};
    RowLogprobs logprobs(row);
    EXPECT_EQ(logprobs.of(0), 0.0f);
    EXPECT_EQ(logprobs.of(1), kLogprobFloor);
    EXPECT_EQ(logprobs.of(2), kLogprobFloor);
    EXPECT_EQ(logprobs.of(3), kLogprobFloor);
    EXPECT_EQ(logprobs.of(-1), kLogprobFloor);
    EXPECT_EQ(logprobs.of(4), kLogprobFloor);
    std::vector<float> broken(10, std::numeric_limits<float>::quiet_NaN());
    EXPECT_EQ(RowLogprobs(broken).of(3), kLogprobFloor);
    EXPECT_EQ(RowLogprobs(broken).top(3).size(), 3u);
}

TEST(Logprobs, TopTokensDescendWithTiesByLowerId) {
    Random random(5);
    for (int round = 0; round < 50; ++round) {
        std::vector<float> row(200);
        for (float& logit : row) logit = static_cast<float>(random.below(12));
        std::vector<TokenId> order(row.size());
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&row](TokenId a, TokenId b) {
            return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
        });
        std::size_t count = random.below(30);
        order.resize(count);
        EXPECT_EQ(top_tokens(row, count), order);
    }
    std::vector<float> short_row{1.0f, 2.0f};
    EXPECT_EQ(top_tokens(short_row, 20).size(), 2u);
}

}  // namespace
}  // namespace taproot
