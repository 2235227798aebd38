// SPDX-License-Identifier: Apache-2.0
#include "cli/determinism.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cli/determinism_scenarios.h"

namespace taproot::cli {
namespace {

constexpr int kVocabulary = 1000;

TEST(DeterminismPlan, AFullOneHasFortyDifferentRequestsAndSomeLongOnes) {
    for (Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512}) {
        DeterminismPlan plan = make_determinism_plan(isa, false, 1, kVocabulary);
        std::set<std::vector<TokenId>> prompts;
        std::size_t tiles = 0, sampled = 0, choices = 0;
        for (const link::Generate& request : plan.requests) {
            prompts.insert(request.prompt);
            tiles += request.prompt.size() > 128 ? 1 : 0;
            sampled += request.sampling.temperature > 0 ? 1 : 0;
            choices += request.choices > 1 ? 1 : 0;
        }
        // Prompts of one token may meet by chance.
        EXPECT_GE(prompts.size(), 40u) << to_string(isa);
        EXPECT_GE(tiles, 2u) << to_string(isa);
        EXPECT_GE(sampled, 20u) << to_string(isa);
        EXPECT_GE(choices, 3u) << to_string(isa);
    }
    // Those short enough for the scalar reference are enough, too.
    DeterminismPlan full = make_determinism_plan(Isa::kAvx512, false, 1, kVocabulary);
    EXPECT_GE(std::count_if(full.requests.begin(), full.requests.end(),
                            [](const auto& request) { return request.prompt.size() <= 129; }),
              40);
    EXPECT_GE(make_determinism_plan(Isa::kAvx512, false, 1, kVocabulary).longest(), 1500u);
}

TEST(DeterminismPlan, IsTheSameForOneSeedOnly) {
    auto prompt = [](std::uint64_t seed) {
        return make_determinism_plan(Isa::kAvx2, true, seed, kVocabulary).requests[5].prompt;
    };
    EXPECT_EQ(prompt(1), prompt(1));
    EXPECT_NE(prompt(1), prompt(2));
}

// A bench whose answers are made up: nothing here computes.
struct Compared {
    Compared() : bench(model, Isa::kRef, make_determinism_plan(Isa::kRef, true, 1, kVocabulary)) {
        for (const link::Generate& request : bench.plan().requests) {
            EngineAnswer answer;
            for (int c = 0; c < request.choices; ++c) {
                answer.tokens.push_back({10, 11});
                answer.logits_hash.push_back({100, 101});
            }
            bench.baseline.push_back(answer);
        }
    }
    std::size_t differing(const RequestLimits& limits, const EngineAnswer& answer) {
        Tally tally;
        bench.compare(tally, 0, limits, answer);
        EXPECT_EQ(tally.requests, 1u);
        return tally.differing;
    }
    LoadedModel model;
    DeterminismBench bench;
};

TEST(DeterminismBench, EveryDifferenceCounts) {
    Compared compared;
    EngineAnswer answer = compared.bench.baseline[0];
    EXPECT_EQ(compared.differing({}, answer), 0u);
    EngineAnswer token = answer, bits = answer, shorter = answer, failed = answer;
    token.tokens[0][1] = 13;
    bits.logits_hash[0][0] = 99;
    shorter.tokens[0].pop_back();
    failed.error = "broken";
    for (const EngineAnswer* wrong : {&token, &bits, &shorter, &failed})
        EXPECT_GE(compared.differing({}, *wrong), 1u);
}

TEST(DeterminismBench, AShorterAnswerIsComparedWithTheBeginning) {
    Compared compared;
    const RequestLimits one{.generated_max = 1};
    EXPECT_EQ(compared.bench.request(0, one).max_tokens, 1u);
    EngineAnswer answer = compared.bench.expected(0, one);
    EXPECT_EQ(answer.tokens[0].size(), 1u);
    EXPECT_EQ(compared.differing(one, answer), 0u);
    EXPECT_GE(compared.differing({}, answer), 1u);  // of two tokens one is missing
    answer.logits_hash[0][0] = 1;
    EXPECT_GE(compared.differing(one, answer), 1u);
}

TEST(DeterminismBench, LimitsLeaveOutLongPromptsOnly) {
    Compared compared;
    std::size_t all = compared.bench.plan().requests.size();
    EXPECT_EQ(compared.bench.chosen({}).size(), all);
    EXPECT_EQ(compared.bench.chosen(other_process_limits()).size(), all);
    for (std::size_t i : compared.bench.chosen({.prompt_max = 16}))
        EXPECT_LE(compared.bench.plan().requests[i].prompt.size(), 16u);
}

}  // namespace
}  // namespace taproot::cli
