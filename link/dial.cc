// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http/field.hpp>
#include <vector>

#include "link/connection.h"
#include "link/handshake.h"

namespace taproot::link {
namespace {

using Endpoint = asio::generic::stream_protocol::endpoint;

// What a running dial holds; the timer's handler holds it too, and ends whatever is pending.
struct Dial {
    explicit Dial(asio::io_context& io)
        : stream(std::make_unique<LinkStream>(LinkSocket(io.get_executor()))),
          resolver(io.get_executor()),
          timer(io.get_executor()) {}

    LinkSocket& socket() { return boost::beast::get_lowest_layer(*stream); }

    std::unique_ptr<LinkStream> stream;
    asio::ip::tcp::resolver resolver;
    asio::steady_timer timer;
    bool expired = false;
};

void expire(Dial& dial) {
    dial.expired = true;
    dial.resolver.cancel();
    if (dial.stream != nullptr) boost::beast::close_socket(dial.socket());
}

Error dial_error(const Dial& dial, const LinkAddress& address, const char* step, NetError error) {
    if (dial.expired)
        return {ErrorCode::kDeadline, fmt::format("{} took too long", step), address.to_string()};
    return {ErrorCode::kUnavailable, fmt::format("{} failed: {}", step, error.message()),
            address.to_string()};
}

Awaitable<Result<std::vector<Endpoint>>> resolve(std::shared_ptr<Dial> dial, LinkAddress address) {
    std::vector<Endpoint> out;
    if (address.is_unix()) {
        out.emplace_back(asio::local::stream_protocol::endpoint(address.path));
        co_return out;
    }
    NetError error;
    auto numeric = asio::ip::make_address(address.host, error);
    if (!error) {
        out.emplace_back(asio::ip::tcp::endpoint(numeric, address.port));
        co_return out;
    }
    std::string port = std::to_string(address.port);
    auto [resolve_error, results] =
        co_await dial->resolver.async_resolve(address.host, port, use_result);
    if (resolve_error) co_return dial_error(*dial, address, "resolving the name", resolve_error);
    for (const auto& entry : results) out.emplace_back(entry.endpoint());
    co_return out;
}

Awaitable<Result<void>> connect(std::shared_ptr<Dial> dial, LinkAddress address) {
    auto endpoints = co_await resolve(dial, address);
    if (!endpoints) co_return std::move(endpoints).error();
    NetError last = asio::error::not_found;
    for (const Endpoint& endpoint : *endpoints) {
        NetError ignored;
        dial->socket().close(ignored);
        if (dial->expired) break;
        auto [error] = co_await dial->socket().async_connect(endpoint, use_result);
        last = error;
        if (!error) break;
    }
    if (last || dial->expired) co_return dial_error(*dial, address, "connecting", last);
    co_return Result<void>{};
}

Awaitable<Result<void>> shake_hands(std::shared_ptr<Dial> dial, LinkAddress address,
                                    LinkOptions options) {
    NetError error;
    if (!address.is_unix()) dial->socket().set_option(asio::ip::tcp::no_delay(true), error);
    configure(*dial->stream, options);
    dial->stream->set_option(websocket::stream_base::decorator(&decorate_request));
    std::string host = address.is_unix() ? "localhost" : address.to_string();
    websocket::response_type response;
    auto [handshake_error] =
        co_await dial->stream->async_handshake(response, host, kTarget, use_result);
    if (handshake_error) {
        const char* step = handshake_error == websocket::error::upgrade_declined
                               ? "the handshake was refused (not a taproot worker?) and"
                               : "the handshake";
        co_return dial_error(*dial, address, step, handshake_error);
    }
    if (response[boost::beast::http::field::sec_websocket_protocol] != kSubprotocol)
        co_return Error{ErrorCode::kUnavailable, "answers, but is not a taproot worker",
                        address.to_string()};
    co_return Result<void>{};
}

}  // namespace

Awaitable<Result<std::shared_ptr<LinkConnection>>> dial(asio::io_context& io, LinkAddress address,
                                                        LinkOptions options, Duration timeout) {
    auto state = std::make_shared<Dial>(io);
    state->timer.expires_after(timeout);
    state->timer.async_wait([state](NetError error) {
        if (!error) expire(*state);
    });
    Result<void> done = co_await connect(state, address);
    if (done) done = co_await shake_hands(state, address, options);
    state->timer.cancel();
    if (done && state->expired) done = dial_error(*state, address, "the handshake", {});
    if (!done) {
        NetError ignored;
        state->socket().close(ignored);
        co_return std::move(done).error();
    }
    std::shared_ptr<LinkConnection> connection = std::make_shared<WebSocketConnection>(
        std::move(state->stream), options, address.to_string(), nullptr);
    co_return connection;
}

}  // namespace taproot::link
