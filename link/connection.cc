// SPDX-License-Identifier: Apache-2.0
#include "link/connection.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <utility>

namespace taproot::link {
namespace {

// Buffers above this are given back after use; below it they are kept for the next frame.
constexpr std::size_t kKeptBufferBytes = 1_MiB;

template <typename Message, typename Decode, typename OnMessage>
auto frame_handler(Decode decode, OnMessage on_message) {
    return [decode, on_message = std::move(on_message)](WebSocketConnection& connection,
                                                        std::string_view frame) -> Result<void> {
        do {
            Result<Message> message = decode(frame);
            if (!message) return std::move(message).error();
            if (on_message) on_message(std::move(message).value());
        } while (!frame.empty() && connection.is_open());
        return {};
    };
}

Error broken(std::string what, const NetError& error) {
    return Error{ErrorCode::kUnavailable, fmt::format("{}: {}", what, error.message()), {}};
}

}  // namespace

void configure(LinkStream& stream, const LinkOptions& options) {
    websocket::stream_base::timeout timeout{};
    timeout.handshake_timeout = options.handshake_timeout;
    timeout.idle_timeout = options.idle_timeout;
    timeout.keep_alive_pings = true;
    stream.set_option(timeout);
    stream.read_message_max(options.frame_bytes_max);
    stream.auto_fragment(false);
    stream.binary(true);
    // A gateway's frames are masked through this buffer: one system call for a usual prompt.
    stream.write_buffer_bytes(64_KiB);
}

WebSocketConnection::WebSocketConnection(std::unique_ptr<LinkStream> stream, LinkOptions options,
                                         std::string peer, std::shared_ptr<void> lease)
    : stream_(std::move(stream)),
      options_(options),
      peer_(std::move(peer)),
      lease_(std::move(lease)),
      close_timer_(stream_->get_executor()) {}

void WebSocketConnection::start(GatewayEnd handlers) {
    start_with({frame_handler<ToGateway>(&decode_to_gateway, std::move(handlers.on_message)),
                std::move(handlers.on_closed)});
}

void WebSocketConnection::start(WorkerEnd handlers) {
    start_with({frame_handler<ToWorker>(&decode_to_worker, std::move(handlers.on_message)),
                std::move(handlers.on_closed)});
}

void WebSocketConnection::start_with(Handlers handlers) {
    TAPROOT_ASSERT(handlers_ == nullptr);
    if (state_ == State::kClosed) {  // a send before start() met a dead peer
        handlers_ = std::make_shared<Handlers>(std::move(handlers));
        return finish({ErrorCode::kUnavailable, "the connection ended before it started", {}});
    }
    handlers_ = std::make_shared<Handlers>(std::move(handlers));
    read();
}

void WebSocketConnection::read() {
    stream_->async_read(read_buffer_,
                        [self = self()](NetError error, std::size_t) { self->on_read(error); });
}

void WebSocketConnection::on_read(NetError error) {
    if (state_ == State::kClosed) return;
    if (error == websocket::error::closed)
        return fail({ErrorCode::kUnavailable, "the peer closed the connection", {}});
    if (error == websocket::error::message_too_big)
        return fail({ErrorCode::kTooLarge,
                     fmt::format("a frame is larger than {} bytes", options_.frame_bytes_max),
                     {}});
    if (error == boost::beast::error::timeout)
        return fail({ErrorCode::kDeadline,
                     fmt::format("silent for {} ms", to_ms(options_.idle_timeout)),
                     {}});
    if (error) return fail(broken("the connection broke", error));
    if (state_ == State::kOpen) {
        if (!stream_->got_binary())
            return fail({ErrorCode::kDataLoss, "a text frame where only binary ones are", {}});
        auto handlers = handlers_;
        std::string_view frame(static_cast<const char*>(read_buffer_.cdata().data()),
                               read_buffer_.size());
        if (auto done = handlers->on_frame(*this, frame); !done)
            return fail(std::move(done).error());
        if (state_ == State::kClosed) return;
    }
    read_buffer_.clear();
    if (read_buffer_.capacity() > kKeptBufferBytes) read_buffer_.shrink_to_fit();
    read();
}

Result<void> WebSocketConnection::queue_scratch() {
    std::size_t size = scratch_.size();
    Result<void> outcome;
    if (state_ != State::kOpen) {
        outcome = Error{ErrorCode::kUnavailable, "the connection has ended", peer_};
    } else if (size > options_.frame_bytes_max) {
        outcome =
            Error{ErrorCode::kTooLarge,
                  fmt::format("a message of {} bytes, allowed {}", size, options_.frame_bytes_max),
                  peer_};
    } else if (queued_bytes_ + size > options_.write_queue_bytes_max) {
        Error slow{ErrorCode::kQueueFull,
                   fmt::format("slow peer: {} bytes wait to be read", queued_bytes_), peer_};
        fail(slow);
        outcome = std::move(slow);
    } else {
        enqueue(scratch_);
    }
    scratch_.clear();
    if (scratch_.capacity() > kKeptBufferBytes) scratch_.shrink_to_fit();
    return outcome;
}

void WebSocketConnection::enqueue(std::string& bytes) {
    queued_bytes_ += bytes.size();
    if (!queue_.empty() && queue_.back().size() + bytes.size() <= options_.join_bytes) {
        queue_.back() += bytes;
    } else {
        queue_.emplace_back();
        queue_.back().swap(bytes);
    }
    if (!is_writing_) write();
}

void WebSocketConnection::write() {
    is_writing_ = true;
    writing_ = std::move(queue_.front());
    queue_.pop_front();
    stream_->async_write(asio::buffer(writing_),
                         [self = self()](NetError error, std::size_t) { self->on_write(error); });
}

void WebSocketConnection::on_write(NetError error) {
    is_writing_ = false;
    queued_bytes_ -= writing_.size();
    // The string goes back to be the next scratch: its storage is reused.
    if (writing_.capacity() <= kKeptBufferBytes && scratch_.capacity() < writing_.capacity()) {
        writing_.clear();
        scratch_.swap(writing_);
    }
    if (state_ == State::kClosed) return;
    if (error) return fail(broken("writing failed", error));
    if (!queue_.empty()) return write();
    if (state_ == State::kClosing) say_goodbye();
}

void WebSocketConnection::close(std::string reason) {
    if (state_ != State::kOpen) return;
    state_ = State::kClosing;
    close_reason_ = std::move(reason);
    close_timer_.expires_after(options_.close_timeout);
    close_timer_.async_wait([self = self()](NetError error) {
        if (!error) self->finish({ErrorCode::kCancelled, self->close_reason_, {}});
    });
    if (!is_writing_) say_goodbye();
}

void WebSocketConnection::say_goodbye() {
    stream_->async_close(websocket::close_code::normal, [self = self()](NetError) {
        self->finish({ErrorCode::kCancelled, self->close_reason_, {}});
    });
}

void WebSocketConnection::fail(Error reason) {
    // While we are leaving, every end is the end we asked for.
    if (state_ == State::kClosing) reason = {ErrorCode::kCancelled, close_reason_, {}};
    if (reason.where.empty()) reason.where = peer_;
    finish(std::move(reason));
}

void WebSocketConnection::finish(Error reason) {
    if (state_ != State::kClosed) {
        state_ = State::kClosed;
        close_timer_.cancel();
        boost::beast::close_socket(boost::beast::get_lowest_layer(*stream_));
        queue_.clear();
        queued_bytes_ = writing_.size();
        lease_.reset();
    }
    if (handlers_ == nullptr || end_is_told_) return;
    end_is_told_ = true;
    asio::post(stream_->get_executor(), [self = self(), reason = std::move(reason)] {
        auto handlers = std::exchange(self->handlers_, nullptr);
        if (handlers != nullptr && handlers->on_closed) handlers->on_closed(reason);
    });
}

void WebSocketConnection::abandon() {
    handlers_.reset();
    finish({ErrorCode::kCancelled, "abandoned", {}});
}

}  // namespace taproot::link
