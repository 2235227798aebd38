// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "policies/admit/policy.h"

namespace taproot {

namespace {

constexpr double kUnknownPrefillMs = 1;  // per token
constexpr double kUnknownRequestMs = 1'000;
constexpr double kRetryMsMin = 100;  // a client that comes back sooner only adds load
constexpr double kRetryMsMax = 600'000;

double known(double value, double fallback) {
    return std::isfinite(value) && value > 0 ? value : fallback;
}

// Time until the first of `slots` sequences ends, for `ahead` requests that wait for one.
double slot_wait_ms(const QueueView& queue, std::uint64_t ahead) {
    const double slots = std::max<std::uint32_t>(queue.seqs_max, 1);
    return known(queue.request_ms, kUnknownRequestMs) * static_cast<double>(ahead) / slots;
}

AdmitDecision reject(double retry_ms, std::string reason) {
    return {.action = AdmitAction::kReject,
            .retry_after_ms = std::clamp(retry_ms, kRetryMsMin, kRetryMsMax),
            .reason = std::move(reason)};
}

}  // namespace

AdmitDecision admit_token_budget(const AdmitQuery& query, const QueueView& queue) {
    const double token_ms = known(queue.prefill_ms_per_token, kUnknownPrefillMs);
    const double backlog_ms = static_cast<double>(queue.queued_uncached_tokens) * token_ms;
    const std::uint64_t wanted = queue.running + std::uint64_t{query.sequences};
    if (queue.queued_requests == 0 && wanted <= queue.seqs_max) {
        return {.action = AdmitAction::kAccept, .reason = "a slot is free and nobody waits"};
    }
    if (queue.queued_requests >= queue.queued_requests_max) {
        // One place is free once the oldest has left: its share of the backlog, or a slot's end.
        const double waiting = std::max<std::uint32_t>(queue.queued_requests, 1);
        return reject(std::max(backlog_ms / waiting, slot_wait_ms(queue, 1)),
                      fmt::format("{} requests wait, {} may", queue.queued_requests,
                                  queue.queued_requests_max));
    }
    const std::uint64_t tokens = queue.queued_uncached_tokens + query.uncached_tokens;
    if (tokens > queue.queued_uncached_tokens_max && queue.queued_requests > 0) {
        const double excess = static_cast<double>(tokens - queue.queued_uncached_tokens_max);
        const double drain = std::min(excess * token_ms, backlog_ms);  // an empty queue always does
        return reject(drain, fmt::format("{} uncached tokens wait, {} more are above the bound {}",
                                         queue.queued_uncached_tokens, query.uncached_tokens,
                                         queue.queued_uncached_tokens_max));
    }
    const std::uint64_t over = queue.queued_requests + wanted;
    const double slots_ms = over > queue.seqs_max ? slot_wait_ms(queue, over - queue.seqs_max) : 0;
    return {.action = AdmitAction::kQueue,
            .wait_ms = std::max(backlog_ms, slots_ms),
            .reason = fmt::format("behind {} requests with {} uncached tokens",
                                  queue.queued_requests, queue.queued_uncached_tokens)};
}

bool admitted_before(const WaitingView& a, const WaitingView& b, double aging_ms) {
    const auto rank = [&](const WaitingView& w) {
        if (w.waited_ms >= aging_ms * kStarvationFactor) return 0;
        return w.waited_ms >= aging_ms ? 1 : 2;
    };
    const int rank_a = rank(a);
    const int rank_b = rank(b);
    // 1. The starving, oldest first. 2. Priority. 3. Within it the aged, oldest first.
    if ((rank_a == 0) != (rank_b == 0)) return rank_a == 0;
    if (rank_a == 0) return a.arrival < b.arrival;
    if (a.priority != b.priority) return a.priority < b.priority;
    if (rank_a != rank_b) return rank_a < rank_b;
    if (rank_a == 1) return a.arrival < b.arrival;
    // 4. The least work.
    if (a.uncached_tokens != b.uncached_tokens) return a.uncached_tokens < b.uncached_tokens;
    return a.arrival < b.arrival;
}

}  // namespace taproot
