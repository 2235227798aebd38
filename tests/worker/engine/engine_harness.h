// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "link/messages.h"
#include "tests/support/scripted_executor.h"
#include "worker/engine/engine.h"

namespace taproot::testing {

// What one choice of one request has received.
struct ChoiceResult {
    std::vector<TokenId> tokens;
    std::vector<std::uint64_t> hashes;
    std::vector<float> logprobs;
    link::FinishReason finish = link::FinishReason::kNone;
    std::optional<TokenId> stop_token;
};

struct RequestResult {
    std::map<std::uint16_t, ChoiceResult> choices;
    std::optional<link::RequestStarted> started;
    std::optional<link::Rejected> rejected;
    std::vector<float> prompt_logprobs;  // of tokens 1, 2, ...
    std::vector<std::vector<link::TokenLogprob>> prompt_top;
};

// Collects everything an engine says and checks what must always hold.
class RecordingSink final : public EngineSink {
public:
    void on_step(ClientId client, link::StepOutput&& output) override {
        for (const link::RequestStarted& started : output.started) {
            RequestResult& result = results[{client.value, started.request.value}];
            EXPECT_FALSE(result.started) << "started twice";
            result.started = started;
        }
        for (link::PromptLogprobs& scores : output.prompt_logprobs) {
            RequestResult& result = results[{client.value, scores.request.value}];
            EXPECT_EQ(scores.first, result.prompt_logprobs.size() + 1) << "scores have a gap";
            for (float score : scores.logprobs) result.prompt_logprobs.push_back(score);
            for (auto& top : scores.top) result.prompt_top.push_back(std::move(top));
        }
        for (const link::TokenOutput& token : output.tokens) {
            RequestResult& result = results[{client.value, token.request.value}];
            EXPECT_TRUE(result.started) << "a token before its start";
            ChoiceResult& choice = result.choices[token.choice];
            EXPECT_EQ(choice.finish, link::FinishReason::kNone) << "a token after the end";
            choice.finish = token.finish;
            choice.stop_token = token.stop_token;
            if (!token.has_token) continue;
            choice.tokens.push_back(token.token);
            if (token.logits_hash) choice.hashes.push_back(*token.logits_hash);
            if (token.logprob) choice.logprobs.push_back(*token.logprob);
        }
        ++frames;
    }
    void on_rejected(ClientId client, link::Rejected&& rejected) override {
        results[{client.value, rejected.request.value}].rejected = std::move(rejected);
    }
    void on_snapshot(ClientId, link::KvSnapshot&& snapshot) override {
        snapshots.push_back(std::move(snapshot));
    }
    void on_events(link::KvEventBatch&& batch) override {
        EXPECT_EQ(batch.first_seq, next_seq) << "a gap in the events";
        next_seq = batch.first_seq + batch.events.size();
        for (KvEvent& event : batch.events) events.push_back(event);
    }
    void on_load(const link::Load& load) override { loads.push_back(load); }

    std::map<std::pair<std::uint64_t, std::uint64_t>, RequestResult> results;
    std::vector<link::KvSnapshot> snapshots;
    std::vector<KvEvent> events;
    std::vector<link::Load> loads;
    std::uint64_t next_seq = 1;
    std::uint64_t frames = 0;
};

// An engine over the scripted model, moved by hand. Token 0 is the end token.
class EngineHarness {
public:
    static constexpr int kTokens = 60;

    struct Options {
        std::uint32_t blocks = 256;
        std::uint32_t model_len_max = 1'024;
        std::uint32_t prefill_chunk_tokens = 64;
        std::uint32_t seqs_max = 16;
        std::uint32_t queue_requests_max = 1'000;
        std::uint64_t queue_tokens_max = 1'000'000;
        double step_ms_target = 50;
        double aging_ms = 2'000;
        std::uint64_t stats_interval_ms = 10'000;
        StepCost cost_prior{1.0, 0.1, 0.0, 0.1, 0.0};
        std::uint32_t ram_blocks = 0;  // of the RAM tier; 0 = none
    };

    explicit EngineHarness(Options options)
        : executor(options.blocks, kTokens, &clock),
          ram(make_ram(options, executor)),
          tier(ram.get()),
          engine(engine_options(options, std::move(ram)), executor, clock, sink) {}
    EngineHarness() : EngineHarness(Options{}) {}

    static std::unique_ptr<RamTier> make_ram(const Options& options, const BlockIo& pages) {
        if (options.ram_blocks == 0) return nullptr;
        RamTierOptions ram{.block_bytes = pages.block_bytes()};
        while (RamTier::slots_for(ram) < options.ram_blocks) ram.bytes_max += 16;
        return *RamTier::create(ram);
    }

    static EngineOptions engine_options(const Options& options,
                                        std::unique_ptr<RamTier> ram = nullptr) {
        EngineOptions out;
        out.ram = std::move(ram);
        out.name = "w0";
        out.blocks = options.blocks;
        out.end_tokens = {0};
        out.epoch = 7;
        out.stats_interval_ms = options.stats_interval_ms;
        out.scheduler.seqs_max = options.seqs_max;
        out.scheduler.queue_requests_max = options.queue_requests_max;
        out.scheduler.queue_tokens_max = options.queue_tokens_max;
        out.scheduler.step_ms_target = options.step_ms_target;
        out.scheduler.prefill_chunk_tokens = options.prefill_chunk_tokens;
        out.scheduler.score_chunk_tokens = 24;
        out.scheduler.aging_ms = options.aging_ms;
        out.scheduler.model_len_max = options.model_len_max;
        out.scheduler.tokens = kTokens;
        out.scheduler.cost_prior = options.cost_prior;
        return out;
    }

    void post(link::Generate spec, std::uint64_t client = 1) {
        ASSERT_TRUE(engine.post({ClientId{client}, std::move(spec)}));
    }
    void cancel(std::uint64_t request, std::uint64_t client = 1) {
        ASSERT_TRUE(engine.post({ClientId{client}, link::Cancel{RequestId{request}}}));
    }
    void cancel_choice(std::uint64_t request, std::uint16_t choice, std::uint64_t client = 1) {
        ASSERT_TRUE(
            engine.post({ClientId{client}, link::CancelChoice{RequestId{request}, choice}}));
    }

    // One round, with every invariant checked after it.
    bool pump() {
        bool more = engine.pump();
        std::vector<std::string> wrong = engine.scheduler().check_integrity();
        EXPECT_TRUE(wrong.empty()) << wrong.front();
        EXPECT_TRUE(executor.errors().empty()) << executor.errors().front();
        return more;
    }
    void run_all(int rounds_max = 100'000) {
        while (pump()) ASSERT_GT(--rounds_max, 0) << "the engine does not come to an end";
        EXPECT_EQ(engine.cache().active_blocks(), 0u) << "blocks leak";
        EXPECT_EQ(engine.cache().available_blocks(), engine.load().blocks_total);
        EXPECT_EQ(engine.scheduler().requests(), 0u);
    }

    RequestResult& result(std::uint64_t request, std::uint64_t client = 1) {
        return sink.results[{client, request}];
    }
    ChoiceResult& choice(std::uint64_t request, std::uint16_t index = 0) {
        return result(request).choices[index];
    }

    ManualClock clock;
    ScriptedExecutor executor;
    RecordingSink sink;
    std::unique_ptr<RamTier> ram;  // on its way into the engine
    RamTier* tier;                 // the engine's
    Engine engine;
};

inline std::vector<TokenId> random_prompt(std::uint64_t seed, std::size_t n) {
    Random random(seed);
    std::vector<TokenId> prompt(n);
    for (TokenId& token : prompt) token = static_cast<TokenId>(random.between(1, 59));
    return prompt;
}

inline link::Generate greedy(std::uint64_t id, std::vector<TokenId> prompt,
                             std::uint32_t max_tokens) {
    link::Generate spec;
    spec.request = RequestId{id};
    spec.prompt = std::move(prompt);
    spec.max_tokens = max_tokens;
    spec.sampling.temperature = 0;
    spec.sampling.ignore_eos = true;
    spec.sampling.logits_hash = true;
    return spec;
}

// The same request, alone, cold, in an engine with room for everything.
inline RequestResult run_alone(link::Generate spec, std::uint32_t model_len_max = 1'024) {
    EngineHarness::Options options;
    options.blocks = 1'024;
    options.model_len_max = model_len_max;
    EngineHarness harness(options);
    std::uint64_t id = spec.request.value;
    harness.post(std::move(spec));
    harness.run_all();
    return harness.result(id);
}

}  // namespace taproot::testing
