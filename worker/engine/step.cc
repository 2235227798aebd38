// SPDX-License-Identifier: Apache-2.0
// Steps 8 to 11 of a request's life (docs/LIFE_OF_A_REQUEST.md): from token ids to the next token
// ids, for everything that runs. Steps 1 to 7 and 12 are in the gateway.
#include <algorithm>

#include "base/assert.h"
#include "base/log.h"
#include "kernels/work_ranges.h"
#include "worker/engine/engine.h"
#include "worker/sample/logprobs.h"

namespace taproot {

void Engine::step() {
    //  8  sched: what runs in this step. It also matches waiting and half-done prompts against the
    //     cache (9), pins what it found, brings blocks up from RAM and gives each sequence the
    //     pages it will write.
    TimePoint began = clock_.now();
    StepPlan& plan = scheduler_.plan();

    //  9  kv: a hit that ended inside a block continues in a copy of it.
    for (const BlockCopy& copy : plan.copies) {
        executor_.copy_block(copy.from, copy.to);
        cache_.release_copy_source(copy);
    }
    if (plan.sequences.empty()) return;

    // 10  kernels: all tokens of the step through the model, over pages.
    std::span<const float> rows = forward(plan);

    //     Positions advance and full blocks enter the tree now, so that the next plan shares them.
    scheduler_.commit(plan);

    // 11  sample: the next token of each sequence whose last known token was computed.
    auto columns = static_cast<std::size_t>(executor_.vocab_size());
    for (const PlannedSequence& part : plan.sequences) {
        std::size_t count = (part.count - part.logits_from) * columns;
        sample_part(part, rows.first(count));
        rows = rows.subspan(count);
    }
    sample_draws();
    scheduler_.took(plan.work, to_ms(clock_.now() - began) - plan.restore_ms);
}

std::span<const float> Engine::forward(const StepPlan& plan) {
    batch_.clear();
    std::size_t row_count = 0;
    for (const PlannedSequence& part : plan.sequences) {
        const Sequence& sequence = *part.sequence;
        batch_.push_back({std::span(sequence.tokens).subspan(part.position, part.count),
                          static_cast<int>(part.position), sequence.table.ids(),
                          static_cast<int>(part.logits_from)});
        row_count += part.count - part.logits_from;
    }
    std::span<const float> rows = executor_.run(batch_);
    TAPROOT_ASSERT(rows.size() == row_count * static_cast<std::size_t>(executor_.vocab_size()));
    return rows;
}

// `rows`: what this part asked for, [count - logits_from][columns].
void Engine::sample_part(const PlannedSequence& part, std::span<const float> rows) {
    Sequence& sequence = *part.sequence;
    Request& request = *sequence.request;
    if (!part.decode && request.scores_prompt()) score_prompt(part, rows);
    if (sequence.remaining() > 0) return;  // its prompt goes on in a later step
    std::span<const float> row = rows.last(static_cast<std::size_t>(executor_.vocab_size()));
    if (!request.started) announce_start(request);
    if (request.forked)
        draw_next(sequence, row);
    else
        draw_choices(sequence, row);
}

// Row of token p gives the log-probability of token p + 1; each is sent once.
void Engine::score_prompt(const PlannedSequence& part, std::span<const float> rows) {
    Request& request = *part.sequence->request;
    auto columns = static_cast<std::size_t>(executor_.vocab_size());
    std::size_t first = std::max(request.scored, part.position + part.logits_from);
    std::size_t end = std::min(part.position + part.count, request.prompt_tokens - 1);
    if (first >= end) return;
    link::PromptLogprobs scores;
    scores.request = request.key.request;
    scores.first = static_cast<std::uint32_t>(first + 1);
    std::uint32_t top = *request.spec.sampling.prompt_logprobs;
    for (std::size_t p = first; p < end; ++p) {
        std::size_t row = p - part.position - part.logits_from;
        RowLogprobs logprobs(
            rows.subspan(row * columns, static_cast<std::size_t>(samplers_.front().tokens())));
        scores.logprobs.push_back(logprobs.of(part.sequence->tokens[p + 1]));
        if (top > 0) scores.top.push_back(logprobs.top(top));
    }
    request.scored = end;
    output_of(request.key.client).prompt_logprobs.push_back(std::move(scores));
}

// The prompt is computed: every choice draws its first token from the same row. The others continue
// on the lead's pages and in their own copy of the last one.
void Engine::draw_choices(Sequence& lead, std::span<const float> row) {
    Request& request = *lead.request;
    request.forked = true;
    std::vector<Sequence*> choices;
    for (std::uint16_t choice = 1; choice < request.spec.choices; ++choice) {
        if (request.choice_ended[choice]) continue;
        std::optional<BlockCopy> copy;
        choices.push_back(&scheduler_.fork(lead, choice, copy));
        if (copy) executor_.copy_block(copy->from, copy->to);
    }
    if (request.choice_ended[0])
        scheduler_.finish(lead);
    else
        choices.insert(choices.begin(), &lead);
    for (Sequence* choice : choices) {
        if (request.spec.max_tokens == 0)
            end_without_token(*choice, link::FinishReason::kLength);
        else
            draw_next(*choice, row);
    }
}

void Engine::draw_next(Sequence& sequence, std::span<const float> row) {
    bool forbid_end = sequence.output_tokens() < sequence.request->spec.sampling.min_tokens;
    draws_.push_back({&sequence, row, forbid_end, std::nullopt});
}

// A draw depends on its row and sequence alone, so the threads share them; taking them is in order.
void Engine::sample_draws() {
    WorkRanges ranges(static_cast<int>(draws_.size()), executor_.threads(), 1);
    auto task = [&](int thread) {
        Sampler& sampler = samplers_[static_cast<std::size_t>(thread)];
        ranges.work(thread, [&](int index) {
            Draw& draw = draws_[static_cast<std::size_t>(index)];
            const Sequence& sequence = *draw.sequence;
            draw.sampled = sampler.sample(
                draw.row, {sequence.request->spec.sampling, sequence.penalties, sequence.choice,
                           sequence.tokens.size(), draw.forbid_end});
        });
    };
    if (draws_.size() > 1)
        executor_.share(task);
    else
        task(0);
    for (Draw& draw : draws_) take(std::move(draw));
    draws_.clear();
}

void Engine::take(Draw&& draw) {
    Sequence& sequence = *draw.sequence;
    const Request& request = *sequence.request;
    std::optional<Sampled>& sampled = draw.sampled;
    if (!sampled) {
        log_error("{}: request {}: the model gave no finite logit at position {}", options_.name,
                  request.key.request.value, sequence.tokens.size());
        end_without_token(sequence, link::FinishReason::kError);
        return;
    }
    scheduler_.append(sequence, sampled->token);
    link::TokenOutput output;
    output.request = request.key.request;
    output.choice = sequence.choice;
    output.token = sampled->token;
    output.logprob = sampled->logprob;
    output.top_logprobs = std::move(sampled->top_logprobs);
    output.logits_hash = sampled->logits_hash;
    output.finish = finish_reason(sequence, draw.forbid_end);
    if (output.finish == link::FinishReason::kStop) output.stop_token = sampled->token;
    output_of(request.key.client).tokens.push_back(std::move(output));
    if (output.finish != link::FinishReason::kNone) scheduler_.finish(sequence);
}

void Engine::end_without_token(Sequence& sequence, link::FinishReason reason) {
    link::TokenOutput output;
    output.request = sequence.request->key.request;
    output.choice = sequence.choice;
    output.has_token = false;
    output.finish = reason;
    output_of(sequence.request->key.client).tokens.push_back(std::move(output));
    scheduler_.finish(sequence);
}

// End token, then stop token, then the limits.
link::FinishReason Engine::finish_reason(const Sequence& sequence, bool forbid_end) const {
    const link::Generate& spec = sequence.request->spec;
    const std::vector<TokenId>& stops = spec.sampling.stop_tokens;
    std::span<const TokenId> ends = samplers_.front().end_tokens();
    TokenId token = sequence.tokens.back();
    auto holds = [token](auto& list) {
        return std::find(list.begin(), list.end(), token) != list.end();
    };
    if (!forbid_end && ((!spec.sampling.ignore_eos && holds(ends)) || holds(stops)))
        return link::FinishReason::kStop;
    if (sequence.output_tokens() >= spec.max_tokens ||
        sequence.tokens.size() >= options_.scheduler.model_len_max)
        return link::FinishReason::kLength;
    return link::FinishReason::kNone;
}

void Engine::announce_start(Request& request) {
    scheduler_.mark_started(request);
    recent_.emplace_back(request.prompt_tokens, request.reused_tokens);
    recent_prompt_ += request.prompt_tokens;
    recent_cached_ += request.reused_tokens;
    if (recent_.size() > 1'000) {
        recent_prompt_ -= recent_.front().first;
        recent_cached_ -= recent_.front().second;
        recent_.pop_front();
    }
    output_of(request.key.client)
        .started.push_back({request.key.request, static_cast<std::uint32_t>(request.prompt_tokens),
                            static_cast<std::uint32_t>(request.reused_tokens),
                            to_ms(request.admitted_at - request.arrived_at)});
}

link::StepOutput& Engine::output_of(ClientId client) {
    for (auto& [known, output] : outputs_)
        if (known == client) return output;
    outputs_.emplace_back(client, link::StepOutput{});
    outputs_.back().second.step = scheduler_.counters().steps;
    return outputs_.back().second;
}

}  // namespace taproot
