// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/metrics.h"
#include "base/result.h"
#include "config/schema.h"
#include "gateway/http/router.h"

namespace boost::asio {
class io_context;
}

namespace taproot::gateway {

// Accepts connections and runs one coroutine per connection (session.cc). Everything a client can
// hold open or send is bounded by config::Limits. Owner: the io_context's single thread.
class HttpServer {
public:
    // How errors that arise before a handler runs (bad request line, 404, 413, ...) are worded:
    // status and message to a response. Lets gateway/openai own the error object's shape.
    using ErrorRenderer = HttpResponse (*)(int status, std::string_view message);

    // Asked with the headers alone, before a body is read or 100 Continue is sent: an answer
    // refuses the request (authentication, unknown path).
    using Precheck = std::function<std::optional<HttpResponse>(const HttpRequest&)>;

    struct Options {
        std::string listen;  // host:port
        config::Limits limits;
        ErrorRenderer render_error;
        Precheck precheck = nullptr;
    };

    // `router` must outlive the server.
    HttpServer(asio::io_context& io, Options options, const Router& router, Metrics& metrics);
    ~HttpServer();

    // Binds and begins to accept. Errors name the address and what to do.
    Result<void> start();
    [[nodiscard]] std::uint16_t port() const;

    // Stops accepting and closes idle connections at once; those in a request finish it (then
    // close).
    void stop_accepting();
    // Closes whatever is still open.
    void close_all();
    [[nodiscard]] std::size_t connections() const;

private:
    struct State;
    std::shared_ptr<State>
        state_;  // sessions in flight keep what they use alive until they are gone
};

// Splits "host:port" ("[::1]:80" too). Error when the port is missing or above 65535.
struct HostPort {
    std::string host;
    std::uint16_t port = 0;
};
Result<HostPort> parse_host_port(std::string_view text);

}  // namespace taproot::gateway
