// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "base/metrics.h"
#include "base/net/aliases.h"
#include "config/schema.h"
#include "gateway/admin/route_history.h"
#include "gateway/fleet/fleet.h"
#include "gateway/http/exchange.h"
#include "gateway/openai/generate_spec.h"
#include "gateway/pipeline/prompt_encoder.h"
#include "gateway/pipeline/request_probe.h"

namespace taproot::gateway {

// What a request needs on its way. Owner: the I/O thread; outlives every request.
struct PipelineContext {
    boost::asio::io_context& io;
    const config::Gateway& config;
    Fleet& fleet;
    PromptEncoder& encoder;
    RouteHistory& history;
    Metrics& metrics;
    std::map<std::string, RequestProbe> probes = {};  // by model name

    RequestProbe& probe(const std::string& model) {
        auto it = probes.find(model);
        if (it == probes.end()) it = probes.emplace(model, RequestProbe(metrics, model)).first;
        return it->second;
    }
};

// One generation request from parsed HTTP to the last byte of its answer: steps 2 to 7 and 12 of
// docs/LIFE_OF_A_REQUEST.md, in this order, in this coroutine.
Awaitable<void> generate(PipelineContext& context, Endpoint endpoint, Exchange& exchange);

// The client's X-Request-Id when it is short and plain, else a new one.
std::string request_id_for(const HttpRequest& request);

}  // namespace taproot::gateway
