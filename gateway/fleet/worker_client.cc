// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/worker_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "base/log.h"

namespace taproot::gateway {

WorkerClient::WorkerClient(asio::io_context& io, Options options, WorkerEvents& events)
    : io_(io), options_(std::move(options)), events_(&events), timer_(io) {}

void WorkerClient::start() {
    asio::co_spawn(io_, run(shared_from_this()), asio::detached);
}

void WorkerClient::stop() {
    if (events_ == nullptr) return;
    events_ = nullptr;
    timer_.cancel();
    // The connection keeps itself until it has said goodbye; its handlers find events_ gone.
    if (connection_ != nullptr) connection_->close("the gateway stops");
    connection_.reset();
    state_ = State::kAway;
}

// The timer does all the waiting: until ready at the latest, until the link has closed, and for
// the backoff. Whoever changes something cancels it.
Awaitable<void> WorkerClient::run(std::shared_ptr<WorkerClient> self) {
    while (self->events_ != nullptr) {
        auto dialled = co_await link::dial(self->io_, self->options_.address, self->options_.link,
                                           self->options_.dial_timeout);
        if (self->events_ == nullptr) {
            if (dialled) (*dialled)->abandon();
            co_return;
        }
        if (dialled) {
            self->attach(std::move(*dialled));
            self->timer_.expires_after(self->options_.ready_timeout);
            while (self->connection_ != nullptr) {
                auto [cancelled] = co_await self->timer_.async_wait(use_result);
                if (!cancelled && self->connection_ != nullptr && !self->ready())
                    self->refuse({ErrorCode::kDeadline, "did not become ready in time", {}});
                self->timer_.expires_at(asio::steady_timer::time_point::max());
            }
        } else {
            self->log_away(dialled.error());
        }
        if (self->events_ == nullptr) co_return;
        self->timer_.expires_after(self->backoff_);
        self->backoff_ =
            std::max(kReconnectMin, std::min(self->backoff_ * 2, self->options_.reconnect_max));
        co_await self->timer_.async_wait(use_result);
    }
}

void WorkerClient::attach(std::shared_ptr<link::LinkConnection> connection) {
    connection_ = std::move(connection);
    state_ = State::kGreeting;
    has_text_ = has_snapshot_ = false;
    link::LinkConnection::GatewayEnd end;
    end.on_message = [self = shared_from_this()](link::ToGateway&& message) {
        if (self->events_ != nullptr) self->on_message(std::move(message));
    };
    end.on_closed = [self = shared_from_this()](const Error& reason) {
        if (self->events_ != nullptr) self->on_closed(reason);
    };
    connection_->start(std::move(end));
}

void WorkerClient::on_message(link::ToGateway&& message) {
    if (connection_ == nullptr || !connection_->is_open()) return;
    if (const auto* hello = std::get_if<link::Hello>(&message)) return on_hello(*hello);
    if (state_ == State::kGreeting)
        return refuse({ErrorCode::kDataLoss,
                       fmt::format("sent {} before Hello", link::name_of(message)),
                       {}});
    if (const auto* text = std::get_if<link::TextBundle>(&message)) return on_text(*text);
    on_data(std::move(message));
}

void WorkerClient::on_hello(const link::Hello& hello) {
    if (hello.version != link::kProtocolVersion)
        return refuse(
            {ErrorCode::kUnsupported,
             fmt::format("worker '{}' (build {}) speaks version {} of the link, this "
                         "gateway speaks {}: run the same build of both",
                         hello.worker, hello.build, hello.version, link::kProtocolVersion),
             {}});
    if (state_ != State::kGreeting) return refuse({ErrorCode::kDataLoss, "sent Hello twice", {}});
    state_ = State::kPreparing;
    epoch_ = hello.epoch;
    text_digest_ = hello.text_digest;
    if (auto taken = events_->on_hello(options_.worker, hello); !taken)
        return refuse(std::move(taken).error());
    fetch_snapshot();
    has_text_ = events_->knows_text(hello.text_digest);
    if (!has_text_) send(link::FetchText{hello.text_digest}).ignore("a broken link reports itself");
}

void WorkerClient::on_text(const link::TextBundle& text) {
    if (has_text_ || text.digest != text_digest_)
        return refuse({ErrorCode::kDataLoss, "sent a text model nobody asked for", {}});
    if (link::text_digest(text.bytes) != text.digest)
        return refuse({ErrorCode::kDataLoss, "sent a text model that fails its digest", {}});
    if (auto taken = events_->on_text(options_.worker, text); !taken)
        return refuse(std::move(taken).error());
    has_text_ = true;
    became_prepared();
}

void WorkerClient::on_data(link::ToGateway&& message) {
    WorkerId worker = options_.worker;
    if (const auto* batch = std::get_if<link::KvEventBatch>(&message)) {
        if (batch->epoch != epoch_)
            return refuse({ErrorCode::kDataLoss, "sent events of another epoch", {}});
        events_->on_kv_events(worker, *batch);
    } else if (const auto* snapshot = std::get_if<link::KvSnapshot>(&message)) {
        if (snapshot->epoch != epoch_)
            return refuse({ErrorCode::kDataLoss, "sent a snapshot of another epoch", {}});
        events_->on_kv_snapshot(worker, *snapshot);
        has_snapshot_ = true;
        became_prepared();
    } else if (auto* step = std::get_if<link::StepOutput>(&message)) {
        events_->on_step(worker, std::move(*step));
    } else if (const auto* rejected = std::get_if<link::Rejected>(&message)) {
        events_->on_rejected(worker, *rejected);
    } else if (const auto* load = std::get_if<link::Load>(&message)) {
        events_->on_load(worker, *load);
    }
    // Pong needs no answer: that it came is what keeps the link alive.
}

void WorkerClient::became_prepared() {
    if (state_ != State::kPreparing || !has_text_ || !has_snapshot_) return;
    if (auto taken = events_->on_ready(options_.worker); !taken)
        return refuse(std::move(taken).error());
    state_ = State::kReady;
    backoff_ = kReconnectMin;
    last_logged_.clear();
    log_info("worker {}: ready (epoch {:x})", options_.name, epoch_);
}

void WorkerClient::fetch_snapshot() {
    send(link::FetchSnapshot{epoch_}).ignore("a broken link reports itself");
}

// Ends the link from here; the owner hears on_lost with the reason.
void WorkerClient::refuse(Error reason) {
    if (connection_ == nullptr) return;
    connection_->abandon();
    on_closed(reason);
}

void WorkerClient::on_closed(const Error& reason) {
    connection_.reset();
    state_ = State::kAway;
    log_away(reason);
    timer_.cancel();
    events_->on_lost(options_.worker, reason);
}

void WorkerClient::log_away(const Error& reason) {
    std::string line = reason.describe();
    if (line == last_logged_) return;
    log_warn("worker {}: {}; trying again", options_.name, line);
    last_logged_ = std::move(line);
}

Error WorkerClient::away() const {
    return {ErrorCode::kUnavailable, "the worker is away", options_.name};
}

}  // namespace taproot::gateway
