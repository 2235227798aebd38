// SPDX-License-Identifier: Apache-2.0
#include "gateway/pipeline/request_probe.h"

namespace taproot::gateway {
namespace {

// Bucket edges are vLLM's, so that panels made for it fit.
const std::vector<double> kTtftBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                          1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const std::vector<double> kItlBuckets = {.001, .0025, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                         .4,   .5,    .75,  1,   2.5,  5,   7.5,  10, 20,  40, 80};
const std::vector<double> kE2eBuckets = {.1, .3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,
                                         20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const std::vector<double> kTokenBuckets = {1,     2,      5,      10,     20,     50,    100,
                                           200,   500,    1000,   2000,   5000,   10000, 20000,
                                           50000, 100000, 200000, 500000, 1000000};

prometheus::Counter& outcome(Metrics& metrics, const std::string& model, const char* name) {
    return metrics.counter("taproot_gateway_requests_total",
                           "Generation requests by how they ended.",
                           {{"model_name", model}, {"outcome", name}});
}
prometheus::Counter& success(Metrics& metrics, const std::string& model, const char* reason) {
    return metrics.counter("vllm:request_success_total", "Finished requests by finish reason.",
                           {{"model_name", model}, {"finished_reason", reason}});
}

}  // namespace

RequestProbe::RequestProbe(Metrics& metrics, std::string model)
    : active(metrics.gauge("taproot_gateway_active_requests",
                           "Generation requests between parsing and their end.",
                           {{"model_name", model}})),
      ttft_seconds(metrics.histogram("vllm:time_to_first_token_seconds",
                                     "Request received to first token.", kTtftBuckets,
                                     {{"model_name", model}})),
      itl_seconds(metrics.histogram("vllm:inter_token_latency_seconds",
                                    "Between tokens of one choice.", kItlBuckets,
                                    {{"model_name", model}})),
      e2e_seconds(metrics.histogram("vllm:e2e_request_latency_seconds",
                                    "Request received to its end.", kE2eBuckets,
                                    {{"model_name", model}})),
      prompt_tokens(metrics.histogram("vllm:request_prompt_tokens", "Prompt tokens per request.",
                                      kTokenBuckets, {{"model_name", model}})),
      generation_tokens(metrics.histogram("vllm:request_generation_tokens",
                                          "Generated tokens per request.", kTokenBuckets,
                                          {{"model_name", model}})),
      finished_stop(success(metrics, model, "stop")),
      finished_length(success(metrics, model, "length")),
      completed(outcome(metrics, model, "completed")),
      cancelled(outcome(metrics, model, "cancelled")),
      failed(outcome(metrics, model, "failed")),
      refused(outcome(metrics, model, "refused")),
      retried(metrics.counter("taproot_gateway_retries_total",
                              "Requests sent again to another worker before any token was sent.",
                              {{"model_name", model}})),
      cached_tokens(metrics.counter("taproot_gateway_cached_tokens_total",
                                    "Prompt tokens that workers reused from their KV.",
                                    {{"model_name", model}})) {}

}  // namespace taproot::gateway
