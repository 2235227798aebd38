// SPDX-License-Identifier: Apache-2.0
#include "gateway/routes.h"

#include <fmt/format.h>

#include "base/version.h"
#include "gateway/openai/errors.h"
#include "gateway/openai/models.h"
#include "gateway/openai/tokenize.h"

namespace taproot::gateway {
namespace {

constexpr std::string_view kModelsPrefix = "/v1/models/";

HttpResponse json_response(std::string body) {
    HttpResponse response;
    response.body = std::move(body);
    return response;
}

Awaitable<void> get_health(Exchange& exchange) {
    co_await exchange.send(json_response("{\"status\":\"ok\"}"));
}

Awaitable<void> get_ready(PipelineContext& context, const std::atomic<bool>& draining,
                          Exchange& exchange) {
    if (!draining.load() && context.fleet.ready()) {
        co_await exchange.send(json_response("{\"status\":\"ready\"}"));
        co_return;
    }
    Error why{ErrorCode::kUnavailable,
              draining.load() ? "shutting down" : "no worker can serve yet"};
    co_await exchange.send(error_response(to_api_error(why)));
}

Awaitable<void> get_version(Exchange& exchange) {
    co_await exchange.send(json_response(fmt::format("{{\"version\":\"{}\"}}", kVersion)));
}

Awaitable<void> get_metrics(Metrics& metrics, Exchange& exchange) {
    HttpResponse response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics.render();
    co_await exchange.send(std::move(response));
}

Awaitable<void> get_models(PipelineContext& context, Exchange& exchange) {
    co_await exchange.send(json_response(models_json(context.fleet.models())));
}

Awaitable<void> get_model(PipelineContext& context, Exchange& exchange) {
    std::string name = exchange.request().path.substr(kModelsPrefix.size());
    const ModelInfo* model = context.fleet.find_model(name);
    if (model != nullptr) {
        co_await exchange.send(json_response(model_json(*model)));
        co_return;
    }
    Error missing{ErrorCode::kNotFound,
                  fmt::format("The model `{}` does not exist.", bounded_echo(name)), "model"};
    co_await exchange.send(error_response(to_api_error(missing)));
}

Awaitable<void> get_route(PipelineContext& context, Exchange& exchange) {
    std::string id = exchange.request().query_value("request_id");
    std::vector<const RouteRecord*> records = context.history.find(id);
    if (!records.empty()) {
        co_await exchange.send(json_response(route_json(records)));
        co_return;
    }
    std::string message = id.empty()
                              ? "give ?request_id=, the x-request-id of an answer"
                              : fmt::format("no request '{}' among the last {}",
                                            bounded_echo(id, 128), context.config.route_history);
    co_await exchange.send(render_http_error(id.empty() ? 400 : 404, message));
}

}  // namespace

std::vector<std::string> open_paths() {
    return {"/health", "/ready", "/version", "/metrics", "/ping"};
}

// Handlers are plain lambdas that call named coroutines: nothing captured lives in a coroutine
// frame.
Router make_router(PipelineContext& context, Metrics& metrics, const std::atomic<bool>& draining) {
    Router router;
    auto* c = &context;
    auto* m = &metrics;
    auto* d = &draining;
    router.add("POST", "/v1/chat/completions",
               [c](Exchange& e) { return generate(*c, Endpoint::kChat, e); });
    router.add("POST", "/v1/completions",
               [c](Exchange& e) { return generate(*c, Endpoint::kCompletions, e); });
    router.add("GET", "/v1/models", [c](Exchange& e) { return get_models(*c, e); });
    router.add("GET", "/v1/models/", [c](Exchange& e) { return get_model(*c, e); });
    router.add("POST", "/tokenize", [c](Exchange& e) { return tokenize(*c, e); });
    router.add("POST", "/detokenize", [c](Exchange& e) { return detokenize(*c, e); });
    router.add("GET", "/health", [](Exchange& e) { return get_health(e); });
    router.add("GET", "/ping", [](Exchange& e) { return get_health(e); });
    router.add("GET", "/ready", [c, d](Exchange& e) { return get_ready(*c, *d, e); });
    router.add("GET", "/version", [](Exchange& e) { return get_version(e); });
    router.add("GET", "/metrics", [m](Exchange& e) { return get_metrics(*m, e); });
    router.add("GET", "/debug/route", [c](Exchange& e) { return get_route(*c, e); });
    return router;
}

}  // namespace taproot::gateway
