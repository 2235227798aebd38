// SPDX-License-Identifier: Apache-2.0
#include "worker/probe.h"

#include <gtest/gtest.h>

#include "tests/support/scripted_executor.h"

namespace taproot {
namespace {

TEST(Probe, FindsTheCostOfTheScriptedModel) {
    ManualClock clock;
    testing::ScriptedExecutor executor(8, 40, &clock);  // 1 ms + 0.1 ms per token
    StepCost cost = probe_step_cost(executor, clock, 8, 128);
    EXPECT_NEAR(cost.prefill_token_ms, 0.1, 1e-6);
    EXPECT_NEAR(cost.fixed_ms, 1.0, 1e-6);
    EXPECT_TRUE(executor.errors().empty());
}

TEST(Probe, GuessesWhereItCannotMeasure) {
    ManualClock clock;
    testing::ScriptedExecutor executor(2, 40, &clock);
    StepCost cost = probe_step_cost(executor, clock, 2, 128);
    EXPECT_GT(cost.prefill_token_ms, 0);
    EXPECT_EQ(executor.steps(), 0u);
}

}  // namespace
}  // namespace taproot
