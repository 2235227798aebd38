// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "config/schema.h"
#include "gateway/http/exchange.h"
#include "gateway/http/server.h"

namespace taproot::gateway {

// What all sessions of a server share. Lives as long as the last of them.
struct SessionShared {
    config::Limits limits;
    HttpServer::ErrorRenderer render_error;
    HttpServer::Precheck precheck;
    const Router* router;
    bool draining = false;
    prometheus::Counter* responses_by_class[6];  // [status / 100]
    prometheus::Counter* slow_readers_dropped;
};

// One connection: read a request, run its handler, write the answer, again. run() is the coroutine.
// It is its own Exchange, because a connection answers one request at a time (pipelined ones wait
// in the buffer). Owner: the I/O thread. Kept alive by its coroutines (shared self).
class Session final : public Exchange, public std::enable_shared_from_this<Session> {
public:
    Session(asio::ip::tcp::socket socket, std::shared_ptr<SessionShared> shared);

    Awaitable<void> run();
    void close();            // at once
    void close_when_idle();  // at once when between requests, else after the current answer

    // Exchange
    [[nodiscard]] const HttpRequest& request() const override { return request_; }
    [[nodiscard]] std::string take_body() override { return std::move(request_.body); }
    Awaitable<bool> send(HttpResponse response) override;
    Awaitable<bool> start_stream(int status, std::string_view content_type,
                                 const HttpHeaders& headers) override;
    Awaitable<bool> write(std::string_view data) override;
    Awaitable<bool> end_stream() override;
    void abort_stream() override;
    [[nodiscard]] bool client_gone() const override { return gone_; }
    void on_client_gone(std::function<void()> notify) override { notify_gone_ = std::move(notify); }

private:
    enum class ReadOutcome { kRequest, kClosed, kAnswered };

    Awaitable<ReadOutcome> read_request();
    Awaitable<void> handle_request();
    Awaitable<bool> refuse(int status, std::string message);  // answers, then closes
    Awaitable<bool> write_all(std::string_view first, std::string_view second = {});
    Awaitable<void> watch_client();
    Awaitable<void> watch_deadline();
    Awaitable<void> linger();

    void expires_in_ms(std::uint64_t ms);
    void no_deadline();
    void mark_gone();
    std::string header_block(int status, std::string_view content_type,
                             const HttpHeaders& headers) const;

    asio::ip::tcp::socket socket_;
    asio::steady_timer watchdog_;
    std::shared_ptr<SessionShared> shared_;
    boost::beast::flat_buffer buffer_;
    HttpRequest request_;

    TimePoint deadline_;    // when the watchdog cancels what is pending
    bool expired_ = false;  // it did
    bool closing_ = false;  // close after the current answer
    bool gone_ = false;
    bool in_request_ = false;
    bool responded_ = false;
    bool streaming_ = false;
    bool finished_ = false;  // run() has ended
    bool watching_ = false;
    std::function<void()> notify_gone_;
    std::string chunk_;  // reused frame buffer of write()
};

}  // namespace taproot::gateway
