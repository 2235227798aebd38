// SPDX-License-Identifier: Apache-2.0
#include "gateway/pipeline/generation.h"

#include <cmath>
#include <limits>

#include "base/log.h"
#include "gateway/fleet/model_text.h"

namespace taproot::gateway {

Generation::Generation(Options options, link::Generate generate, std::vector<BlockHash> chain)
    : options_(std::move(options)), generate_(std::move(generate)), chain_(std::move(chain)) {
    reset_choices();
}

Generation::~Generation() {
    cancel();
}

void Generation::reset_choices() {
    choices_.clear();
    for (std::uint16_t i = 0; i < generate_.choices; ++i)
        choices_.emplace_back(options_.model->text->tokenizer.vocab(), *options_.spec);
    open_choices_ = choices_.size();
    last_token_.assign(choices_.size(), TimePoint{});
    echo_logprobs_.clear();
    started_ = false;
    any_token_ = false;
}

Result<void> Generation::submit() {
    ++attempt_;
    SubmitRequest request;
    request.model = options_.model->name;
    request.generate = generate_;
    request.chain = chain_;
    request.session = options_.session;
    request.exclude = failed_workers_;
    TAPROOT_TRY(Ticket ticket, options_.fleet->submit(std::move(request), this));
    at_worker_ = ticket.request;
    failed_workers_.push_back(ticket.worker);  // excluded if there is another attempt
    worker_name_ = std::move(ticket.worker_name);

    RouteRecord record;
    record.request_id = options_.request_id;
    record.worker = worker_name_;
    for (const RouteCandidate& candidate : ticket.decision.candidates)
        record.candidate_names.emplace_back(options_.fleet->worker_name(candidate.worker));
    record.decision = std::move(ticket.decision);
    record.prompt_tokens = prompt_tokens();
    record.attempt = attempt_;
    history_number_ = options_.history->add(std::move(record));
    return {};
}

void Generation::cancel() {
    if (auto request = std::exchange(at_worker_, std::nullopt)) options_.fleet->cancel(*request);
}

std::uint32_t Generation::completion_tokens() const {
    std::uint32_t total = 0;
    for (const ChoiceStream& choice : choices_) total += choice.completion_tokens();
    return total;
}

std::size_t Generation::pending_bytes() const {
    std::size_t total = 0;
    for (const ChoiceStream& choice : choices_) total += choice.pending().text.size();
    return total;
}

// --- what the worker says
// ---------------------------------------------------------------------------

void Generation::on_started(const link::RequestStarted& started) {
    started_ = true;
    cached_tokens_ = started.cached_tokens;
    options_.history->set_real_cached(history_number_, started.cached_tokens);
    options_.probe->cached_tokens.Increment(started.cached_tokens);
    if (options_.spec->echo && !generate_.sampling.prompt_logprobs) prepend_echo();
    options_.wake->cancel();
}

void Generation::on_prompt_logprobs(const link::PromptLogprobs& logprobs) {
    for (std::size_t i = 0; i < logprobs.logprobs.size(); ++i) {
        std::size_t position = logprobs.first + i;
        if (position >= generate_.prompt.size()) break;
        LogprobEntry entry;
        entry.token = generate_.prompt[position];
        entry.logprob = logprobs.logprobs[i];
        if (i < logprobs.top.size()) entry.top = logprobs.top[i];
        echo_logprobs_.push_back(std::move(entry));
    }
    // All but the first prompt token have a score.
    if (options_.spec->echo && echo_logprobs_.size() + 1 >= generate_.prompt.size()) prepend_echo();
    options_.wake->cancel();
}

void Generation::prepend_echo() {
    const Vocab& vocab = options_.model->text->tokenizer.vocab();
    std::vector<LogprobEntry> entries;
    if (generate_.sampling.prompt_logprobs) {
        LogprobEntry first;
        first.token = generate_.prompt.front();
        first.logprob = std::numeric_limits<float>::quiet_NaN();  // nothing comes before it
        entries.push_back(first);
        entries.insert(entries.end(), echo_logprobs_.begin(), echo_logprobs_.end());
    }
    Detokenizer detokenizer(vocab, {.skip_special_tokens = options_.spec->skip_special_tokens});
    std::string text;
    std::uint32_t offset = 0;
    for (std::size_t i = 0; i < generate_.prompt.size(); ++i) {
        std::size_t before = text.size();
        if (i < entries.size()) entries[i].text_offset = offset;
        detokenizer.push(generate_.prompt[i], &text);
        offset += count_characters(std::string_view(text).substr(before));
    }
    detokenizer.flush(&text);
    for (ChoiceStream& choice : choices_) choice.prepend(text, entries);
}

void Generation::observe_token_times(std::uint16_t choice) {
    TimePoint now = std::chrono::steady_clock::now();
    if (!any_token_) options_.probe->ttft_seconds.Observe(to_seconds(now - options_.received));
    any_token_ = true;
    if (last_token_[choice] != TimePoint{})
        options_.probe->itl_seconds.Observe(to_seconds(now - last_token_[choice]));
    last_token_[choice] = now;
}

void Generation::on_tokens(std::span<const link::TokenOutput> tokens) {
    for (const link::TokenOutput& output : tokens) {
        if (output.choice >= choices_.size()) continue;
        ChoiceStream& choice = choices_[output.choice];
        if (choice.finished()) continue;
        if (output.has_token) observe_token_times(output.choice);
        if (output.finish == link::FinishReason::kError ||
            output.finish == link::FinishReason::kAbort) {
            ApiError error;
            error.status = 500;
            error.type = "server_error";
            error.code = "worker_error";
            error.message = "the worker ended this request early";
            fail(std::move(error));
            return;
        }
        ChoiceStream::Step step = choice.push(output);
        if (!choice.finished()) continue;
        --open_choices_;
        (choice.finish() == link::FinishReason::kLength ? options_.probe->finished_length
                                                        : options_.probe->finished_stop)
            .Increment();
        if (open_choices_ == 0 && step.stop_string_matched)
            cancel();
        else if (step.stop_string_matched && at_worker_)
            options_.fleet->cancel_choice(*at_worker_, output.choice);
    }
    if (options_.backlog_bytes_max > 0 && pending_bytes() > options_.backlog_bytes_max) {
        log_info("request {}: the client left {} bytes unread; dropped as a slow reader",
                 options_.request_id, pending_bytes());
        cancel();
        if (auto notify = std::exchange(notify_overflow_, nullptr)) notify();
        return;
    }
    if (open_choices_ == 0) cancel();  // also tells the fleet that this sink is done
    options_.wake->cancel();
}

void Generation::on_rejected(const link::Rejected& rejected) {
    at_worker_.reset();
    ApiError error;
    error.message = rejected.message;
    error.type = "server_error";
    switch (rejected.reason) {
        case link::RejectReason::kTooLong:
            error.status = 400;
            error.type = "invalid_request_error";
            error.code = "context_length_exceeded";
            fail(std::move(error));
            return;
        case link::RejectReason::kQueueFull:
        case link::RejectReason::kShuttingDown:
            if (try_elsewhere()) return;
            error.status = rejected.reason == link::RejectReason::kQueueFull ? 429 : 503;
            error.type = error.status == 429 ? "rate_limit_error" : "server_error";
            error.code = error.status == 429 ? "queue_full" : "no_available_workers";
            error.retry_after_ms = std::max(1000.0, rejected.retry_after_ms);
            fail(std::move(error));
            return;
        case link::RejectReason::kInvalid:
        case link::RejectReason::kInternal:
            break;
    }
    log_error("request {}: worker {} refused it: {}; this is a bug", options_.request_id,
              worker_name_, rejected.message);
    error.status = 500;
    error.code = "internal_error";
    error.message = "internal error; the server's log has details";
    fail(std::move(error));
}

void Generation::on_worker_lost(const Error& lost) {
    at_worker_.reset();
    log_warn("request {}: worker {} is gone ({}) after {} tokens", options_.request_id,
             worker_name_, lost.message, completion_tokens());
    if ((!any_token_ || options_.may_restart_after_tokens) && try_elsewhere()) return;
    ApiError error;
    error.status = 503;
    error.type = "server_error";
    error.code = any_token_ ? "worker_lost" : "no_available_workers";
    error.message =
        any_token_ ? "the worker computing this answer died; what was sent so far is incomplete"
                   : "no worker can serve this request now";
    error.retry_after_ms = 1000;
    fail(std::move(error));
}

bool Generation::try_elsewhere() {
    if (attempt_ > options_.retries) return false;
    reset_choices();
    Result<void> sent = submit();
    if (!sent) return false;
    options_.probe->retried.Increment();
    log_info("request {}: sent again, to worker {} (attempt {})", options_.request_id, worker_name_,
             attempt_);
    options_.wake->cancel();
    return true;
}

void Generation::fail(ApiError error) {
    cancel();
    failure_ = std::move(error);
    options_.wake->cancel();
}

}  // namespace taproot::gateway
