// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

// May a request enter, and which waiting request goes first. Pure functions, any thread. Used by
// the worker for its queue and by the gateway for the model's.
namespace taproot {

struct QueueView {
    std::uint32_t running = 0;  // sequences in the batch
    std::uint32_t seqs_max = 64;
    std::uint32_t queued_requests = 0;
    std::uint32_t queued_requests_max = 1'024;
    std::uint64_t queued_uncached_tokens = 0;  // after expected cache hits, not whole prompts
    std::uint64_t queued_uncached_tokens_max = 4'000'000;
    double prefill_ms_per_token = 0;  // measured, whole queue's drain rate; 0 = unknown (1 ms)
    double request_ms = 0;            // mean time a sequence stays in the batch; 0 = unknown (1 s)
};

struct AdmitQuery {
    std::uint32_t uncached_tokens = 0;
    std::uint32_t sequences = 1;  // n choices
};

enum class AdmitAction : std::uint8_t { kAccept, kQueue, kReject };

struct AdmitDecision {
    AdmitAction action = AdmitAction::kAccept;  // accept: a slot is free and nobody waits
    double retry_after_ms = 0;                  // with kReject: when the queue will have room again
    double wait_ms = 0;                         // with kQueue: predicted time to its first prefill
    std::string reason = {};
};

using AdmitPolicy = AdmitDecision (*)(const AdmitQuery& query, const QueueView& queue);

// Bounds the queue in requests and in uncached tokens. A request that alone exceeds the token
// bound may still enter an empty queue: otherwise it could never run.
AdmitDecision admit_token_budget(const AdmitQuery& query, const QueueView& queue);

// Order of admission: priority, then least uncached work (a hit is cheap and frees its slot soon),
// with aging so that nobody starves.
struct WaitingView {
    std::int32_t priority = 0;  // lower first
    std::uint64_t uncached_tokens = 0;
    double waited_ms = 0;
    std::uint64_t arrival = 0;  // unique, ascending
};

// Waiting this many times aging_ms beats priority too.
inline constexpr double kStarvationFactor = 10;

// Strict weak order. Within one priority, those that waited aging_ms go first, oldest arrival
// first; the others by uncached tokens, then arrival.
[[nodiscard]] bool admitted_before(const WaitingView& a, const WaitingView& b, double aging_ms);

}  // namespace taproot
