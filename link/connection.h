// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>
#include <memory>
#include <string>

#include "link/link.h"

// The one implementation of LinkConnection (internal to link/: Beast stays out of link.h).
namespace taproot::link {

namespace websocket = boost::beast::websocket;

// One socket type for TCP and unix; the executor is the real one, so that no call is type-erased.
using LinkExecutor = asio::io_context::executor_type;
using LinkSocket = asio::basic_stream_socket<asio::generic::stream_protocol, LinkExecutor>;
using LinkStream = websocket::stream<LinkSocket, false>;  // no compression

// Limits, timeouts and binary frames, before the handshake.
void configure(LinkStream& stream, const LinkOptions& options);

// States:  open --close()--> closing --drained, goodbye said--> closed
//          open, closing --failure, abandon()--> closed
class WebSocketConnection final : public LinkConnection {
public:
    // `stream` has finished its handshake. `lease` is released when the connection has closed.
    WebSocketConnection(std::unique_ptr<LinkStream> stream, LinkOptions options, std::string peer,
                        std::shared_ptr<void> lease);

    void start(GatewayEnd handlers) override;
    void start(WorkerEnd handlers) override;
    void close(std::string reason) override;
    void abandon() override;
    [[nodiscard]] bool is_open() const override { return state_ == State::kOpen; }
    [[nodiscard]] std::size_t queued_bytes() const override { return queued_bytes_; }
    [[nodiscard]] std::string peer() const override { return peer_; }

protected:
    Result<void> queue_scratch() override;

private:
    enum class State { kOpen, kClosing, kClosed };
    // Takes every message off a frame; an error ends the connection.
    using OnFrame = std::function<Result<void>(WebSocketConnection&, std::string_view)>;
    struct Handlers {
        OnFrame on_frame;
        std::function<void(const Error&)> on_closed;
    };

    std::shared_ptr<WebSocketConnection> self() {
        return std::static_pointer_cast<WebSocketConnection>(shared_from_this());
    }
    void start_with(Handlers handlers);
    void read();
    void on_read(NetError error);
    void enqueue(std::string& bytes);
    void write();
    void on_write(NetError error);
    void say_goodbye();
    void fail(Error reason);
    void finish(Error reason);

    std::unique_ptr<LinkStream> stream_;
    const LinkOptions options_;
    const std::string peer_;
    std::shared_ptr<void> lease_;
    asio::steady_timer close_timer_;
    State state_ = State::kOpen;
    std::shared_ptr<Handlers> handlers_;  // shared with the call that runs one of them
    boost::beast::flat_buffer read_buffer_;
    std::deque<std::string> queue_;  // frames; the last may still grow to join_bytes
    std::string writing_;
    bool is_writing_ = false;
    bool end_is_told_ = false;      // on_closed has been posted
    std::size_t queued_bytes_ = 0;  // queue_ and writing_
    std::string close_reason_;
};

}  // namespace taproot::link
