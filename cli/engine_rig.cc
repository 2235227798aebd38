// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_rig.h"

#include "base/random.h"

namespace taproot::cli {
namespace {

constexpr ClientId kClient{1};

}  // namespace

std::span<const float> TimedExecutor::run(std::span<const StepSequence> step) {
    began = std::chrono::steady_clock::now();
    std::span<const float> rows = inner_.run(step);
    ended = std::chrono::steady_clock::now();
    return rows;
}

EngineRig::EngineRig(const LoadedModel& model, CpuExecutor& executor, const RigOptions& options)
    : executor_(executor) {
    EngineOptions engine;
    engine.name = "rig";
    engine.blocks = options.blocks;
    engine.end_tokens = end_tokens(model.text);
    engine.scheduler.seqs_max = options.seqs_max;
    engine.scheduler.step_ms_target = options.step_ms_target;
    engine.scheduler.prefill_chunk_tokens = options.prefill_chunk_tokens;
    engine.scheduler.model_len_max =
        std::min(static_cast<std::uint32_t>(executor.max_positions()),
                 options.blocks * static_cast<std::uint32_t>(kBlockTokens));
    engine.scheduler.tokens = static_cast<int>(model.text.tokens.size());
    if (options.ram_bytes > 0) {
        auto ram = RamTier::create(
            {.bytes_max = options.ram_bytes, .block_bytes = executor.block_bytes()});
        TAPROOT_ASSERT(ram);
        engine.ram = std::move(*ram);
    }
    engine_ = std::make_unique<Engine>(std::move(engine), executor_, clock_, *this);
}

std::vector<EngineAnswer> EngineRig::run(std::vector<link::Generate> requests,
                                         const StepCallback& on_step) {
    std::vector<EngineAnswer> answers(requests.size());
    open_.clear();
    unfinished_ = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
        requests[i].request = RequestId{next_request_++};
        answers[i].tokens.resize(requests[i].choices);
        answers[i].logits_hash.resize(requests[i].choices);
        open_[requests[i].request.value] = &answers[i];
        unfinished_ += requests[i].choices;
        bool taken = engine_->post({kClient, std::move(requests[i])});
        TAPROOT_ASSERT(taken);
    }
    while (unfinished_ > 0) {
        RigStep step = pump();
        if (on_step) on_step(step);
    }
    open_.clear();
    return answers;
}

RigStep EngineRig::pump() {
    step_tokens_ = 0;
    TimePoint began = std::chrono::steady_clock::now();
    executor_.began = executor_.ended = began;  // a round may have nothing to compute
    engine_->pump();
    TimePoint ended = std::chrono::steady_clock::now();
    return {.tokens = step_tokens_,
            .seconds = to_seconds(ended - began),
            .schedule_s = to_seconds(executor_.began - began),
            .forward_s = to_seconds(executor_.ended - executor_.began),
            .sample_s = to_seconds(ended - executor_.ended)};
}

void EngineRig::on_step(ClientId, link::StepOutput&& output) {
    for (const link::RequestStarted& started : output.started)
        open_.at(started.request.value)->cached_tokens = started.cached_tokens;
    for (const link::TokenOutput& token : output.tokens) {
        EngineAnswer& answer = *open_.at(token.request.value);
        if (token.has_token) {
            ++step_tokens_;
            answer.tokens[token.choice].push_back(token.token);
            if (token.logits_hash) answer.logits_hash[token.choice].push_back(*token.logits_hash);
        }
        if (token.finish == link::FinishReason::kNone) continue;
        if (token.finish == link::FinishReason::kError)
            answer.error = "the model gave no finite logit";
        --unfinished_;
    }
}

void EngineRig::on_rejected(ClientId, link::Rejected&& rejected) {
    EngineAnswer& answer = *open_.at(rejected.request.value);
    answer.error = rejected.message;
    unfinished_ -= answer.tokens.size();
}

void EngineRig::on_snapshot(ClientId, link::KvSnapshot&&) {}
void EngineRig::on_events(link::KvEventBatch&&) {}
void EngineRig::on_load(const link::Load&) {}

std::vector<TokenId> random_tokens(std::uint64_t seed, std::size_t count, int vocab) {
    Random random(seed);
    std::vector<TokenId> out(count);
    for (TokenId& token : out)
        token = static_cast<TokenId>(random.below(static_cast<std::uint64_t>(vocab)));
    return out;
}

}  // namespace taproot::cli
