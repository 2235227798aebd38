// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/metrics.h"
#include "link/messages.h"

namespace taproot::gateway {

// One worker's Load frames as metrics: taproot_worker_* with help and units, and the vLLM names
// that dashboards and routers already read (labels model_name and engine, hits in tokens).
// Counters follow the worker's own totals: differences are added, and a worker that starts again
// counts from zero. Owner: the I/O thread; the metrics themselves are thread-safe.
class WorkerMetrics {
public:
    WorkerMetrics(Metrics& metrics, const std::string& worker, const std::string& model);

    [[nodiscard]] const std::string& model() const { return model_; }
    void on_ready(std::uint64_t epoch);
    void on_lost(std::size_t lost_requests);
    void on_load(const link::Load& load);
    // A request was sent there; how much of its prompt the router counted on.
    void on_routed() { routed_.Increment(); }
    // Its RequestStarted came.
    void on_started(std::uint32_t expected_cached_tokens, std::uint32_t cached_tokens);
    void on_resync() { resyncs_.Increment(); }

private:
    void set_gauges(const link::Load& load);
    void count_ram(const link::Load& load);

    const std::string model_;
    prometheus::Gauge& up_;
    prometheus::Gauge& running_;
    prometheus::Gauge& waiting_;
    prometheus::Gauge& preempted_;
    prometheus::Gauge& backlog_tokens_;
    prometheus::Gauge& blocks_total_;
    prometheus::Gauge& blocks_active_;
    prometheus::Gauge& blocks_cached_;
    prometheus::Gauge& prefill_seconds_per_token_;
    prometheus::Gauge& decode_seconds_per_step_;
    prometheus::Gauge& step_fixed_;
    prometheus::Gauge& step_decode_stream_;
    prometheus::Gauge& step_decode_context_;
    prometheus::Gauge& step_prefill_token_;
    prometheus::Gauge& step_prefill_pair_;
    prometheus::Gauge& step_error_;
    prometheus::Counter& prompt_tokens_;
    prometheus::Counter& prefill_tokens_;
    prometheus::Counter& cached_tokens_;
    prometheus::Counter& generation_tokens_;
    prometheus::Counter& preemptions_;
    prometheus::Counter& evicted_blocks_;
    prometheus::Counter& steps_;
    prometheus::Gauge& ram_bytes_;
    prometheus::Gauge& ram_used_bytes_;
    prometheus::Gauge& ram_restore_seconds_per_block_;
    prometheus::Counter& ram_stored_bytes_;
    prometheus::Counter& ram_restored_bytes_;
    prometheus::Counter& ram_dropped_bytes_;
    prometheus::Counter& ram_refused_bytes_;
    prometheus::Counter& ram_corrupt_;
    prometheus::Counter& ram_collisions_;
    prometheus::Counter& connections_;
    prometheus::Counter& lost_requests_;
    prometheus::Counter& routed_;
    prometheus::Counter& expected_cached_tokens_;
    prometheus::Counter& real_cached_tokens_;
    prometheus::Histogram& expected_minus_real_;
    prometheus::Counter& resyncs_;

    prometheus::Gauge& vllm_running_;
    prometheus::Gauge& vllm_waiting_;
    prometheus::Gauge& vllm_kv_usage_;
    prometheus::Counter& vllm_prefix_queries_;
    prometheus::Counter& vllm_prefix_hits_;
    prometheus::Counter& vllm_prompt_tokens_;
    prometheus::Counter& vllm_prompt_tokens_cached_;
    prometheus::Counter& vllm_generation_tokens_;
    prometheus::Counter& vllm_preemptions_;

    std::uint64_t epoch_ = 0;
    link::Load last_;
};

}  // namespace taproot::gateway
