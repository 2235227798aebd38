// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/worker_metrics.h"

namespace taproot::gateway {
namespace {

Labels ours(const std::string& worker, const std::string& model) {
    return {{"worker", worker}, {"model", model}};
}
Labels with_cause(const std::string& worker, const std::string& model, const char* cause) {
    Labels labels = ours(worker, model);
    labels.emplace("cause", cause);
    return labels;
}
Labels vllm(const std::string& worker, const std::string& model) {
    return {{"model_name", model}, {"engine", worker}};
}

const std::vector<double> kDifferenceBuckets = {-4096, -1024, -256, -64,  -16, 0,
                                                16,    64,    256,  1024, 4096};

// A total that went back has started again.
double grown(std::uint64_t before, std::uint64_t now) {
    return static_cast<double>(now >= before ? now - before : now);
}

}  // namespace

WorkerMetrics::WorkerMetrics(Metrics& m, const std::string& worker, const std::string& model)
    : model_(model),
      up_(m.gauge("taproot_worker_up", "1 while the worker is connected and serves.",
                  ours(worker, model))),
      running_(m.gauge("taproot_worker_running_requests", "Sequences in the running batch.",
                       ours(worker, model))),
      waiting_(m.gauge("taproot_worker_waiting_requests", "Requests not yet in the batch.",
                       ours(worker, model))),
      preempted_(m.gauge("taproot_worker_preempted_requests",
                         "Requests swapped out, waiting for their blocks again.",
                         ours(worker, model))),
      backlog_tokens_(m.gauge("taproot_worker_backlog_tokens",
                              "Uncached prompt tokens waiting or in prefill.",
                              ours(worker, model))),
      blocks_total_(
          m.gauge("taproot_worker_kv_blocks", "KV blocks of the pool.", ours(worker, model))),
      blocks_active_(m.gauge("taproot_worker_kv_blocks_active",
                             "KV blocks pinned by running sequences.", ours(worker, model))),
      blocks_cached_(m.gauge("taproot_worker_kv_blocks_cached",
                             "KV blocks that are reusable and evictable.", ours(worker, model))),
      prefill_seconds_per_token_(m.gauge("taproot_worker_prefill_seconds_per_token",
                                         "Fitted from recent steps.", ours(worker, model))),
      decode_seconds_per_step_(m.gauge("taproot_worker_decode_seconds_per_step",
                                       "Fitted from recent steps.", ours(worker, model))),
      step_fixed_(m.gauge("taproot_step_cost_fixed_seconds", "Fitted cost of any step.",
                          ours(worker, model))),
      step_decode_stream_(m.gauge("taproot_step_cost_decode_stream_seconds",
                                  "Fitted cost of one more decoding sequence in a step.",
                                  ours(worker, model))),
      step_decode_context_(m.gauge("taproot_step_cost_decode_context_seconds",
                                   "Fitted cost per token of context of a decoding sequence.",
                                   ours(worker, model))),
      step_prefill_token_(m.gauge("taproot_step_cost_prefill_token_seconds",
                                  "Fitted cost of one prompt token without its attention.",
                                  ours(worker, model))),
      step_prefill_pair_(m.gauge("taproot_step_cost_prefill_pair_seconds",
                                 "Fitted attention cost per prompt token and token it attends to.",
                                 ours(worker, model))),
      step_error_(m.gauge("taproot_step_cost_error_ratio",
                          "Usual relative error of the predicted step time, outliers left out.",
                          ours(worker, model))),
      prompt_tokens_(m.counter("taproot_worker_prompt_tokens_total",
                               "Prompt tokens of admitted requests, cached or not.",
                               ours(worker, model))),
      prefill_tokens_(m.counter("taproot_worker_prefill_tokens_total",
                                "Prompt tokens really computed.", ours(worker, model))),
      cached_tokens_(m.counter("taproot_worker_cached_tokens_total",
                               "Prompt tokens whose KV was reused.", ours(worker, model))),
      generation_tokens_(m.counter("taproot_worker_generation_tokens_total", "Sampled tokens.",
                                   ours(worker, model))),
      preemptions_(m.counter("taproot_worker_preemptions_total",
                             "Sequences taken out of the batch for lack of blocks.",
                             ours(worker, model))),
      evicted_blocks_(m.counter("taproot_worker_evicted_blocks_total",
                                "Cached KV blocks given up for new ones.", ours(worker, model))),
      steps_(m.counter("taproot_worker_steps_total", "Engine steps.", ours(worker, model))),
      ram_bytes_(m.gauge("taproot_kv_ram_bytes",
                         "Room for KV pages in the RAM tier below the pool; 0 without one.",
                         ours(worker, model))),
      ram_used_bytes_(
          m.gauge("taproot_kv_ram_used_bytes", "KV pages in the RAM tier.", ours(worker, model))),
      ram_restore_seconds_per_block_(
          m.gauge("taproot_kv_ram_restore_seconds_per_block",
                  "Measured: one block from RAM to the pool, and what goes down for it.",
                  ours(worker, model))),
      ram_stored_bytes_(m.counter("taproot_kv_ram_stored_bytes_total",
                                  "KV that the pool evicted into the RAM tier.",
                                  ours(worker, model))),
      ram_restored_bytes_(m.counter(
          "taproot_kv_ram_restored_bytes_total",
          "KV that came back from the RAM tier instead of being computed.", ours(worker, model))),
      ram_dropped_bytes_(m.counter("taproot_kv_ram_dropped_bytes_total",
                                   "KV that the RAM tier gave up for other blocks.",
                                   ours(worker, model))),
      ram_refused_bytes_(m.counter("taproot_kv_ram_refused_bytes_total",
                                   "Evicted KV that found no place in the RAM tier.",
                                   ours(worker, model))),
      ram_corrupt_(m.counter("taproot_kv_ram_misses_total",
                             "Blocks of the RAM tier that could not be used, by cause.",
                             with_cause(worker, model, "checksum"))),
      ram_collisions_(m.counter("taproot_kv_ram_misses_total",
                                "Blocks of the RAM tier that could not be used, by cause.",
                                with_cause(worker, model, "other_tokens"))),
      connections_(m.counter("taproot_worker_connections_total",
                             "Times the worker became ready on a new link.", ours(worker, model))),
      lost_requests_(m.counter("taproot_worker_lost_requests_total",
                               "Requests in flight when their worker went away.",
                               ours(worker, model))),
      routed_(m.counter("taproot_route_requests_total", "Requests sent to the worker.",
                        ours(worker, model))),
      expected_cached_tokens_(m.counter("taproot_route_expected_cached_tokens_total",
                                        "Prompt tokens the router counted on being cached.",
                                        ours(worker, model))),
      real_cached_tokens_(m.counter("taproot_route_real_cached_tokens_total",
                                    "Prompt tokens of the same requests that were cached.",
                                    ours(worker, model))),
      expected_minus_real_(m.histogram("taproot_route_expected_minus_real_tokens",
                                       "Per request: cached tokens expected minus real.",
                                       kDifferenceBuckets, ours(worker, model))),
      resyncs_(m.counter("taproot_route_resyncs_total",
                         "Times the worker's events were incomplete or wrong and its whole tree "
                         "was asked for.",
                         ours(worker, model))),
      vllm_running_(m.gauge("vllm:num_requests_running", "Sequences in the running batch.",
                            vllm(worker, model))),
      vllm_waiting_(m.gauge("vllm:num_requests_waiting", "Requests not yet in the batch.",
                            vllm(worker, model))),
      vllm_kv_usage_(m.gauge("vllm:kv_cache_usage_perc",
                             "Share of KV blocks pinned by sequences, 0 to 1.",
                             vllm(worker, model))),
      vllm_prefix_queries_(m.counter("vllm:prefix_cache_queries_total",
                                     "Prompt tokens looked up in the prefix cache.",
                                     vllm(worker, model))),
      vllm_prefix_hits_(m.counter("vllm:prefix_cache_hits_total",
                                  "Prompt tokens found in the prefix cache.", vllm(worker, model))),
      vllm_prompt_tokens_(m.counter("vllm:prompt_tokens_total",
                                    "Prompt tokens of admitted requests.", vllm(worker, model))),
      vllm_prompt_tokens_cached_(m.counter("vllm:prompt_tokens_cached_total",
                                           "Prompt tokens whose KV was reused.",
                                           vllm(worker, model))),
      vllm_generation_tokens_(
          m.counter("vllm:generation_tokens_total", "Sampled tokens.", vllm(worker, model))),
      vllm_preemptions_(m.counter("vllm:num_preemptions_total",
                                  "Sequences taken out of the batch for lack of blocks.",
                                  vllm(worker, model))) {}

void WorkerMetrics::on_ready(std::uint64_t epoch) {
    if (epoch != epoch_) last_ = {};
    epoch_ = epoch;
    up_.Set(1);
    connections_.Increment();
}

void WorkerMetrics::on_lost(std::size_t lost_requests) {
    up_.Set(0);
    set_gauges({});
    lost_requests_.Increment(static_cast<double>(lost_requests));
}

void WorkerMetrics::set_gauges(const link::Load& load) {
    running_.Set(load.running);
    waiting_.Set(load.waiting);
    preempted_.Set(load.preempted);
    backlog_tokens_.Set(static_cast<double>(load.backlog_tokens));
    blocks_total_.Set(load.blocks_total);
    blocks_active_.Set(load.blocks_active);
    blocks_cached_.Set(load.blocks_cached);
    prefill_seconds_per_token_.Set(load.prefill_ms_per_token * 1e-3);
    decode_seconds_per_step_.Set(load.decode_ms_per_step * 1e-3);
    step_fixed_.Set(load.step_fixed_ms * 1e-3);
    step_decode_stream_.Set(load.step_decode_stream_ms * 1e-3);
    step_decode_context_.Set(load.step_decode_context_ms * 1e-3);
    step_prefill_token_.Set(load.step_prefill_token_ms * 1e-3);
    step_prefill_pair_.Set(load.step_prefill_pair_ms * 1e-3);
    step_error_.Set(load.step_error);
    const double page = static_cast<double>(load.block_bytes);
    ram_bytes_.Set(page * load.ram_blocks_total);
    ram_used_bytes_.Set(page * load.ram_blocks_used);
    ram_restore_seconds_per_block_.Set(load.ram_restore_ms_per_block * 1e-3);
    vllm_running_.Set(load.running);
    vllm_waiting_.Set(load.waiting + load.preempted);
    vllm_kv_usage_.Set(
        load.blocks_total > 0 ? static_cast<double>(load.blocks_active) / load.blocks_total : 0);
}

void WorkerMetrics::on_load(const link::Load& load) {
    set_gauges(load);
    double prompt = grown(last_.prompt_tokens_total, load.prompt_tokens_total);
    double cached = grown(last_.cached_tokens_total, load.cached_tokens_total);
    double generated = grown(last_.generation_tokens_total, load.generation_tokens_total);
    double preemptions = grown(last_.preemptions_total, load.preemptions_total);
    prompt_tokens_.Increment(prompt);
    prefill_tokens_.Increment(grown(last_.prefill_tokens_total, load.prefill_tokens_total));
    cached_tokens_.Increment(cached);
    generation_tokens_.Increment(generated);
    preemptions_.Increment(preemptions);
    evicted_blocks_.Increment(grown(last_.evicted_blocks_total, load.evicted_blocks_total));
    steps_.Increment(grown(last_.steps_total, load.steps_total));
    count_ram(load);
    vllm_prefix_queries_.Increment(prompt);
    vllm_prefix_hits_.Increment(cached);
    vllm_prompt_tokens_.Increment(prompt);
    vllm_prompt_tokens_cached_.Increment(cached);
    vllm_generation_tokens_.Increment(generated);
    vllm_preemptions_.Increment(preemptions);
    last_ = load;
}

void WorkerMetrics::count_ram(const link::Load& load) {
    const double page = static_cast<double>(load.block_bytes);
    auto bytes = [page](std::uint64_t before, std::uint64_t now) {
        return page * grown(before, now);
    };
    ram_stored_bytes_.Increment(bytes(last_.ram_stored_blocks_total, load.ram_stored_blocks_total));
    ram_restored_bytes_.Increment(
        bytes(last_.ram_restored_blocks_total, load.ram_restored_blocks_total));
    ram_dropped_bytes_.Increment(
        bytes(last_.ram_dropped_blocks_total, load.ram_dropped_blocks_total));
    ram_refused_bytes_.Increment(
        bytes(last_.ram_refused_blocks_total, load.ram_refused_blocks_total));
    ram_corrupt_.Increment(grown(last_.ram_corrupt_blocks_total, load.ram_corrupt_blocks_total));
    ram_collisions_.Increment(grown(last_.ram_collisions_total, load.ram_collisions_total));
}

void WorkerMetrics::on_started(std::uint32_t expected_cached_tokens, std::uint32_t cached_tokens) {
    expected_cached_tokens_.Increment(expected_cached_tokens);
    real_cached_tokens_.Increment(cached_tokens);
    expected_minus_real_.Observe(static_cast<double>(expected_cached_tokens) -
                                 static_cast<double>(cached_tokens));
}

}  // namespace taproot::gateway
