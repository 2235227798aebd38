// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/net/aliases.h"
#include "gateway/admin/route_history.h"
#include "gateway/fleet/fleet.h"
#include "gateway/openai/errors.h"
#include "gateway/openai/generate_spec.h"
#include "gateway/pipeline/request_probe.h"
#include "gateway/stream/choice_stream.h"
#include "gateway/stream/render.h"

namespace taproot::gateway {

// One prompt of one HTTP request while workers compute it: the fleet's sink, its choices, its
// retries. Several of them share one wake-up, the coroutine that writes the answer.
// Owner: the I/O thread. Invariant: at most one request of it is at a worker at any time, and none
// after the destructor.
class Generation final : public RequestSink {
public:
    struct Options {
        Fleet* fleet;
        RouteHistory* history;
        RequestProbe* probe;
        boost::asio::steady_timer* wake;  // cancelled whenever something changed
        const GenerateSpec* spec;
        const ModelInfo* model;  // outlives this
        std::string request_id;
        std::uint32_t retries = 0;
        bool may_restart_after_tokens = false;  // whole answers: nothing was sent before the end
        std::optional<std::uint64_t> session = {};
        TimePoint received = {};
        std::uint64_t backlog_bytes_max = 0;  // text a slow reader may leave waiting; 0 = no limit
    };

    Generation(Options options, link::Generate generate, std::vector<BlockHash> chain);
    ~Generation() override;
    Generation(const Generation&) = delete;
    Generation& operator=(const Generation&) = delete;

    // Steps 5 to 7: match, choose, reserve, send.
    Result<void> submit();
    // Called once when more than backlog_bytes_max wait; the request is cancelled then.
    void on_overflow(std::function<void()> notify) { notify_overflow_ = std::move(notify); }
    // Tells the worker to stop; nothing arrives any more.
    void cancel();

    [[nodiscard]] bool started() const { return started_; }  // the worker accepted and reported
    [[nodiscard]] bool done() const { return failure_.has_value() || open_choices_ == 0; }
    [[nodiscard]] const std::optional<ApiError>& failure() const { return failure_; }
    [[nodiscard]] std::vector<ChoiceStream>& choices() { return choices_; }
    [[nodiscard]] std::uint32_t prompt_tokens() const {
        return static_cast<std::uint32_t>(generate_.prompt.size());
    }
    [[nodiscard]] std::uint32_t cached_tokens() const { return cached_tokens_; }
    [[nodiscard]] std::uint32_t completion_tokens() const;
    [[nodiscard]] const std::string& worker_name() const { return worker_name_; }
    [[nodiscard]] std::size_t pending_bytes() const;  // certain text that was not taken yet

    // RequestSink
    void on_started(const link::RequestStarted& started) override;
    void on_tokens(std::span<const link::TokenOutput> tokens) override;
    void on_prompt_logprobs(const link::PromptLogprobs& logprobs) override;
    void on_rejected(const link::Rejected& rejected) override;
    void on_worker_lost(const Error& error) override;

private:
    void reset_choices();
    bool try_elsewhere();
    void fail(ApiError error);
    void prepend_echo();
    void observe_token_times(std::uint16_t choice);

    Options options_;
    link::Generate generate_;  // kept for retries
    std::vector<BlockHash> chain_;
    std::vector<ChoiceStream> choices_;
    std::size_t open_choices_ = 0;
    std::vector<LogprobEntry> echo_logprobs_;
    std::vector<WorkerId> failed_workers_;
    std::vector<TimePoint> last_token_;  // per choice
    std::optional<RequestId> at_worker_;
    std::string worker_name_;
    std::uint64_t history_number_ = 0;
    std::uint32_t attempt_ = 0;
    std::uint32_t cached_tokens_ = 0;
    bool started_ = false;
    bool any_token_ = false;
    std::function<void()> notify_overflow_;
    std::optional<ApiError> failure_;
};

}  // namespace taproot::gateway
