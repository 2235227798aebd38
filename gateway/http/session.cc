// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/log.h"

namespace taproot::gateway {
namespace {

namespace http = boost::beast::http;
using Parser = http::request_parser<http::string_body>;

constexpr std::size_t kPipelinedBytesMax = 64 * 1024;  // read ahead while a request runs
constexpr std::uint64_t kLingerMs = 1'000;

std::string_view to_view(boost::beast::string_view text) {
    return {text.data(), text.size()};
}

// One spelling per path, before authentication and routing: absolute-form targets lose their
// origin, double and trailing slashes go. Percent-encoded or dotted paths match no route.
std::string normalise_path(std::string_view path) {
    if (std::size_t scheme = path.find("://");
        !path.starts_with('/') && scheme != std::string_view::npos) {
        std::size_t slash = path.find('/', scheme + 3);
        path = slash == std::string_view::npos ? std::string_view("/") : path.substr(slash);
    }
    std::string out;
    for (char c : path)
        if (c != '/' || out.empty() || out.back() != '/') out += c;
    if (out.size() > 1 && out.back() == '/') out.pop_back();
    return out;
}

HttpRequest to_request_head(const Parser& parser) {
    HttpRequest out;
    const auto& message = parser.get();
    out.method = std::string(to_view(message.method_string()));
    std::string_view target = to_view(message.target());
    std::size_t mark = std::min(target.find('?'), target.size());
    out.path = normalise_path(target.substr(0, mark));
    if (mark < target.size()) out.query = std::string(target.substr(mark + 1));
    for (const auto& field : message)
        out.headers.emplace_back(std::string(to_view(field.name_string())),
                                 std::string(to_view(field.value())));
    out.version = static_cast<int>(message.version());
    out.keep_alive = message.keep_alive();
    return out;
}

}  // namespace

Session::Session(asio::ip::tcp::socket socket, std::shared_ptr<SessionShared> shared)
    : socket_(std::move(socket)), watchdog_(socket_.get_executor()), shared_(std::move(shared)) {
    no_deadline();
    NetError ignored;
    socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

// --- the connection's life
// -------------------------------------------------------------------------

Awaitable<void> Session::run() {
    auto self = shared_from_this();
    asio::co_spawn(socket_.get_executor(), watch_deadline(), asio::detached);
    while (!closing_) {
        ReadOutcome outcome = co_await read_request();
        if (outcome == ReadOutcome::kClosed) break;
        if (outcome == ReadOutcome::kAnswered) continue;
        co_await handle_request();
    }
    if (!gone_) co_await linger();
    finished_ = true;
    close();
    watchdog_.cancel();
}

Awaitable<Session::ReadOutcome> Session::read_request() {
    Parser parser;
    parser.header_limit(static_cast<std::uint32_t>(shared_->limits.header_bytes));
    parser.body_limit(shared_->limits.body_bytes);
    expired_ = false;

    // Between requests the idle limit counts; from the first byte on, the header limit does.
    if (buffer_.size() == 0) {
        expires_in_ms(shared_->limits.idle_ms);
        auto [wait_error] =
            co_await socket_.async_wait(asio::ip::tcp::socket::wait_read, use_result);
        if (wait_error) co_return ReadOutcome::kClosed;
    }
    expires_in_ms(shared_->limits.header_read_ms);
    auto [header_error, header_size] =
        co_await http::async_read_header(socket_, buffer_, parser, use_result);
    if (header_error) {
        if (header_error == http::error::end_of_stream) co_return ReadOutcome::kClosed;
        if (header_error == http::error::header_limit) {
            co_await refuse(431, fmt::format("request headers are larger than {} bytes",
                                             shared_->limits.header_bytes));
        } else if (header_error == http::error::body_limit) {
            co_await refuse(413, fmt::format("request body is larger than {} bytes",
                                             shared_->limits.body_bytes));
        } else if (expired_) {
            co_await refuse(408, "the request headers did not arrive in time");
        } else if (header_error.category() ==
                   http::make_error_code(http::error::end_of_stream).category()) {
            co_await refuse(400, "malformed HTTP request: " + header_error.message());
        }
        co_return ReadOutcome::kClosed;
    }

    if (auto length = parser.content_length(); length && *length > shared_->limits.body_bytes) {
        co_await refuse(413, fmt::format("request body of {} bytes is larger than {} bytes",
                                         *length, shared_->limits.body_bytes));
        co_return ReadOutcome::kClosed;
    }
    request_ = to_request_head(parser);
    if (shared_->precheck) {
        if (std::optional<HttpResponse> refusal = shared_->precheck(request_)) {
            // Without its body the connection cannot go on to a next request.
            if (!parser.is_done()) closing_ = true;
            if (!request_.keep_alive) closing_ = true;
            responded_ = false;
            if (!co_await send(std::move(*refusal)) || closing_) co_return ReadOutcome::kClosed;
            co_return ReadOutcome::kAnswered;
        }
    }
    std::string_view expect = to_view(parser.get()[http::field::expect]);
    if (!expect.empty()) {
        if (!equals_ignoring_case(expect, "100-continue")) {
            co_await refuse(417, "only Expect: 100-continue is understood");
            co_return ReadOutcome::kClosed;
        }
        if (!parser.is_done() && buffer_.size() == 0 && request_.version >= 11 &&
            !co_await write_all("HTTP/1.1 100 Continue\r\n\r\n"))
            co_return ReadOutcome::kClosed;
    }
    if (!parser.is_done()) {
        expires_in_ms(shared_->limits.body_read_ms);
        auto [body_error, body_size] =
            co_await http::async_read(socket_, buffer_, parser, use_result);
        if (body_error) {
            if (body_error == http::error::body_limit) {
                co_await refuse(413, fmt::format("request body is larger than {} bytes",
                                                 shared_->limits.body_bytes));
            } else if (expired_) {
                co_await refuse(408, "the request body did not arrive in time");
            } else if (body_error.category() ==
                           http::make_error_code(http::error::end_of_stream).category() &&
                       body_error != http::error::partial_message) {
                co_await refuse(400, "malformed HTTP request body: " + body_error.message());
            }
            co_return ReadOutcome::kClosed;
        }
    }
    no_deadline();
    request_.body = std::move(parser.get().body());
    co_return ReadOutcome::kRequest;
}

Awaitable<void> Session::handle_request() {
    in_request_ = true;
    responded_ = false;
    streaming_ = false;
    gone_ = false;
    if (!request_.keep_alive || shared_->draining) closing_ = true;

    Router::Match match = shared_->router->find(request_.method, request_.path);
    if (match.handler == nullptr) {
        HttpResponse response = shared_->render_error(
            match.path_known ? 405 : 404,
            match.path_known
                ? fmt::format("{} does not take {}; allowed: {}", request_.path.substr(0, 200),
                              request_.method.substr(0, 20), match.allow)
                : fmt::format("no route {}", request_.path.substr(0, 200)));
        if (match.path_known) response.headers.emplace_back("Allow", match.allow);
        co_await send(std::move(response));
    } else {
        if (!watching_) {
            watching_ = true;
            asio::co_spawn(socket_.get_executor(), watch_client(), asio::detached);
        }
        bool failed = false;
        try {
            co_await (*match.handler)(*this);
        } catch (const std::exception& error) {  // a door where exceptions stop
            log_error("handler of {} threw: {}; this is a bug, the request was answered with 500",
                      request_.path, error.what());
            failed = true;
        }
        if (failed && !responded_) {
            co_await send(
                shared_->render_error(500, "internal error; the server's log has details"));
        } else if (failed || (streaming_ && !gone_)) {
            abort_stream();  // a stream that was not ended must not look complete
        } else if (!responded_ && !gone_) {
            co_await send(shared_->render_error(500, "the handler gave no answer"));
        }
    }
    notify_gone_ = nullptr;
    in_request_ = false;
    if (gone_) closing_ = true;
}

// Sees a client that leaves while its request waits or generates. One per connection at a time: it
// ends when it finds the connection between requests, and handle_request() starts it again.
Awaitable<void> Session::watch_client() {
    auto self = shared_from_this();
    while (in_request_ && !gone_ && buffer_.size() < kPipelinedBytesMax) {
        auto [error] = co_await socket_.async_wait(asio::ip::tcp::socket::wait_read, use_result);
        if (error || !in_request_) break;
        char peek;
        ssize_t got = ::recv(socket_.native_handle(), &peek, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got <= 0) {
            mark_gone();
            break;
        }
        // A pipelined request: take its bytes, so that an end behind them can be seen too.
        auto space = buffer_.prepare(16 * 1024);
        ssize_t taken = ::recv(socket_.native_handle(), space.data(), space.size(), MSG_DONTWAIT);
        if (taken > 0) buffer_.commit(static_cast<std::size_t>(taken));
    }
    watching_ = false;
}

// Polling a stored deadline costs a request nothing but a store; the timer is re-armed only when it
// fires.
Awaitable<void> Session::watch_deadline() {
    auto self = shared_from_this();
    while (!finished_) {
        TimePoint next = std::min(deadline_, std::chrono::steady_clock::now() + from_ms(1'000));
        watchdog_.expires_at(next);
        co_await watchdog_.async_wait(use_result);
        if (finished_) break;
        if (std::chrono::steady_clock::now() >= deadline_) {
            expired_ = true;
            no_deadline();
            NetError ignored;
            socket_.cancel(ignored);
        }
    }
}

// Reads until the peer closes (bounded), so that a refusal is not lost to a reset.
Awaitable<void> Session::linger() {
    NetError ignored;
    socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    expires_in_ms(kLingerMs);
    std::array<char, 4096> sink;
    for (int i = 0; i < 64; ++i) {
        auto [error, count] = co_await socket_.async_read_some(asio::buffer(sink), use_result);
        if (error) break;
    }
}

void Session::close() {
    NetError ignored;
    socket_.close(ignored);
    closing_ = true;
}

void Session::close_when_idle() {
    closing_ = true;
    if (!in_request_) {
        NetError ignored;
        socket_.cancel(ignored);
    }
}

void Session::mark_gone() {
    if (gone_) return;
    gone_ = true;
    closing_ = true;
    if (auto notify = std::exchange(notify_gone_, nullptr)) notify();
}

void Session::expires_in_ms(std::uint64_t ms) {
    expired_ = false;
    deadline_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(ms);
    if (watchdog_.expiry() > deadline_) watchdog_.cancel();
}

void Session::no_deadline() {
    deadline_ = TimePoint::max();
}

// --- answers
// ---------------------------------------------------------------------------------------

std::string Session::header_block(int status, std::string_view content_type,
                                  const HttpHeaders& headers) const {
    std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, reason_phrase(status));
    if (!content_type.empty())
        fmt::format_to(std::back_inserter(out), "Content-Type: {}\r\n", content_type);
    for (const auto& [name, value] : headers)
        fmt::format_to(std::back_inserter(out), "{}: {}\r\n", name, value);
    out += closing_ ? "Connection: close\r\n" : "Connection: keep-alive\r\n";
    return out;
}

Awaitable<bool> Session::write_all(std::string_view first, std::string_view second) {
    std::array<asio::const_buffer, 2> parts{asio::buffer(first.data(), first.size()),
                                            asio::buffer(second.data(), second.size())};
    while (parts[0].size() + parts[1].size() > 0) {
        if (gone_) co_return false;
        expires_in_ms(shared_->limits.slow_reader_ms);
        auto [error, count] = co_await socket_.async_write_some(parts, use_result);
        if (error) {
            if (expired_) {
                shared_->slow_readers_dropped->Increment();
                log_info("dropped a slow reader of {}: no progress for {} ms", request_.path,
                         shared_->limits.slow_reader_ms);
            }
            mark_gone();
            co_return false;
        }
        std::size_t from_first = std::min(count, parts[0].size());
        parts[0] += from_first;
        parts[1] += count - from_first;
    }
    no_deadline();
    co_return true;
}

Awaitable<bool> Session::send(HttpResponse response) {
    TAPROOT_ASSERT(!responded_);
    responded_ = true;
    shared_->responses_by_class[std::clamp(response.status / 100, 0, 5)]->Increment();
    std::string head = header_block(response.status, response.content_type, response.headers);
    fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n\r\n", response.body.size());
    co_return co_await write_all(head,
                                 request_.method == "HEAD" ? std::string_view() : response.body);
}

Awaitable<bool> Session::refuse(int status, std::string message) {
    closing_ = true;
    responded_ = false;
    request_ = HttpRequest{};
    co_return co_await send(shared_->render_error(status, message));
}

Awaitable<bool> Session::start_stream(int status, std::string_view content_type,
                                      const HttpHeaders& headers) {
    TAPROOT_ASSERT(!responded_);
    responded_ = true;
    streaming_ = true;
    shared_->responses_by_class[std::clamp(status / 100, 0, 5)]->Increment();
    if (request_.version < 11) closing_ = true;  // 1.0 knows no chunks: the close is the end
    std::string head = header_block(status, content_type, headers);
    head += request_.version < 11 ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n";
    co_return co_await write_all(head);
}

Awaitable<bool> Session::write(std::string_view data) {
    TAPROOT_ASSERT(streaming_);
    if (data.empty()) co_return !gone_;
    if (request_.version < 11) co_return co_await write_all(data);
    chunk_.clear();
    fmt::format_to(std::back_inserter(chunk_), "{:x}\r\n", data.size());
    chunk_ += data;
    chunk_ += "\r\n";
    co_return co_await write_all(chunk_);
}

Awaitable<bool> Session::end_stream() {
    TAPROOT_ASSERT(streaming_);
    streaming_ = false;
    if (request_.version < 11) co_return !gone_;
    co_return co_await write_all("0\r\n\r\n");
}

void Session::abort_stream() {
    streaming_ = false;
    responded_ = true;
    closing_ = true;
    NetError ignored;
    socket_.cancel(ignored);  // a write that waits for a slow reader ends now
    mark_gone();
}

}  // namespace taproot::gateway
