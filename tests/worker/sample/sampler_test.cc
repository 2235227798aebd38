// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/sampler.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "base/random.h"

namespace taproot {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> random_row(Random& random, std::size_t n, double spread) {
    std::vector<float> row(n);
    for (float& logit : row) logit = static_cast<float>((random.unit() - 0.5) * spread);
    return row;
}

TokenId sample_token(Sampler& sampler, const std::vector<float>& row,
                     const link::SamplingParams& params, std::uint64_t position = 0,
                     std::uint16_t choice = 0) {
    Penalties none;
    auto sampled = sampler.sample(row, {params, none, choice, position, false});
    return sampled ? sampled->token : -1;
}

// The obvious definition: everything sorted, everything in double.
std::set<TokenId> naive_kept(const std::vector<float>& row, const link::SamplingParams& params) {
    std::vector<TokenId> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    auto logit = [&row](TokenId t) { return row[static_cast<std::size_t>(t)]; };
    std::stable_sort(order.begin(), order.end(),
                     [&](TokenId a, TokenId b) { return logit(a) > logit(b); });
    double top = static_cast<double>(logit(order[0]));
    auto weight = [&](TokenId t) {
        return std::exp((static_cast<double>(logit(t)) - top) /
                        static_cast<double>(params.temperature));
    };
    std::vector<TokenId> kept;
    for (TokenId t : order)
        if (weight(t) >= static_cast<double>(params.min_p)) kept.push_back(t);
    if (params.top_k > 0 && params.top_k < kept.size()) {
        float kth = logit(kept[params.top_k - 1]);
        while (logit(kept.back()) < kth) kept.pop_back();
    }
    if (params.top_p < 1.0f) {
        double total = 0;
        for (TokenId t : kept) total += weight(t);
        double sum = 0;
        std::size_t count = 0;
        while (count < kept.size() &&
               (count == 0 || sum < static_cast<double>(params.top_p) * total))
            sum += weight(kept[count++]);
        kept.resize(count);
    }
    return {kept.begin(), kept.end()};
}

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
    Sampler sampler(4, {});
    link::SamplingParams params;
    params.temperature = 0;
    EXPECT_EQ(sample_token(sampler, {1, 3, 3, 2}, params), 1);
    params.temperature = 9e-6f;
    EXPECT_EQ(sample_token(sampler, {1, 3, 3, 2}, params), 1);
}

TEST(Sampler, NeverReturnsAPaddedId) {
    Sampler sampler(3, {});
    link::SamplingParams params;
    params.temperature = 0;
    EXPECT_EQ(sample_token(sampler, {1, 2, 0, 99, 98}, params), 1);
    params.temperature = 5;
    for (std::uint64_t position = 0; position < 200; ++position)
        EXPECT_LT(sample_token(sampler, {1, 2, 0, 99, 98}, params, position), 3);
}

TEST(Sampler, BrokenRowsNeverCrash) {
    Sampler sampler(5, {});
    link::SamplingParams params;
    std::vector<float> broken(5, std::numeric_limits<float>::quiet_NaN());
    EXPECT_EQ(sample_token(sampler, broken, params), -1);
    broken[3] = 1.0f;
    for (float temperature : {0.0f, 1.0f}) {
        for (std::uint32_t top_k : {0u, 2u}) {
            for (float top_p : {1.0f, 0.5f}) {
                params.temperature = temperature;
                params.top_k = top_k;
                params.top_p = top_p;
                EXPECT_EQ(sample_token(sampler, broken, params), 3);
            }
        }
    }
    std::vector<float> infinite{0, kInf, -kInf, kInf, 0};
    params = {};
    for (std::uint64_t position = 0; position < 50; ++position) {
        TokenId token = sample_token(sampler, infinite, params, position);
        EXPECT_TRUE(token == 1 || token == 3);
    }
}

TEST(Sampler, KeepsExactlyTheSetOfTheNaiveDefinition) {
    Random random(17);
    for (int round = 0; round < 400; ++round) {
        auto n = static_cast<std::size_t>(random.between(2, 300));
        std::vector<float> row = random_row(random, n, random.chance(0.5) ? 10 : 1);
        if (random.chance(0.3))  // ties
            for (float& logit : row) logit = std::round(logit);
        link::SamplingParams params;
        params.temperature = static_cast<float>(0.2 + random.unit() * 2);
        if (random.chance(0.5)) params.top_k = static_cast<std::uint32_t>(random.between(1, 40));
        if (random.chance(0.5)) params.top_p = static_cast<float>(random.unit());
        if (random.chance(0.3)) params.min_p = static_cast<float>(random.unit() * 0.3);
        Sampler sampler(static_cast<int>(n), {});
        std::set<TokenId> kept = naive_kept(row, params);
        std::set<TokenId> drawn;
        int draws = kept.size() <= 8 ? 400 : 60;
        for (int i = 0; i < draws; ++i) {
            params.seed = random.next();
            TokenId token = sample_token(sampler, row, params);
            EXPECT_TRUE(kept.count(token)) << "round " << round << " token " << token;
            drawn.insert(token);
        }
        if (kept.size() == 1) {
            EXPECT_EQ(drawn, kept);
        }
    }
}

TEST(Sampler, ALargeFlatVocabularyStillHonoursTopP) {
    constexpr std::size_t kTokens = 49152;
    Sampler sampler(kTokens, {});
    std::vector<float> row(kTokens, 0.0f);  // all equal: the set is the first p * n ids
    link::SamplingParams params;
    params.top_p = 0.5f;
    for (std::uint64_t position = 0; position < 100; ++position)
        EXPECT_LE(sample_token(sampler, row, params, position), static_cast<TokenId>(kTokens / 2));
    params.top_k = 30'000;  // ties are kept: all stay
    params.top_p = 1.0f;
    bool high = false;
    for (std::uint64_t position = 0; position < 100; ++position)
        high |= sample_token(sampler, row, params, position) > 30'000;
    EXPECT_TRUE(high);
}

// Pearson's chi-square over 20 000 draws against the softmax; 40 bins, so the 99.9 % point is 72.
void expect_distribution(const std::vector<float>& row, const link::SamplingParams& base,
                         const std::set<TokenId>& kept) {
    Sampler sampler(static_cast<int>(row.size()), {});
    double top = static_cast<double>(*std::max_element(row.begin(), row.end()));
    std::map<TokenId, double> expected;
    double total = 0;
    for (TokenId t : kept) {
        double w = std::exp((static_cast<double>(row[static_cast<std::size_t>(t)]) - top) /
                            static_cast<double>(base.temperature));
        expected[t] = w;
        total += w;
    }
    constexpr int kDraws = 20'000;
    std::map<TokenId, int> counts;
    for (int i = 0; i < kDraws; ++i)
        ++counts[sample_token(sampler, row, base, static_cast<std::uint64_t>(i))];
    double chi2 = 0;
    for (const auto& [token, weight] : expected) {
        double want = weight / total * kDraws;
        double diff = counts[token] - want;
        chi2 += diff * diff / want;
    }
    EXPECT_LT(chi2, 75.0);
}

TEST(Sampler, DrawsFollowTheDistribution) {
    Random random(23);
    std::vector<float> row = random_row(random, 40, 4);
    link::SamplingParams params;
    params.seed = 99;
    params.temperature = 0.8f;
    expect_distribution(row, params, naive_kept(row, params));
    params.top_k = 12;
    expect_distribution(row, params, naive_kept(row, params));
    params.top_p = 0.7f;
    expect_distribution(row, params, naive_kept(row, params));
}

TEST(Sampler, DrawsDependOnSeedChoiceAndPositionOnly) {
    Random random(29);
    std::vector<float> row = random_row(random, 1000, 3);
    Sampler one(1000, {});
    Sampler two(1000, {});
    link::SamplingParams params;
    params.seed = 5;
    int moved_by_choice = 0, moved_by_position = 0;
    for (std::uint64_t position = 0; position < 100; ++position) {
        TokenId token = sample_token(one, row, params, position);
        sample_token(two, row, params, position + 7);  // another history
        EXPECT_EQ(sample_token(two, row, params, position), token);
        moved_by_choice += sample_token(one, row, params, position, 1) != token;
        moved_by_position += sample_token(one, row, params, position + 1) != token;
    }
    EXPECT_GT(moved_by_choice, 80);
    EXPECT_GT(moved_by_position, 80);
}

TEST(Sampler, PenaltiesFollowTheirDefinitions) {
    link::SamplingParams params;
    params.temperature = 0;
    params.repetition_penalty = 2.0f;
    params.frequency_penalty = 0.25f;
    params.presence_penalty = 0.5f;
    std::vector<TokenId> prompt{0, 1, 1, 7000};  // an id outside the vocabulary is ignored
    Penalties penalties(params, prompt, 5);
    penalties.on_output(2);
    penalties.on_output(2);
    std::vector<float> row{4, -4, 4, 4, -4};
    penalties.apply(row);
    EXPECT_EQ(row, (std::vector<float>{2, -8, 4.0f / 2 - 0.25f * 2 - 0.5f, 4, -4}));
}

TEST(Sampler, FrequencyAndPresenceIgnoreThePrompt) {
    link::SamplingParams params;
    params.presence_penalty = 1.0f;
    std::vector<TokenId> prompt{0, 1};
    Penalties penalties(params, prompt, 3);
    std::vector<float> row{1, 1, 1};
    penalties.apply(row);
    EXPECT_EQ(row, (std::vector<float>{1, 1, 1}));
    penalties.on_output(1);
    penalties.apply(row);
    EXPECT_EQ(row, (std::vector<float>{1, 0, 1}));
}

TEST(Sampler, BiasAppliesBeforeGreedyAndMinTokensMasksEveryEnd) {
    Sampler sampler(5, {4});
    link::SamplingParams params;
    params.temperature = 0;
    params.stop_tokens = {3};
    params.logit_bias = {{0, 50.0f}, {999, 1.0f}, {-1, 1.0f}};
    Penalties none;
    std::vector<float> row{0, 1, 2, 60, 70};
    EXPECT_EQ(sampler.sample(row, {params, none, 0, 0, false})->token, 4);
    EXPECT_EQ(sampler.sample(row, {params, none, 0, 0, true})->token, 0);
    params.logit_bias = {{0, -100.0f}};
    EXPECT_EQ(sampler.sample(row, {params, none, 0, 0, true})->token, 2);
}

TEST(Sampler, MasksThatLeaveNothingFallBackToTheRawRow) {
    Sampler sampler(2, {0, 1});
    link::SamplingParams params;
    Penalties none;
    std::vector<float> row{1, 2};
    EXPECT_EQ(sampler.sample(row, {params, none, 0, 0, true})->token, 1);
}

TEST(Sampler, LogprobsAreOfTheUntouchedRow) {
    Sampler sampler(3, {});
    link::SamplingParams params;
    params.temperature = 0;
    params.logprobs = 2;
    params.logits_hash = true;
    params.logit_bias = {{0, 100.0f}};
    Penalties none;
    std::vector<float> row{0, 1, 2, 77};  // the last is padding
    auto sampled = sampler.sample(row, {params, none, 0, 0, false});
    ASSERT_TRUE(sampled);
    EXPECT_EQ(sampled->token, 0);
    double log_sum = std::log(std::exp(0.0) + std::exp(1.0) + std::exp(2.0));
    EXPECT_NEAR(*sampled->logprob, -log_sum, 1e-6);
    ASSERT_EQ(sampled->top_logprobs.size(), 2u);
    EXPECT_EQ(sampled->top_logprobs[0].token, 2);
    EXPECT_NEAR(sampled->top_logprobs[0].logprob, 2 - log_sum, 1e-6);
    EXPECT_EQ(sampled->logits_hash, XXH3_64bits(row.data(), row.size() * sizeof(float)));
}

}  // namespace
}  // namespace taproot
