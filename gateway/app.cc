// SPDX-License-Identifier: Apache-2.0
#include "gateway/app.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <future>
#include <thread>

#include "base/log.h"
#include "config/validate.h"
#include "gateway/admin/auth.h"
#include "gateway/http/server.h"
#include "gateway/openai/errors.h"
#include "gateway/routes.h"

namespace taproot::gateway {

// Members in order of construction; destroyed in reverse.
struct GatewayApp::Parts {
    explicit Parts(config::Config chosen)
        : config(std::move(chosen)),
          auth(config.gateway.api_keys, open_paths()),
          work(asio::make_work_guard(io)),
          fleet(io, config, clock, metrics),
          encoder(io, config.gateway.token_cache_bytes, config.gateway.tokenize_threads, metrics),
          history(config.gateway.route_history),
          context{io, config.gateway, fleet, encoder, history, metrics},
          router(make_router(context, metrics, draining)),
          server(io, server_options(), router, metrics) {}

    HttpServer::Options server_options() {
        HttpServer::Options options;
        options.listen = config.gateway.listen;
        options.limits = config.gateway.limits;
        options.render_error = &render_http_error;
        options.precheck = [this](const HttpRequest& request) { return auth.check(request); };
        return options;
    }

    config::Config config;
    RealClock clock;
    Metrics metrics;
    Auth auth;
    std::atomic<bool> draining{false};
    asio::io_context io{1};
    asio::executor_work_guard<asio::io_context::executor_type> work;
    Fleet fleet;
    PromptEncoder encoder;
    RouteHistory history;
    PipelineContext context;
    Router router;
    HttpServer server;
    std::thread thread;
};

GatewayApp::GatewayApp(config::Config config)
    : parts_(std::make_unique<Parts>(std::move(config))) {}

GatewayApp::~GatewayApp() {
    stop();
}

Result<void> GatewayApp::start() {
    TAPROOT_CHECK_OK(parts_->server.start());
    TAPROOT_CHECK_OK(parts_->fleet.start());
    parts_->thread = std::thread([this] {
        try {
            parts_->io.run();
        } catch (const std::exception& error) {  // a door where exceptions stop
            log_error("the gateway's thread ended by an exception: {}; this is a bug",
                      error.what());
            std::abort();
        }
    });
    for (const std::string& warning : config::warnings(parts_->config)) log_warn("{}", warning);
    log_info("listening on {} (port {})", parts_->config.gateway.listen, port());
    return {};
}

std::uint16_t GatewayApp::port() const {
    return parts_->server.port();
}

void GatewayApp::stop() {
    if (!parts_->thread.joinable()) return;
    parts_->draining = true;
    Parts& parts = *parts_;
    TimePoint give_up =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(parts.config.gateway.drain_ms);
    asio::post(parts.io, [&parts] { parts.server.stop_accepting(); });
    // Ask the I/O thread until the last connection is gone or the time is up.
    while (std::chrono::steady_clock::now() < give_up) {
        std::promise<std::size_t> open;
        std::future<std::size_t> answer = open.get_future();
        asio::post(parts.io, [&parts, &open] { open.set_value(parts.server.connections()); });
        if (answer.get() == 0) break;
        std::promise<void> tick;
        tick.get_future().wait_for(std::chrono::milliseconds(20));
    }
    asio::post(parts.io, [&parts] {
        if (parts.fleet.requests_in_flight() > 0)
            log_warn("ending {} requests: they did not finish within {} ms",
                     parts.fleet.requests_in_flight(), parts.config.gateway.drain_ms);
        parts.fleet.stop();  // streams still open get an error event
    });
    std::promise<void> settled;
    asio::post(parts.io, [&parts, &settled] {
        parts.server.close_all();
        parts.work.reset();
        settled.set_value();
    });
    settled.get_future().wait();
    asio::post(parts.io, [&parts] { parts.io.stop(); });
    parts.thread.join();
    log_info("gateway stopped");
}

}  // namespace taproot::gateway
