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

// Attention becomes visible at a depth; the pages behind it are few.
class DeepExecutor final : public Executor {
public:
    explicit DeepExecutor(ManualClock& clock) : clock_(clock) {}
    [[nodiscard]] int vocab_size() const override { return 1; }
    std::span<const float> run(std::span<const StepSequence> step) override {
        for (const StepSequence& sequence : step) {
            const auto tokens = static_cast<double>(sequence.tokens.size());
            clock_.advance(from_ms(1 + tokens * (0.1 + 0.001 * sequence.position)));
            for (BlockId block : sequence.blocks) EXPECT_LT(block.value, 4u);
            EXPECT_GE(sequence.blocks.size() * kBlockTokens,
                      static_cast<std::size_t>(sequence.position) + sequence.tokens.size());
        }
        return {&logit_, 1};
    }
    void copy_block(BlockId, BlockId) override {}
    [[nodiscard]] int threads() const override { return 1; }
    void share(TaskRef task) override { task(0); }
    [[nodiscard]] std::size_t block_bytes() const override { return 1; }
    void read_block(BlockId, std::span<std::byte>) const override {}
    void write_block(std::span<const std::byte>, BlockId) override {}

private:
    ManualClock& clock_;
    float logit_ = 0;
};

TEST(Probe, FindsTheCostOfAttention) {
    ManualClock clock;
    DeepExecutor executor(clock);
    StepCost cost = probe_step_cost(executor, clock, 8, 2048);
    EXPECT_NEAR(cost.prefill_pair_ms, 0.001, 1e-5);
    EXPECT_GT(cost.decode_context_ms, cost.prefill_pair_ms);
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
