// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include "base/log.h"
#include "tests/worker/engine/engine_harness.h"

namespace taproot::testing {
namespace {

using link::FinishReason;

TEST(Engine, GeneratesUntilMaxTokensAndGivesEverythingBack) {
    EngineHarness harness;
    harness.post(greedy(1, random_prompt(1, 40), 10));
    harness.run_all();
    EXPECT_EQ(harness.choice(1).tokens.size(), 10u);
    EXPECT_EQ(harness.choice(1).finish, FinishReason::kLength);
    EXPECT_EQ(harness.result(1).started->prompt_tokens, 40u);
    EXPECT_EQ(harness.result(1).started->cached_tokens, 0u);
    for (TokenId token : harness.choice(1).tokens) EXPECT_LT(token, EngineHarness::kTokens);
}

TEST(Engine, TheEndTokenStopsAndIsReported) {
    link::Generate spec = greedy(1, random_prompt(3, 20), 500);
    RequestResult endless = run_alone(spec);
    const auto& tokens = endless.choices[0].tokens;
    auto first_end = std::find(tokens.begin(), tokens.end(), 0) - tokens.begin();
    ASSERT_LT(static_cast<std::size_t>(first_end), tokens.size());

    spec.sampling.ignore_eos = false;
    RequestResult stopped = run_alone(spec);
    EXPECT_EQ(stopped.choices[0].tokens.size(), static_cast<std::size_t>(first_end) + 1);
    EXPECT_EQ(stopped.choices[0].finish, FinishReason::kStop);
    EXPECT_EQ(stopped.choices[0].stop_token, 0);
}

TEST(Engine, StopTokensWorkBesideIgnoreEosAndMinTokensDelaysThem) {
    link::Generate spec = greedy(1, random_prompt(4, 20), 200);
    std::vector<TokenId> free_run = run_alone(spec).choices[0].tokens;
    spec.sampling.stop_tokens = {free_run[2]};
    RequestResult stopped = run_alone(spec);
    EXPECT_EQ(stopped.choices[0].finish, FinishReason::kStop);
    EXPECT_EQ(stopped.choices[0].stop_token, free_run[2]);
    EXPECT_LE(stopped.choices[0].tokens.size(), 3u);

    spec.sampling.min_tokens = 30;
    RequestResult delayed = run_alone(spec);
    const auto& tokens = delayed.choices[0].tokens;
    ASSERT_GT(tokens.size(), 30u);
    for (std::size_t i = 0; i < 30; ++i) {
        EXPECT_NE(tokens[i], free_run[2]);
        EXPECT_NE(tokens[i], 0);
    }
}

TEST(Engine, TheModelLengthEndsASequence) {
    EngineHarness::Options options;
    options.model_len_max = 64;
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(5, 60), 100));
    harness.post(greedy(2, random_prompt(5, 63), 100));
    harness.post(greedy(3, random_prompt(5, 64), 100));
    harness.run_all();
    EXPECT_EQ(harness.choice(1).tokens.size(), 4u);
    EXPECT_EQ(harness.choice(1).finish, FinishReason::kLength);
    EXPECT_EQ(harness.choice(2).tokens.size(), 1u);
    ASSERT_TRUE(harness.result(3).rejected);
    EXPECT_EQ(harness.result(3).rejected->reason, link::RejectReason::kTooLong);
    EXPECT_NE(harness.result(3).rejected->message.find("64"), std::string::npos);
}

TEST(Engine, AWarmPromptReusesAllButItsLastTokenWithTheSameBits) {
    EngineHarness harness;
    for (std::size_t length : {1u, 15u, 16u, 17u, 48u, 100u}) {
        std::vector<TokenId> prompt = random_prompt(100 + length, length);
        std::uint64_t id = length * 10;
        harness.post(greedy(id, prompt, 20));
        harness.run_all();
        harness.post(greedy(id + 1, prompt, 20));
        harness.run_all();
        EXPECT_EQ(harness.result(id + 1).started->cached_tokens, length - 1);
        EXPECT_EQ(harness.choice(id).tokens, harness.choice(id + 1).tokens);
        EXPECT_EQ(harness.choice(id).hashes, harness.choice(id + 1).hashes);
    }
}

TEST(Engine, AHitThatEndsInsideABlockCopiesIt) {
    EngineHarness harness;
    std::vector<TokenId> prompt = random_prompt(7, 64);
    harness.post(greedy(1, prompt, 1));
    harness.run_all();
    prompt[53] = prompt[53] == 1 ? 2 : 1;
    harness.post(greedy(2, prompt, 8));
    harness.run_all();
    EXPECT_EQ(harness.result(2).started->cached_tokens, 53u);
    EXPECT_EQ(harness.executor.copies(), 1u);
    EXPECT_EQ(harness.choice(2).hashes, run_alone(greedy(2, prompt, 8)).choices[0].hashes);
}

TEST(Engine, TheNextTurnOfAChatComputesOnlyWhatIsNew) {
    EngineHarness harness;
    std::vector<TokenId> context = random_prompt(77, 100);
    for (std::uint64_t turn = 1; turn <= 6; ++turn) {
        std::uint64_t before = harness.executor.computed_tokens();
        std::size_t known = turn == 1 ? 0 : context.size() - 1;  // the last one was only drawn
        for (TokenId token : random_prompt(turn, 13)) context.push_back(token);
        harness.post(greedy(turn, context, 9));
        harness.run_all();
        EXPECT_EQ(harness.result(turn).started->cached_tokens, known);
        EXPECT_EQ(harness.executor.computed_tokens() - before, context.size() - known + 8);
        for (TokenId token : harness.choice(turn).tokens) context.push_back(token);
    }
}

TEST(Engine, ChunkSizesNeverChangeTheBits) {
    link::Generate spec = greedy(1, random_prompt(8, 333), 12);
    RequestResult expected = run_alone(spec);
    for (std::uint32_t chunk : {1u, 7u, 16u, 64u, 512u}) {
        EngineHarness::Options options;
        options.prefill_chunk_tokens = chunk;
        EngineHarness harness(options);
        harness.post(spec);
        harness.run_all();
        EXPECT_EQ(harness.choice(1).hashes, expected.choices[0].hashes) << chunk;
        EXPECT_LE(harness.executor.largest_step(), chunk);
    }
}

TEST(Engine, TwinsComputeASharedPrefixOnce) {
    EngineHarness harness;
    std::vector<TokenId> shared = random_prompt(9, 320);
    for (std::uint64_t id = 1; id <= 8; ++id) {
        std::vector<TokenId> prompt = shared;
        for (TokenId token : random_prompt(1000 + id, 10)) prompt.push_back(token);
        harness.post(greedy(id, prompt, 1));
    }
    harness.run_all();
    EXPECT_LE(harness.executor.computed_tokens(), 320u + 8 * 10);
    std::uint64_t cached = 0;
    for (std::uint64_t id = 1; id <= 8; ++id) cached += harness.result(id).started->cached_tokens;
    EXPECT_GE(cached, 7u * 320);  // a little more where random tails agree
}

TEST(Engine, ATwinThatArrivesDuringThePrefillJoinsIt) {
    EngineHarness harness;
    std::vector<TokenId> prompt = random_prompt(10, 640);
    harness.post(greedy(1, prompt, 1));
    harness.pump();
    harness.pump();
    std::vector<TokenId> twin = prompt;
    twin.push_back(5);
    harness.post(greedy(2, twin, 1));
    harness.run_all();
    EXPECT_EQ(harness.result(2).started->cached_tokens, 640u);
    EXPECT_EQ(harness.executor.computed_tokens(), 641u);
}

TEST(Engine, WhenTheFirstTwinIsCancelledTheOtherGoesOn) {
    EngineHarness harness;
    std::vector<TokenId> prompt = random_prompt(11, 640);
    harness.post(greedy(1, prompt, 5));
    harness.post(greedy(2, prompt, 5));
    harness.pump();
    harness.pump();
    harness.cancel(1);
    harness.run_all();
    EXPECT_EQ(harness.choice(2).hashes, run_alone(greedy(2, prompt, 5)).choices[0].hashes);
    EXPECT_EQ(harness.executor.computed_tokens(), 640u + 4);
}

TEST(Engine, ALongPromptDoesNotFreezeRunningStreams) {
    EngineHarness::Options options;
    options.prefill_chunk_tokens = 512;
    options.step_ms_target = 10;  // the scripted model takes 1 ms and 0.1 ms per token
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(12, 10), 200));
    for (int i = 0; i < 20; ++i) harness.pump();
    harness.post(greedy(2, random_prompt(13, 900), 1));
    std::size_t before = harness.choice(1).tokens.size();
    int rounds = 0;
    TimePoint start = harness.clock.now();
    while (!harness.result(2).started && rounds < 1000) {
        harness.pump();
        ++rounds;
    }
    EXPECT_EQ(harness.choice(1).tokens.size(), before + static_cast<std::size_t>(rounds));
    double step_ms = to_ms(harness.clock.now() - start) / rounds;
    EXPECT_LE(step_ms, 11.0);
    EXPECT_GE(step_ms, 6.0);  // and the budget is used
    harness.run_all();
}

TEST(Engine, WithNothingDecodingAStepTakesTheLargestChunk) {
    EngineHarness::Options options;
    options.prefill_chunk_tokens = 512;
    options.step_ms_target = 1;
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(13, 1000), 1));
    harness.run_all();
    EXPECT_EQ(harness.executor.steps(), 2u);
}

TEST(Engine, PreemptionChangesNoBitAndEndsByItself) {
    EngineHarness::Options options;
    options.blocks = 14;
    options.model_len_max = 200;
    EngineHarness harness(options);
    for (std::uint64_t id = 1; id <= 4; ++id)
        harness.post(greedy(id, random_prompt(20 + id, 30), 100));
    harness.run_all();
    EXPECT_GT(harness.engine.scheduler().counters().preemptions, 0u);
    for (std::uint64_t id = 1; id <= 4; ++id) {
        RequestResult alone = run_alone(greedy(id, random_prompt(20 + id, 30), 100), 200);
        EXPECT_EQ(harness.choice(id).hashes, alone.choices[0].hashes) << id;
    }
}

// A pool that holds one of them, and RAM for all.
TEST(Engine, ARequestWhoseBlocksWentToRamGetsTheSameBitsAsCold) {
    EngineHarness::Options options;
    options.blocks = 14;
    options.model_len_max = 200;
    options.ram_blocks = 100;
    EngineHarness harness(options);
    for (std::uint64_t id = 1; id <= 4; ++id) {
        harness.post(greedy(id, random_prompt(20 + id, 170), 10));
        harness.run_all();
    }
    std::uint64_t computed = harness.executor.computed_tokens();
    for (std::uint64_t id = 1; id <= 4; ++id) {
        harness.post(greedy(10 + id, random_prompt(20 + id, 170), 10));
        harness.run_all();
        EXPECT_EQ(harness.result(10 + id).started->cached_tokens, 160u);
        RequestResult alone = run_alone(greedy(id, random_prompt(20 + id, 170), 10), 200);
        EXPECT_EQ(harness.choice(10 + id).hashes, alone.choices[0].hashes) << id;
        EXPECT_EQ(harness.choice(10 + id).tokens, alone.choices[0].tokens) << id;
    }
    EXPECT_EQ(harness.executor.computed_tokens() - computed, 4u * (10 + 9));
    link::Load load = harness.engine.load();
    EXPECT_EQ(load.ram_restored_blocks_total, 4u * 10);
    EXPECT_EQ(load.ram_blocks_total, 100u);
    EXPECT_GT(load.ram_blocks_used, 20u);
}

// What a preempted sequence had computed is not computed again: all full blocks come back.
TEST(Engine, APreemptedSequenceComesBackFromRam) {
    auto run = [](std::uint32_t ram_blocks) {
        EngineHarness::Options options;
        options.blocks = 14;
        options.model_len_max = 200;
        options.ram_blocks = ram_blocks;
        EngineHarness harness(options);
        for (std::uint64_t id = 1; id <= 4; ++id)
            harness.post(greedy(id, random_prompt(20 + id, 30), 100));
        harness.run_all();
        const std::uint64_t preemptions = harness.engine.scheduler().counters().preemptions;
        EXPECT_GT(preemptions, 0u);
        for (std::uint64_t id = 1; id <= 4; ++id) {
            RequestResult alone = run_alone(greedy(id, random_prompt(20 + id, 30), 100), 200);
            EXPECT_EQ(harness.choice(id).hashes, alone.choices[0].hashes) << id;
        }
        const std::uint64_t needed = 4 * (30 + 99);
        return std::pair(harness.executor.computed_tokens() - needed, preemptions);
    };
    auto [again_with, preempted_with] = run(100);
    auto [again_without, preempted_without] = run(0);
    EXPECT_LT(again_with, again_without);
    EXPECT_LT(again_with, preempted_with * kBlockTokens);  // partial last blocks alone
}

// A long context comes up beside running streams in parts that fit the step, nothing of it is
// computed again, and the time does not count as a cost of computing.
TEST(Engine, RestoringALongContextKeepsTheStepsTime) {
    EngineHarness::Options options;
    options.blocks = 80;
    options.ram_blocks = 200;
    options.step_ms_target = 20;
    EngineHarness harness(options);
    harness.executor.set_restore_ms(1);
    std::vector<TokenId> context = random_prompt(1, 960);  // 60 blocks
    harness.post(greedy(1, context, 1));
    harness.run_all();
    harness.post(greedy(2, random_prompt(2, 1'000), 1));
    harness.run_all();
    harness.post(greedy(3, random_prompt(3, 16), 60));  // a stream
    while (harness.choice(3).tokens.size() < 3) harness.pump();
    std::uint64_t restored = harness.executor.restored();
    std::uint64_t computed = harness.executor.computed_tokens();
    context.push_back(5);
    harness.post(greedy(4, context, 1));
    std::size_t parts = 0;
    while (!harness.result(4).started) {
        std::uint64_t before = harness.executor.restored();
        TimePoint began = harness.clock.now();
        std::size_t streamed = harness.choice(3).tokens.size();
        harness.pump();
        EXPECT_EQ(harness.choice(3).tokens.size(), streamed + 1) << "the stream stood still";
        EXPECT_LE(to_ms(harness.clock.now() - began), 24);
        parts += harness.executor.restored() > before;
        ASSERT_LT(parts, 100u);
    }
    EXPECT_GE(parts, 3u);
    EXPECT_EQ(harness.result(4).started->cached_tokens, 960u);
    EXPECT_GE(harness.executor.restored() - restored, 40u);  // the rest was on the device still
    EXPECT_LT(harness.executor.computed_tokens() - computed, 60u);
    harness.run_all();
    EXPECT_LT(harness.engine.load().step_decode_stream_ms, 1);
    RequestResult alone = run_alone(greedy(4, context, 1));
    EXPECT_EQ(harness.choice(4).hashes, alone.choices[0].hashes);
    EXPECT_NEAR(harness.engine.load().ram_restore_ms_per_block, 1, 0.5);
}

TEST(Engine, TheOldestIsNotPreemptedForTheYoungest) {
    EngineHarness::Options options;
    options.blocks = 8;
    options.model_len_max = 128;
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(31, 30), 90));
    harness.pump();
    harness.post(greedy(2, random_prompt(32, 30), 90));
    while (harness.choice(1).finish == FinishReason::kNone) harness.pump();
    EXPECT_EQ(harness.choice(2).finish, FinishReason::kNone);
    harness.run_all();
    EXPECT_EQ(harness.choice(2).tokens.size(), 90u);
}

TEST(Engine, AFullQueueAnswersAtOnceWithARetryTime) {
    EngineHarness::Options options;
    options.seqs_max = 1;
    options.queue_requests_max = 2;
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(41, 100), 50));
    harness.pump();
    for (std::uint64_t id = 2; id <= 4; ++id)
        harness.post(greedy(id, random_prompt(40 + id, 100), 5));
    harness.pump();
    EXPECT_FALSE(harness.result(3).rejected);
    ASSERT_TRUE(harness.result(4).rejected);
    EXPECT_EQ(harness.result(4).rejected->reason, link::RejectReason::kQueueFull);
    EXPECT_GT(harness.result(4).rejected->retry_after_ms, 0);
    harness.run_all();
    EXPECT_EQ(harness.choice(3).tokens.size(), 5u);
}

TEST(Engine, TheQueueIsBoundedInUncachedTokens) {
    EngineHarness::Options options;
    options.seqs_max = 1;
    options.queue_tokens_max = 150;
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(41, 100), 50));
    harness.pump();
    harness.post(greedy(2, random_prompt(42, 100), 5));
    harness.post(greedy(3, random_prompt(43, 100), 5));  // 200 uncached would wait
    harness.post(greedy(4, random_prompt(41, 97), 5));   // mostly cached: still fits
    harness.pump();
    EXPECT_FALSE(harness.result(2).rejected);
    EXPECT_TRUE(harness.result(3).rejected);
    EXPECT_FALSE(harness.result(4).rejected);
    harness.run_all();
}

TEST(Engine, InvalidRequestsAreRefusedByField) {
    EngineHarness harness;
    auto rejected = [&harness](link::Generate spec) {
        std::uint64_t id = spec.request.value;
        harness.post(std::move(spec));
        harness.pump();
        return harness.result(id).rejected ? harness.result(id).rejected->message : "";
    };
    EXPECT_NE(rejected(greedy(1, {}, 5)), "");
    EXPECT_NE(rejected(greedy(2, {1, 60}, 5)).find("prompt token 1 is 60"), std::string::npos);
    EXPECT_NE(rejected(greedy(3, {-1}, 5)), "");
    EXPECT_NE(rejected(greedy(4, {1}, 0)), "");
    link::Generate spec = greedy(5, {1}, 5);
    spec.sampling.temperature = std::nanf("");
    EXPECT_NE(rejected(spec).find("temperature"), std::string::npos);
    spec = greedy(6, {1}, 5);
    spec.choices = 0;
    EXPECT_NE(rejected(spec), "");
    spec = greedy(7, {1}, 5);
    spec.sampling.repetition_penalty = 0;
    EXPECT_NE(rejected(spec).find("repetition_penalty"), std::string::npos);
    harness.post(greedy(8, {1}, 50));
    harness.pump();
    EXPECT_NE(rejected(greedy(8, {1}, 50)).find("in use"), std::string::npos);
    harness.run_all();
}

TEST(Engine, CancelFreesEverythingWhereverTheRequestIs) {
    EngineHarness::Options options;
    options.seqs_max = 2;
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(51, 20), 900));   // decodes
    harness.post(greedy(2, random_prompt(52, 900), 100));  // in prefill
    harness.post(greedy(3, random_prompt(53, 200), 100));  // queued
    for (int i = 0; i < 3; ++i) harness.pump();
    EXPECT_EQ(harness.engine.scheduler().running(), 2u);
    EXPECT_EQ(harness.engine.scheduler().waiting(), 1u);
    for (std::uint64_t id : {3u, 2u, 1u}) harness.cancel(id);
    harness.cancel(77);  // unknown: ignored
    EXPECT_FALSE(harness.pump());
    EXPECT_EQ(harness.engine.load().blocks_active, 0u);
    EXPECT_EQ(harness.engine.load().backlog_tokens, 0u);
    EXPECT_EQ(harness.sink.loads.back().running, 0u);
    EXPECT_EQ(harness.choice(3).tokens.size(), 0u);
}

TEST(Engine, AClientThatLeavesTakesOnlyItsOwnRequests) {
    EngineHarness harness;
    harness.post(greedy(1, random_prompt(61, 20), 30), 1);
    harness.post(greedy(1, random_prompt(62, 20), 30), 2);  // the same id on another link
    harness.pump();
    ASSERT_TRUE(harness.engine.post({ClientId{1}, ClientGone{}}));
    harness.run_all();
    EXPECT_EQ(harness.result(1, 1).choices[0].finish, FinishReason::kNone);
    EXPECT_EQ(harness.result(1, 2).choices[0].tokens.size(), 30u);
}

TEST(Engine, ChoicesShareThePromptAndDrawTheirOwnStreams) {
    EngineHarness harness;
    link::Generate spec = greedy(1, random_prompt(71, 200), 10);
    spec.choices = 4;
    spec.sampling.temperature = 1;
    spec.sampling.seed = 9;
    harness.post(spec);
    harness.run_all();
    EXPECT_EQ(harness.executor.computed_tokens(), 200u + 4 * 9);
    EXPECT_EQ(harness.executor.copies(), 3u);  // the last block of 200 tokens is partial
    std::set<std::vector<TokenId>> different;
    for (std::uint16_t i = 0; i < 4; ++i) {
        EXPECT_EQ(harness.choice(1, i).tokens.size(), 10u);
        different.insert(harness.choice(1, i).tokens);
    }
    EXPECT_EQ(different.size(), 4u);
}

TEST(Engine, ChoicesBeyondTheSeatsWaitForOne) {
    EngineHarness::Options options;
    options.seqs_max = 1;
    EngineHarness harness(options);
    link::Generate spec = greedy(1, random_prompt(72, 50), 10);
    spec.choices = 3;
    spec.sampling.temperature = 1;
    harness.post(spec);
    harness.run_all();
    RequestResult alone = run_alone(spec);
    for (std::uint16_t i = 0; i < 3; ++i)
        EXPECT_EQ(harness.choice(1, i).hashes, alone.choices[i].hashes) << i;
}

TEST(Engine, CancellingAChoiceLeavesTheOthersUnchanged) {
    for (int rounds_before : {0, 1, 3, 6}) {
        for (std::uint16_t cancelled = 0; cancelled < 3; ++cancelled) {
            EngineHarness harness;
            link::Generate spec = greedy(1, random_prompt(73, 150), 10);
            spec.choices = 3;
            spec.sampling.temperature = 1;
            RequestResult alone = run_alone(spec);
            harness.post(spec);
            for (int i = 0; i < rounds_before; ++i) harness.pump();
            harness.cancel_choice(1, cancelled);
            harness.cancel_choice(1, cancelled);  // twice does no harm
            harness.run_all();
            for (std::uint16_t i = 0; i < 3; ++i) {
                if (i == cancelled)
                    EXPECT_LT(harness.choice(1, i).tokens.size(), 10u);
                else
                    EXPECT_EQ(harness.choice(1, i).hashes, alone.choices[i].hashes);
            }
        }
    }
}

TEST(Engine, ScoresEveryPromptTokenWhateverIsCached) {
    link::Generate spec = greedy(1, random_prompt(81, 100), 5);
    spec.sampling.prompt_logprobs = 2;
    RequestResult cold = run_alone(spec);
    ASSERT_EQ(cold.prompt_logprobs.size(), 99u);
    ASSERT_EQ(cold.prompt_top.size(), 99u);
    for (const auto& top : cold.prompt_top) EXPECT_EQ(top.size(), 2u);
    EXPECT_EQ(cold.choices[0].tokens.size(), 5u);

    EngineHarness harness;
    harness.post(greedy(9, random_prompt(81, 100), 5));
    harness.run_all();
    harness.post(spec);
    harness.run_all();
    EXPECT_EQ(harness.result(1).prompt_logprobs, cold.prompt_logprobs);
    EXPECT_EQ(harness.result(1).started->cached_tokens, 0u);
    EXPECT_EQ(harness.choice(1).hashes, harness.choice(9).hashes);
}

TEST(Engine, MaxTokensZeroOnlyScores) {
    link::Generate spec = greedy(1, random_prompt(82, 40), 0);
    spec.sampling.prompt_logprobs = 0;
    spec.choices = 2;
    RequestResult result = run_alone(spec);
    EXPECT_EQ(result.prompt_logprobs.size(), 39u);
    EXPECT_TRUE(result.prompt_top.empty());
    EXPECT_TRUE(result.started);
    for (std::uint16_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(result.choices[i].tokens.empty());
        EXPECT_EQ(result.choices[i].finish, FinishReason::kLength);
    }
    spec.prompt = {5};
    EXPECT_EQ(run_alone(spec).prompt_logprobs.size(), 0u);
}

TEST(Engine, ABrokenModelEndsTheSequenceWithAnError) {
    EngineHarness harness;
    harness.post(greedy(1, random_prompt(91, 20), 10));
    harness.pump();
    harness.executor.break_model();
    harness.run_all();
    EXPECT_EQ(harness.choice(1).finish, FinishReason::kError);
    EXPECT_EQ(harness.choice(1).tokens.size(), 1u);
}

TEST(Engine, PriorityGoesFirstAndAgingBringsTheRest) {
    EngineHarness::Options options;
    options.seqs_max = 1;
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(95, 20), 5));
    harness.pump();
    link::Generate low = greedy(2, random_prompt(96, 20), 5);
    low.priority = 5;
    harness.post(low);
    harness.post(greedy(3, random_prompt(97, 200), 5));
    while (harness.choice(3).finish == FinishReason::kNone) harness.pump();
    EXPECT_FALSE(harness.result(2).started);
    harness.run_all();
    EXPECT_TRUE(harness.result(2).started);
}

TEST(Engine, LessUncachedWorkGoesFirstUntilTheOtherHasWaited) {
    EngineHarness::Options options;
    options.seqs_max = 1;
    options.aging_ms = 100;
    EngineHarness harness(options);
    harness.post(greedy(1, random_prompt(101, 64), 3));
    harness.run_all();
    harness.post(greedy(2, random_prompt(102, 20), 5));
    harness.pump();
    harness.post(greedy(3, random_prompt(103, 60), 3));  // long and cold
    std::uint64_t next = 10;
    int overtakes = 0;
    for (int round = 0; round < 2000 && !harness.result(3).started; ++round) {
        // A new cached request is always waiting.
        if (harness.engine.scheduler().waiting() < 2) {
            harness.post(greedy(next++, random_prompt(101, 64), 3));
            ++overtakes;
        }
        harness.pump();
    }
    EXPECT_TRUE(harness.result(3).started);
    EXPECT_GT(overtakes, 3);
    EXPECT_LT(harness.result(3).started->queue_ms, 200);
    harness.run_all();
}

TEST(Engine, SnapshotsContinueTheEventStream) {
    EngineHarness harness;
    harness.post(greedy(1, random_prompt(111, 100), 40));
    for (int i = 0; i < 20; ++i) harness.pump();
    ASSERT_TRUE(harness.engine.post({ClientId{1}, link::FetchSnapshot{7}}));
    harness.pump();
    ASSERT_EQ(harness.sink.snapshots.size(), 1u);
    const link::KvSnapshot& snapshot = harness.sink.snapshots[0];
    EXPECT_EQ(snapshot.epoch, 7u);
    EXPECT_LE(snapshot.next_seq, harness.sink.next_seq);
    EXPECT_EQ(snapshot.stored.size(), snapshot.next_seq - 1);  // nothing was evicted yet
    harness.run_all();
}

TEST(Engine, LoadTellsWhenIdleTurnsToBusyAndBack) {
    EngineHarness harness;
    harness.pump();
    std::size_t before = harness.sink.loads.size();
    harness.post(greedy(1, random_prompt(121, 100), 4));
    harness.pump();
    ASSERT_GT(harness.sink.loads.size(), before);
    EXPECT_EQ(harness.sink.loads.back().running, 1u);
    EXPECT_GT(harness.sink.loads.back().blocks_active, 0u);
    harness.run_all();
    link::Load last = harness.sink.loads.back();
    EXPECT_EQ(last.running + last.waiting + last.preempted, 0u);
    EXPECT_EQ(last.blocks_active, 0u);
    EXPECT_GT(last.blocks_cached, 0u);
    EXPECT_EQ(last.prompt_tokens_total, 100u);
    EXPECT_EQ(last.prefill_tokens_total, 100u);
    EXPECT_EQ(last.generation_tokens_total, 4u);
    EXPECT_GT(last.prefill_ms_per_token, 0);
}

TEST(Engine, AllStreamsOfAStepShareOneFrame) {
    EngineHarness harness;
    for (std::uint64_t id = 1; id <= 8; ++id)
        harness.post(greedy(id, random_prompt(130 + id, 4), 20));
    harness.run_all();
    EXPECT_LE(harness.sink.frames, harness.executor.steps());
}

TEST(Engine, PrintsOneStatisticsLineWhileThereIsWork) {
    EngineHarness::Options options;
    options.stats_interval_ms = 100;
    EngineHarness harness(options);
    ::testing::internal::CaptureStderr();
    init_log(LogLevel::kInfo, "test");
    harness.post(greedy(1, random_prompt(141, 300), 100));
    harness.run_all();
    harness.clock.advance(std::chrono::seconds(1));
    harness.pump();  // the tail of the work
    harness.clock.advance(std::chrono::seconds(1));
    harness.pump();  // nothing ran: no line
    std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(text.find("w0: Avg prompt throughput: "), std::string::npos) << text;
    EXPECT_NE(text.find("Running: 1 reqs, Swapped: 0 reqs, Waiting: 0 reqs, KV usage: device "),
              std::string::npos);
    EXPECT_NE(text.find("Prefix cache hit rate: 0.0%"), std::string::npos);
}

// The real thread: requests from two client threads, a stop in the middle of work.
TEST(Engine, StopsCleanlyUnderLoad) {
    RealClock clock;
    ScriptedExecutor executor(256, EngineHarness::kTokens);
    RecordingSink sink;
    EngineOptions options = EngineHarness::engine_options({});
    Engine engine(std::move(options), executor, clock, sink);
    engine.start();
    auto client = [&engine](std::uint64_t id) {
        for (std::uint64_t i = 0; i < 50; ++i) {
            link::Generate spec = greedy(i, random_prompt(id * 1000 + i, 50), 100'000);
            while (!engine.post({ClientId{id}, spec})) std::this_thread::yield();
            if (i % 3 == 0)
                while (!engine.post({ClientId{id}, link::Cancel{RequestId{i}}}))
                    std::this_thread::yield();
        }
    };
    std::thread one(client, 1), two(client, 2);
    one.join();
    two.join();
    while (engine.progress() < 20) std::this_thread::yield();
    engine.stop();
    EXPECT_FALSE(engine.post({ClientId{1}, greedy(999, {1}, 1)}));
    EXPECT_EQ(engine.cache().active_blocks(), 0u);
    EXPECT_TRUE(executor.errors().empty());
    for (auto& [key, result] : sink.results) {
        bool aborted =
            result.choices.count(0) > 0 && result.choices[0].finish == FinishReason::kAbort;
        bool refused =
            result.rejected && result.rejected->reason == link::RejectReason::kShuttingDown;
        bool cancelled = key.second % 3 == 0;
        bool finished =
            result.choices.count(0) > 0 && result.choices[0].finish == FinishReason::kLength;
        EXPECT_TRUE(aborted || refused || cancelled || finished) << key.second;
    }
}

// The costs are those of a small model on two cores; the prior knows nothing of attention.
TEST(Engine, StepsKeepTheirTimeWhileALongPromptArrives) {
    EngineHarness::Options options;
    options.blocks = 800;
    options.model_len_max = 8'192;
    options.prefill_chunk_tokens = 512;
    options.step_ms_target = 50;
    options.cost_prior = {4, 0.5, 5e-5, 0.5, 5e-5};
    EngineHarness harness(options);
    harness.executor.set_cost({4, 0.5, 4e-4, 0.45, 3e-4});
    for (std::uint64_t id = 1; id <= 8; ++id) harness.post(greedy(id, random_prompt(id, 64), 900));
    for (int i = 0; i < 20; ++i) harness.pump();
    harness.post(greedy(9, random_prompt(9, 6'000), 1));
    double largest_ms = 0;
    double sum_ms = 0;
    int steps = 0;
    while (harness.result(9).choices.empty()) {
        TimePoint before = harness.clock.now();
        ASSERT_TRUE(harness.pump());
        largest_ms = std::max(largest_ms, to_ms(harness.clock.now() - before));
        sum_ms += to_ms(harness.clock.now() - before);
        ++steps;
    }
    EXPECT_LE(largest_ms, 2 * 50 + 10);
    EXPECT_NEAR(sum_ms / steps, 50, 5);
    EXPECT_GT(harness.engine.scheduler().cost().prefill_pair_ms, 1e-4);
    EXPECT_LT(harness.engine.scheduler().cost_error(), 0.05);
    EXPECT_GT(harness.engine.load().step_prefill_pair_ms, 1e-4);
}

TEST(Engine, ARequestWhosePrefixIsCachedDoesNotWaitForALongPrompt) {
    EngineHarness::Options options;
    options.blocks = 800;
    options.model_len_max = 8'192;
    options.prefill_chunk_tokens = 128;
    EngineHarness harness(options);
    std::vector<TokenId> prefix = random_prompt(1, 320);
    harness.post(greedy(1, prefix, 1));
    harness.run_all();

    harness.post(greedy(2, random_prompt(2, 6'000), 1));
    for (int i = 0; i < 5; ++i) harness.pump();
    prefix.push_back(7);
    harness.post(greedy(3, prefix, 3));
    for (int i = 0; i < 2; ++i) harness.pump();
    EXPECT_FALSE(harness.choice(3).tokens.empty());

    // However many of them come, the long prompt moves at least in every second step.
    int steps = 0;
    std::uint64_t id = 4;
    for (; harness.choice(2).tokens.empty(); ++steps) {
        prefix.back() = static_cast<TokenId>(1 + id % 50);
        harness.post(greedy(id, prefix, 2));
        ++id;
        harness.pump();
        ASSERT_LT(steps, 3 * 6'000 / 16);
    }
    harness.run_all();
    for (std::uint64_t quick = 4; quick < id; ++quick)
        EXPECT_EQ(harness.choice(quick).tokens.size(), 2u);
}

}  // namespace
}  // namespace taproot::testing
