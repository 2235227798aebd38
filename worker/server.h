// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/net/aliases.h"
#include "base/result.h"
#include "link/link.h"
#include "worker/engine/engine.h"

namespace taproot {

struct ServerOptions {
    link::Hello hello;        // sent to every gateway, first
    std::string text_bundle;  // encoded TextModel, of hello.text_digest
    link::LinkOptions link;
    std::size_t outbox_max = 65'536;  // results on their way from the engine to the sockets
    Duration stall_warning = std::chrono::seconds(30);  // work without progress
};

// The worker's side of the link: gateways in, commands to the engine, results out.
//
//    gateway ── Generate, Cancel ──> io thread ── inbox ──> engine thread
//    gateway <── StepOutput, ... ─── io thread <── outbox ── (EngineSink)
//
// Threads: everything on the thread that runs `io`, except the EngineSink calls (engine thread),
// which put results into the outbox and wake the other side.
// Request ids are per connection; when one ends, what it asked for is cancelled. A gateway that
// does not read loses its connection (link write queue), and so do all when the outbox overflows.
// A cancel is never lost: while the engine's inbox is full it waits here, in order.
class WorkerServer final : public EngineSink {
public:
    WorkerServer(asio::io_context& io, ServerOptions options);
    ~WorkerServer() override;

    // Listens. The engine must outlive the server's last event on `io`.
    Result<void> start(const link::LinkAddress& address, Engine& engine);
    [[nodiscard]] link::LinkAddress address() const { return listener_->bound_address(); }

    // On the io thread. No new gateways; what is in the outbox is sent, then all links say goodbye.
    void close();
    void abandon();  // at once
    [[nodiscard]] std::size_t clients() const { return clients_.size(); }

    // EngineSink: engine thread.
    void on_step(ClientId client, link::StepOutput&& output) override;
    void on_rejected(ClientId client, link::Rejected&& rejected) override;
    void on_snapshot(ClientId client, link::KvSnapshot&& snapshot) override;
    void on_events(link::KvEventBatch&& events) override;
    void on_load(const link::Load& load) override;

private:
    struct Outgoing {
        std::optional<ClientId> client;  // none: to all
        std::variant<link::StepOutput, link::Rejected, link::KvSnapshot, link::KvEventBatch,
                     link::Load>
            message;
    };
    using Connection = std::shared_ptr<link::LinkConnection>;

    void accept(Connection connection);
    void closed(ClientId client, const Error& reason);
    void receive(ClientId client, link::ToWorker&& message);
    void receive_generate(ClientId client, link::Generate&& spec);
    void post_or_keep(Command command);
    void flush_kept();

    void hand_over(Outgoing outgoing);  // engine thread
    void send_outbox();
    template <typename Message>
    void send_to(Connection& connection, const Message& message);

    void watch();

    struct Timers;  // Asio types stay out of this header

    asio::io_context& io_;
    const ServerOptions options_;
    Engine* engine_ = nullptr;
    std::unique_ptr<link::LinkListener> listener_;
    std::map<ClientId, Connection> clients_;
    std::uint64_t next_client_ = 1;
    std::deque<Command> kept_;  // commands that did not fit the inbox yet

    BoundedQueue<Outgoing> outbox_;
    std::atomic<bool> wake_posted_{false};
    std::atomic<bool> overflowed_{false};

    std::unique_ptr<Timers> timers_;
    std::uint64_t watched_progress_ = 0;
    Duration stalled_for_{0};
    bool closing_ = false;
};

}  // namespace taproot
