// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "gateway/openai/generate_spec.h"

namespace taproot::gateway {

// The metrics of requests, under our names and under those that dashboards for vLLM read.
// Label sets come from the configuration (model names the fleet knows), never from clients.
class RequestProbe {
public:
    RequestProbe(Metrics& metrics, std::string model);

    prometheus::Gauge& active;             // taproot_gateway_active_requests
    prometheus::Histogram& ttft_seconds;   // vllm:time_to_first_token_seconds
    prometheus::Histogram& itl_seconds;    // vllm:inter_token_latency_seconds
    prometheus::Histogram& e2e_seconds;    // vllm:e2e_request_latency_seconds
    prometheus::Histogram& prompt_tokens;  // vllm:request_prompt_tokens
    prometheus::Histogram& generation_tokens;
    prometheus::Counter& finished_stop;  // vllm:request_success{finished_reason=...}
    prometheus::Counter& finished_length;
    prometheus::Counter& completed;  // taproot_gateway_requests_total{outcome=...}
    prometheus::Counter& cancelled;
    prometheus::Counter& failed;
    prometheus::Counter& refused;
    prometheus::Counter& retried;
    prometheus::Counter& cached_tokens;
};

}  // namespace taproot::gateway
