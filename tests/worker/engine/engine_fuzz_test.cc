// SPDX-License-Identifier: Apache-2.0
// Random load on tiny pools against the simplest oracle there is: every request alone, cold, in an
// engine with room for everything. Same tokens and same logits, always. Replay a failure with
// TAPROOT_FUZZ_SEED; run longer with TAPROOT_FUZZ_ROUNDS.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tests/support/fuzz_seed.h"
#include "tests/worker/engine/engine_harness.h"

namespace taproot::testing {
namespace {

using link::FinishReason;

constexpr std::uint32_t kModelLen = 150;

// Prompts out of a few families, so that prefixes are shared at every depth, also inside blocks.
std::vector<TokenId> fuzz_prompt(Random& random) {
    std::vector<TokenId> base = random_prompt(random.below(3), 140);
    base.resize(static_cast<std::size_t>(random.between(1, 120)));
    auto extra = static_cast<std::size_t>(random.below(12));
    for (std::size_t i = 0; i < extra; ++i)
        base.push_back(static_cast<TokenId>(random.between(1, 3)));
    return base;
}

link::Generate fuzz_request(Random& random, std::uint64_t id) {
    link::Generate spec =
        greedy(id, fuzz_prompt(random), static_cast<std::uint32_t>(random.between(1, 60)));
    spec.salt = random.chance(0.8) ? 0 : 1;
    spec.priority = random.chance(0.8) ? 0 : static_cast<std::int32_t>(random.between(-1, 2));
    link::SamplingParams& sampling = spec.sampling;
    sampling.ignore_eos = random.chance(0.5);
    sampling.seed = random.below(5);
    if (random.chance(0.5)) sampling.temperature = 0.8f;
    if (random.chance(0.2)) sampling.top_k = 10;
    if (random.chance(0.2)) sampling.top_p = 0.8f;
    if (random.chance(0.2)) sampling.repetition_penalty = 1.3f;
    if (random.chance(0.2)) sampling.frequency_penalty = 0.5f;
    if (random.chance(0.2)) sampling.min_tokens = 10;
    if (random.chance(0.2)) sampling.stop_tokens = {7, 8};
    if (random.chance(0.3)) sampling.logprobs = 2;
    if (random.chance(0.15)) sampling.prompt_logprobs = 1;
    if (sampling.prompt_logprobs && random.chance(0.3)) spec.max_tokens = 0;
    if (random.chance(0.25)) spec.choices = static_cast<std::uint16_t>(random.between(2, 4));
    return spec;
}

template <typename T>
bool is_prefix(const std::vector<T>& part, const std::vector<T>& whole) {
    return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

void compare(const RequestResult& got, const RequestResult& alone, bool cancelled) {
    ASSERT_FALSE(got.rejected);
    ASSERT_TRUE(is_prefix(got.prompt_logprobs, alone.prompt_logprobs));
    for (const auto& [index, expected] : alone.choices) {
        auto found = got.choices.find(index);
        ChoiceResult none;
        const ChoiceResult& choice = found == got.choices.end() ? none : found->second;
        ASSERT_TRUE(is_prefix(choice.tokens, expected.tokens));
        ASSERT_TRUE(is_prefix(choice.hashes, expected.hashes));
        ASSERT_TRUE(is_prefix(choice.logprobs, expected.logprobs));
        if (cancelled) continue;
        ASSERT_EQ(choice.tokens, expected.tokens);
        ASSERT_EQ(choice.finish, expected.finish);
        ASSERT_EQ(choice.stop_token, expected.stop_token);
    }
    if (!cancelled) {
        ASSERT_EQ(got.prompt_logprobs, alone.prompt_logprobs);
    }
}

struct Totals {
    std::uint64_t preemptions = 0, cached = 0, evicted = 0, requests = 0, cancelled = 0;
    std::uint64_t restored = 0, corrupt = 0;
};

// Flips a bit of some block in RAM.
void spoil(RamTier& tier, Random& random) {
    std::vector<BlockHash> stored;
    tier.for_each([&stored](const BlockName& name) { stored.push_back(name.hash); });
    if (stored.empty()) return;
    std::span<const std::byte> bytes =
        tier.bytes(tier.slot_of(stored[random.below(stored.size())]));
    const_cast<std::byte&>(bytes[random.below(bytes.size())]) ^= std::byte{8};
}

void run_round(std::uint64_t seed, bool with_ram, Totals& totals) {
    Random random(seed);
    EngineHarness::Options options;
    options.model_len_max = kModelLen;
    options.blocks = static_cast<std::uint32_t>(random.between(10, with_ram ? 14 : 40));
    options.seqs_max = static_cast<std::uint32_t>(random.between(1, 8));
    options.prefill_chunk_tokens = static_cast<std::uint32_t>(random.between(1, 80));
    options.step_ms_target = static_cast<double>(random.between(1, 20));
    options.aging_ms = static_cast<double>(random.between(1, 500));
    if (with_ram) options.ram_blocks = static_cast<std::uint32_t>(random.between(2, 60));
    EngineHarness harness(options);
    if (with_ram) harness.executor.set_restore_ms(static_cast<double>(random.between(0, 3)));
    std::map<std::uint64_t, link::Generate> specs;
    std::map<std::uint64_t, bool> cancelled;
    auto count = static_cast<std::uint64_t>(random.between(2, with_ram ? 60 : 24));
    std::uint64_t next = 1;
    int rounds = 0;
    bool more = true;
    while (more || next <= count) {
        ASSERT_LT(++rounds, 20'000) << "no end";
        while (next <= count && random.chance(0.3)) {
            specs[next] = fuzz_request(random, next);
            harness.post(specs[next]);
            ++next;
        }
        if (next > 1 && random.chance(0.03)) {
            std::uint64_t id = 1 + random.below(next - 1);
            if (random.chance(0.5))
                harness.cancel(id);
            else
                harness.cancel_choice(id, static_cast<std::uint16_t>(random.below(4)));
            cancelled[id] = true;
        }
        if (with_ram && random.chance(0.02)) spoil(*harness.tier, random);
        more = harness.pump();
        if (::testing::Test::HasFailure()) return;
    }
    harness.run_all();
    for (const auto& [id, spec] : specs) {
        SCOPED_TRACE(::testing::Message() << "request " << id);
        compare(harness.result(id), run_alone(spec, kModelLen), cancelled.count(id) > 0);
        if (::testing::Test::HasFailure()) return;
    }
    totals.preemptions += harness.engine.scheduler().counters().preemptions;
    totals.cached += harness.engine.scheduler().counters().cached_tokens;
    totals.evicted += harness.engine.cache().evicted_blocks_total();
    link::Load load = harness.engine.load();
    totals.restored += load.ram_restored_blocks_total;
    totals.corrupt += load.ram_corrupt_blocks_total;
    totals.requests += specs.size();
    totals.cancelled += cancelled.size();
}

Totals run_rounds(std::uint64_t first_seed, bool with_ram) {
    std::uint64_t seed = fuzz_seed(first_seed);
    Totals totals;
    int rounds = fuzz_rounds(60);
    for (int i = 0; i < rounds; ++i) {
        SCOPED_TRACE(::testing::Message()
                     << "TAPROOT_FUZZ_SEED=" << seed + static_cast<unsigned>(i));
        run_round(seed + static_cast<unsigned>(i), with_ram, totals);
        if (::testing::Test::HasFailure()) break;
    }
    return totals;
}

// The load must have reached what it is for.
TEST(EngineFuzz, EveryRequestGetsWhatItWouldGetAlone) {
    Totals totals = run_rounds(1, false);
    EXPECT_GT(totals.preemptions, 10u);
    EXPECT_GT(totals.cached, 1'000u);
    EXPECT_GT(totals.evicted, 100u);
    EXPECT_GT(totals.cancelled, 10u);
    RecordProperty("requests", static_cast<int>(totals.requests));
}

TEST(EngineFuzz, EveryRequestGetsWhatItWouldGetAloneWithARamTierThatSpoilsBlocks) {
    Totals totals = run_rounds(1, true);
    EXPECT_GT(totals.preemptions, 10u);
    EXPECT_GT(totals.restored, 500u);
    EXPECT_GT(totals.corrupt, 5u);
    RecordProperty("restored", static_cast<int>(totals.restored));
}

}  // namespace
}  // namespace taproot::testing
