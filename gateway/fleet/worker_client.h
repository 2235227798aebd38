// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/net/aliases.h"
#include "base/result.h"
#include "base/types.h"
#include "link/link.h"

namespace taproot::gateway {

// What a WorkerClient tells its owner. All calls on the I/O thread, never from inside a call to the
// client. Between on_ready and on_lost the worker serves; on_lost also ends a connection that never
// became ready.
class WorkerEvents {
public:
    virtual ~WorkerEvents() = default;
    // An error refuses the worker: the link closes and is tried again later.
    virtual Result<void> on_hello(WorkerId worker, const link::Hello& hello) = 0;
    virtual bool knows_text(std::uint64_t digest) = 0;
    virtual Result<void> on_text(WorkerId worker, const link::TextBundle& text) = 0;
    virtual Result<void> on_ready(WorkerId worker) = 0;
    virtual void on_lost(WorkerId worker, const Error& reason) = 0;
    virtual void on_step(WorkerId worker, link::StepOutput&& step) = 0;
    virtual void on_rejected(WorkerId worker, const link::Rejected& rejected) = 0;
    virtual void on_load(WorkerId worker, const link::Load& load) = 0;
    virtual void on_kv_events(WorkerId worker, const link::KvEventBatch& batch) = 0;
    virtual void on_kv_snapshot(WorkerId worker, const link::KvSnapshot& snapshot) = 0;
};

// Keeps one link to one worker: dials, greets, prepares, serves, and starts over when it ends.
//
//   away ──dial──> greeting ──Hello──> preparing ──text and snapshot──> ready
//    ▲ backoff 10 ms, doubled up to reconnect_max, from 10 ms again after ready          │
//    └───────────────────────── closed, refused, or not ready in time ───────────────────┘
//
// A dead or hanging peer is noticed by the link itself (closed socket, unanswered pings).
// Owner: the gateway's I/O thread. Lives as long as its dial loop; `events` until stop() or
// detach().
class WorkerClient : public std::enable_shared_from_this<WorkerClient> {
public:
    struct Options {
        WorkerId worker;
        std::string name;
        link::LinkAddress address;
        link::LinkOptions link;
        Duration dial_timeout = std::chrono::seconds(5);
        Duration ready_timeout = std::chrono::seconds(60);  // from connected to ready
        Duration reconnect_max = std::chrono::seconds(2);
    };
    static constexpr Duration kReconnectMin = std::chrono::milliseconds(10);

    WorkerClient(asio::io_context& io, Options options, WorkerEvents& events);

    void start();
    // Says goodbye; no event follows, not even on_lost.
    void stop();

    [[nodiscard]] bool ready() const { return state_ == State::kReady; }
    // Any message of ToWorker. kUnavailable when there is no link.
    template <typename Message>
    Result<void> send(const Message& message) {
        if (connection_ == nullptr) return away();
        return connection_->send(message);
    }
    // Asks for the whole tree; on_kv_snapshot follows.
    void fetch_snapshot();

private:
    enum class State { kAway, kGreeting, kPreparing, kReady };

    static Awaitable<void> run(std::shared_ptr<WorkerClient> self);
    void attach(std::shared_ptr<link::LinkConnection> connection);
    void on_message(link::ToGateway&& message);
    void on_hello(const link::Hello& hello);
    void on_text(const link::TextBundle& text);
    void on_data(link::ToGateway&& message);
    void became_prepared();
    void refuse(Error reason);
    void on_closed(const Error& reason);
    void log_away(const Error& reason);
    [[nodiscard]] Error away() const;

    asio::io_context& io_;
    const Options options_;
    WorkerEvents* events_;  // null after stop()
    asio::steady_timer timer_;
    std::shared_ptr<link::LinkConnection> connection_;
    State state_ = State::kAway;
    bool has_text_ = false;
    bool has_snapshot_ = false;
    std::uint64_t epoch_ = 0;
    std::uint64_t text_digest_ = 0;
    Duration backoff_ = kReconnectMin;
    std::string last_logged_;  // the same trouble is logged once
};

}  // namespace taproot::gateway
