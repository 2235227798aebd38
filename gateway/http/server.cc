// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/server.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <charconv>
#include <unordered_set>

#include "base/log.h"
#include "gateway/http/session.h"

namespace taproot::gateway {

using asio::ip::tcp;

Result<HostPort> parse_host_port(std::string_view text) {
    std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos)
        return invalid_argument(
            fmt::format("'{}' has no port; write host:port, such as 127.0.0.1:8080", text));
    std::string_view host = text.substr(0, colon);
    if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    std::string_view digits = text.substr(colon + 1);
    unsigned port = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size() || port > 65535)
        return invalid_argument(fmt::format("'{}': the port must be 0..65535", text));
    return HostPort{host.empty() ? "0.0.0.0" : std::string(host), static_cast<std::uint16_t>(port)};
}

struct HttpServer::State : std::enable_shared_from_this<HttpServer::State> {
    State(asio::io_context& context, Options chosen)
        : io(context), options(std::move(chosen)), acceptor(context), pause(context) {}

    Awaitable<void> accept_loop();
    Awaitable<void> run_session(std::shared_ptr<Session> session);
    void refuse_connection(tcp::socket socket);

    asio::io_context& io;
    Options options;
    tcp::acceptor acceptor;
    asio::steady_timer pause;
    std::shared_ptr<SessionShared> shared = std::make_shared<SessionShared>();
    std::unordered_set<std::shared_ptr<Session>> sessions;
    prometheus::Gauge* open = nullptr;
    prometheus::Counter* refused = nullptr;
    std::uint16_t port = 0;
};

HttpServer::HttpServer(asio::io_context& io, Options options, const Router& router,
                       Metrics& metrics)
    : state_(std::make_shared<State>(io, std::move(options))) {
    SessionShared& shared = *state_->shared;
    shared.limits = state_->options.limits;
    shared.render_error = state_->options.render_error;
    shared.precheck = state_->options.precheck;
    shared.router = &router;
    for (int c = 0; c < 6; ++c)
        shared.responses_by_class[c] =
            &metrics.counter("taproot_gateway_responses_total", "HTTP responses by status class.",
                             {{"class", fmt::format("{}xx", c)}});
    shared.slow_readers_dropped =
        &metrics.counter("taproot_gateway_slow_readers_dropped_total",
                         "Streams ended because the client did not read.");
    state_->open = &metrics.gauge("taproot_gateway_connections", "Open client connections.");
    state_->refused = &metrics.counter("taproot_gateway_connections_refused_total",
                                       "Connections closed at once: the limit was reached.");
}

HttpServer::~HttpServer() {
    close_all();
}

Result<void> HttpServer::start() {
    TAPROOT_TRY(HostPort where, parse_host_port(state_->options.listen));
    NetError error;
    tcp::resolver resolver(state_->io);
    auto found = resolver.resolve(where.host, std::to_string(where.port),
                                  tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (error || found.empty())
        return Error{ErrorCode::kIo, "cannot resolve the address: " + error.message(),
                     state_->options.listen};
    tcp::endpoint endpoint = *found.begin();
    tcp::acceptor& acceptor = state_->acceptor;
    acceptor.open(endpoint.protocol(), error);
    if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor.bind(endpoint, error);
    if (!error) acceptor.listen(1024, error);
    if (error)
        return Error{
            ErrorCode::kIo,
            fmt::format("cannot listen: {}; is another server on this port? choose another "
                        "with gateway.listen or --port",
                        error.message()),
            state_->options.listen};
    state_->port = acceptor.local_endpoint().port();
    asio::co_spawn(state_->io, state_->accept_loop(), asio::detached);
    return {};
}

std::uint16_t HttpServer::port() const {
    return state_->port;
}
std::size_t HttpServer::connections() const {
    return state_->sessions.size();
}

Awaitable<void> HttpServer::State::accept_loop() {
    auto self = shared_from_this();
    while (acceptor.is_open()) {
        auto [error, socket] = co_await acceptor.async_accept(use_result);
        if (error == asio::error::operation_aborted || error == asio::error::bad_descriptor) break;
        if (error) {
            // Out of descriptors or memory: wait for some to come back instead of spinning.
            log_warn("cannot accept a connection: {}; trying again in 100 ms", error.message());
            pause.expires_after(std::chrono::milliseconds(100));
            co_await pause.async_wait(use_result);
            continue;
        }
        if (sessions.size() >= options.limits.connections) {
            refuse_connection(std::move(socket));
            continue;
        }
        auto session = std::make_shared<Session>(std::move(socket), shared);
        sessions.insert(session);
        open->Set(static_cast<double>(sessions.size()));
        asio::co_spawn(io, run_session(std::move(session)), asio::detached);
    }
}

Awaitable<void> HttpServer::State::run_session(std::shared_ptr<Session> session) {
    auto self = shared_from_this();
    try {
        co_await session->run();
    } catch (const std::exception& error) {  // a door where exceptions stop
        log_error("a connection ended by an exception: {}; this is a bug", error.what());
        session->close();
    }
    sessions.erase(session);
    open->Set(static_cast<double>(sessions.size()));
}

void HttpServer::State::refuse_connection(tcp::socket socket) {
    refused->Increment();
    HttpResponse response =
        options.render_error(503, fmt::format("all {} connections are in use; try again shortly",
                                              options.limits.connections));
    std::string text = fmt::format(
        "HTTP/1.1 503 {}\r\nContent-Type: {}\r\nRetry-After: 1\r\nConnection: "
        "close\r\nContent-Length: {}\r\n\r\n{}",
        reason_phrase(503), response.content_type, response.body.size(), response.body);
    NetError ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);  // best effort: it fits a fresh socket's buffer
    socket.shutdown(tcp::socket::shutdown_send, ignored);
}

void HttpServer::stop_accepting() {
    NetError ignored;
    state_->acceptor.close(ignored);
    state_->shared->draining = true;
    for (const auto& session : state_->sessions) session->close_when_idle();
}

void HttpServer::close_all() {
    NetError ignored;
    state_->acceptor.close(ignored);
    auto open_sessions = state_->sessions;  // close() may run handlers that erase
    for (const auto& session : open_sessions) session->close();
}

}  // namespace taproot::gateway
