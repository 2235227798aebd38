// SPDX-License-Identifier: Apache-2.0
#include "policies/batch/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace taproot {
namespace {

const StepCost kCost{.fixed_ms = 4, .decode_stream_ms = 0.5, .prefill_token_ms = 0.25};

TEST(BatchDecodeFirst, WithoutDecodesTheChunkBoundAloneCounts) {
    const std::vector<PrefillView> prefills{{300, 0}, {1000, 64}};
    const BatchDecision d = batch_decode_first({.prefills = prefills, .cost = kCost});
    EXPECT_EQ(d.grants, (std::vector<std::uint32_t>{300, 212}));
    EXPECT_EQ(d.prefill_tokens, 512u);
    EXPECT_DOUBLE_EQ(d.predicted_ms, 4 + 512 * 0.25);
}

TEST(BatchDecodeFirst, PromptTokensFillWhatDecodesLeaveOfTheStep) {
    const std::vector<PrefillView> prefills{{1000, 0}};
    const BatchDecision d = batch_decode_first(
        {.decode_streams = 16, .prefills = prefills, .cost = kCost, .step_ms_target = 50});
    EXPECT_EQ(d.prefill_tokens, 152u);  // (50 - 4 - 8) / 0.25
    EXPECT_LE(d.predicted_ms, 50);
    EXPECT_FALSE(d.reason.empty());
}

TEST(BatchDecodeFirst, TheFirstPrefillIsServedFirst) {
    const std::vector<PrefillView> prefills{{100, 0}, {30, 0}, {100, 0}};
    const BatchDecision d = batch_decode_first(
        {.decode_streams = 16, .prefills = prefills, .cost = kCost, .step_ms_target = 50});
    EXPECT_EQ(d.grants, (std::vector<std::uint32_t>{100, 30, 22}));
}

TEST(BatchDecodeFirst, SomeProgressEvenWhenDecodesFillTheStep) {
    const std::vector<PrefillView> prefills{{10, 0}, {100, 0}};
    const BatchDecision d = batch_decode_first(
        {.decode_streams = 200, .prefills = prefills, .cost = kCost, .step_ms_target = 50});
    EXPECT_EQ(d.grants, (std::vector<std::uint32_t>{10, 6}));
    EXPECT_EQ(d.prefill_tokens, 16u);
}

TEST(BatchDecodeFirst, ADeepPromptGetsFewerTokensForTheSameTime) {
    StepCost cost = kCost;
    cost.prefill_pair_ms = 0.0001;
    const auto granted = [&](std::uint32_t position) {
        const std::vector<PrefillView> prefills{{10'000, position}};
        const BatchDecision d = batch_decode_first({.decode_streams = 1,
                                                    .prefills = prefills,
                                                    .cost = cost,
                                                    .step_ms_target = 50,
                                                    .prefill_tokens_max = 4096});
        EXPECT_LE(d.predicted_ms, 50 + 1e-6);
        EXPECT_GT(d.predicted_ms, 49);  // and the step is full
        return d.prefill_tokens;
    };
    EXPECT_GE(granted(0), 175u);
    EXPECT_LT(granted(8000), 50u);
}

TEST(BatchDecodeFirst, DeepInAPromptProgressBesideFullStepsIsBoundedInTime) {
    StepCost cost = kCost;
    cost.prefill_pair_ms = 0.0005;
    const auto granted = [&](std::uint32_t position) {
        const std::vector<PrefillView> prefills{{10'000, position}};
        return batch_decode_first({.decode_streams = 200,
                                   .prefills = prefills,
                                   .cost = cost,
                                   .step_ms_target = 50})
            .prefill_tokens;
    };
    EXPECT_EQ(granted(0), 16u);
    EXPECT_EQ(granted(10'000), 4u);  // 25 ms at 5.25 ms each
    EXPECT_EQ(granted(1'000'000), 1u);
}

TEST(BatchDecodeFirst, AStepGetsALittleLongerToCompleteAPrompt) {
    const auto granted = [&](std::uint32_t first, std::uint32_t second) {
        const std::vector<PrefillView> prefills{{first, 0}, {second, 0}};
        return batch_decode_first({.decode_streams = 16,
                                   .prefills = prefills,
                                   .cost = kCost,
                                   .step_ms_target = 50})
            .grants;
    };
    // 152 fit; 50 more cost a quarter of the target.
    EXPECT_EQ(granted(202, 10), (std::vector<std::uint32_t>{202, 0}));
    EXPECT_EQ(granted(203, 10), (std::vector<std::uint32_t>{152, 0}));
    EXPECT_EQ(granted(100, 102), (std::vector<std::uint32_t>{100, 102}));
}

TEST(BatchDecodeFirst, GrantsNeverExceedAnyBound) {
    Random random(6);
    for (int round = 0; round < 5000; ++round) {
        std::vector<PrefillView> prefills(random.below(6));
        for (PrefillView& p : prefills) {
            p.remaining_tokens = static_cast<std::uint32_t>(random.below(3) * random.below(2000));
            p.position = static_cast<std::uint32_t>(random.below(3) * random.below(100'000));
        }
        const BatchView view{
            .decode_streams = static_cast<std::uint32_t>(random.below(3) * random.below(40)),
            .decode_context_tokens = random.below(100'000),
            .prefills = prefills,
            .cost = {.fixed_ms = random.unit() * 10,
                     .decode_stream_ms = random.unit(),
                     .decode_context_ms = random.unit() * 1e-4,
                     .prefill_token_ms = random.chance(0.2) ? 0 : random.unit(),
                     .prefill_pair_ms = random.chance(0.4) ? 0 : random.unit() * 1e-4},
            .step_ms_target = random.unit() * 100,
            .prefill_tokens_max = static_cast<std::uint32_t>(random.below(1024)),
            .prefill_tokens_min = 16};
        const BatchDecision d = batch_decode_first(view);
        ASSERT_EQ(d.grants.size(), prefills.size());
        ASSERT_EQ(std::accumulate(d.grants.begin(), d.grants.end(), 0u), d.prefill_tokens);
        ASSERT_LE(d.prefill_tokens, view.prefill_tokens_max);
        std::uint64_t wanted = 0;
        for (std::size_t i = 0; i < prefills.size(); ++i) {
            ASSERT_LE(d.grants[i], prefills[i].remaining_tokens);
            wanted += prefills[i].remaining_tokens;
        }
        if (wanted > 0 && view.prefill_tokens_max > 0 && prefills[0].remaining_tokens > 0) {
            ASSERT_GT(d.prefill_tokens, 0u);
        }
        if (view.decode_streams > 0 && d.prefill_tokens > view.prefill_tokens_min) {
            ASSERT_LE(d.predicted_ms, view.step_ms_target * (1.25 + 1e-9));
        }
    }
}

StepWork random_work(Random& random) {
    StepWork work;
    work.decode_streams = static_cast<std::uint32_t>(random.below(33));
    work.decode_context_tokens = work.decode_streams * random.below(2000);
    if (work.decode_streams == 0 || random.chance(0.4)) {
        work.prefill_tokens = static_cast<std::uint32_t>(1 + random.below(512));
        work.prefill_context_pairs = work.prefill_tokens * (1 + random.below(4000));
    }
    return work;
}

TEST(StepCostFit, FindsTheMachineFromItsSteps) {
    const StepCost truth{.fixed_ms = 2,
                         .decode_stream_ms = 0.3,
                         .decode_context_ms = 0.0004,
                         .prefill_token_ms = 0.2,
                         .prefill_pair_ms = 0.00002};
    const StepCost prior{.fixed_ms = 8,
                         .decode_stream_ms = 1,
                         .decode_context_ms = 0.0001,
                         .prefill_token_ms = 0.7,
                         .prefill_pair_ms = 0};
    StepCostFit fit(prior);
    Random random(1);
    for (int i = 0; i < 600; ++i) {
        const StepWork work = random_work(random);
        fit.add(work, truth.predict_ms(work) * (0.95 + 0.1 * random.unit()));
    }
    for (int i = 0; i < 200; ++i) {
        const StepWork work = random_work(random);
        EXPECT_NEAR(fit.cost().predict_ms(work) / truth.predict_ms(work), 1, 0.12);
    }
    EXPECT_EQ(fit.samples(), 600u);
}

TEST(StepCostFit, FollowsAMachineThatGetsSlowerAndForgetsOutliers) {
    const StepCost truth{.fixed_ms = 2, .decode_stream_ms = 0.3, .prefill_token_ms = 0.2};
    StepCostFit fit(truth);
    Random random(2);
    const StepWork work{.decode_streams = 8, .prefill_tokens = 100};
    for (int i = 0; i < 300; ++i) {
        const StepWork w = random_work(random);
        fit.add(w, truth.predict_ms(w));
    }
    const double before = fit.cost().predict_ms(work);
    fit.add(work, 50 * before);  // someone took the machine for a moment
    EXPECT_LT(fit.cost().predict_ms(work), 1.5 * before);
    for (int i = 0; i < 600; ++i) {
        const StepWork w = random_work(random);
        fit.add(w, 2 * truth.predict_ms(w));
    }
    EXPECT_NEAR(fit.cost().predict_ms(work) / (2 * before), 1, 0.15);
}

TEST(StepCostFit, StepsThatSomethingElseHeldUpMoveLittle) {
    const StepCost truth{.fixed_ms = 4,
                         .decode_stream_ms = 0.5,
                         .decode_context_ms = 4e-4,
                         .prefill_token_ms = 0.45,
                         .prefill_pair_ms = 3e-4};
    StepCostFit fit(truth);
    Random random(7);
    double worst = 0;
    for (int i = 0; i < 3000; ++i) {
        const StepWork work = random_work(random);
        const double predicted = fit.cost().predict_ms(work);
        worst = std::max(worst, std::abs(predicted / truth.predict_ms(work) - 1));
        const double held_up = random.chance(0.05) ? 2 + 20 * random.unit() : 1;
        fit.add(work, truth.predict_ms(work) * (0.98 + 0.04 * random.unit()) * held_up);
    }
    EXPECT_LT(worst, 0.3);
    EXPECT_LT(fit.error(), 0.05);
}

TEST(StepCostFit, FollowsWithinSecondsAMachineThatGetsBusyAndFree) {
    const StepCost truth{
        .fixed_ms = 4, .decode_stream_ms = 0.5, .prefill_token_ms = 0.45, .prefill_pair_ms = 3e-4};
    StepCostFit fit(truth);
    Random random(8);
    for (double pace : {1.0, 2.0, 1.0, 0.5}) {
        for (int i = 0; i < 60; ++i) {
            const StepWork work = random_work(random);
            const double took = pace * truth.predict_ms(work);
            if (i >= 40) {
                EXPECT_NEAR(fit.cost().predict_ms(work) / took, 1, 0.2) << i;
            }
            fit.add(work, took);
        }
    }
}

TEST(StepCostFit, OnlyDecodesLeaveThePrefillTermsAlone) {
    const StepCost prior{
        .fixed_ms = 2, .decode_stream_ms = 0.3, .prefill_token_ms = 0.2, .prefill_pair_ms = 1e-5};
    StepCostFit fit(prior);
    for (int i = 0; i < 20'000; ++i) fit.add({.decode_streams = 1}, 2.3);
    EXPECT_NEAR(fit.cost().prefill_token_ms, 0.2, 0.02);
    EXPECT_NEAR(fit.cost().predict_ms({.decode_streams = 1}), 2.3, 0.05);
}

TEST(StepCostFit, IgnoresWhatIsNotASample) {
    StepCostFit fit(StepCost{.fixed_ms = 2});
    fit.add({}, 5);
    fit.add({.decode_streams = 1}, std::numeric_limits<double>::quiet_NaN());
    fit.add({.decode_streams = 1}, 0);
    EXPECT_EQ(fit.samples(), 0u);
    EXPECT_DOUBLE_EQ(fit.cost().fixed_ms, 2);
}

}  // namespace
}  // namespace taproot
