// SPDX-License-Identifier: Apache-2.0
#include "worker/server.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <type_traits>
#include <utility>

#include "base/assert.h"
#include "base/log.h"

namespace taproot {
namespace {

constexpr std::size_t kKeptMax = 1u << 20;  // commands: far above what open requests can cause
constexpr Duration kKeptRetry = std::chrono::milliseconds(1);
constexpr Duration kWatchEvery = std::chrono::seconds(5);

}  // namespace

struct WorkerServer::Timers {
    explicit Timers(asio::io_context& io) : kept(io), watch(io) {}
    asio::steady_timer kept;
    asio::steady_timer watch;
};

WorkerServer::WorkerServer(asio::io_context& io, ServerOptions options)
    : io_(io),
      options_(std::move(options)),
      outbox_(options_.outbox_max),
      timers_(std::make_unique<Timers>(io)) {}

WorkerServer::~WorkerServer() = default;

Result<void> WorkerServer::start(const link::LinkAddress& address, Engine& engine) {
    engine_ = &engine;
    auto on_connection = [this](Connection connection) { accept(std::move(connection)); };
    TAPROOT_TRY(listener_, link::LinkListener::listen(io_, address, options_.link, on_connection));
    watch();
    return {};
}

// --- gateways ------------------------------------------------------------------------------------

void WorkerServer::accept(Connection connection) {
    ClientId client{next_client_++};
    log_info("{}: gateway {} connected from {}", options_.hello.worker, client.value,
             connection->peer());
    clients_[client] = connection;
    send_to(connection, link::ToGateway(options_.hello));
    link::LinkConnection::WorkerEnd handlers;
    handlers.on_message = [this, client](link::ToWorker&& message) {
        receive(client, std::move(message));
    };
    handlers.on_closed = [this, client](const Error& reason) { closed(client, reason); };
    connection->start(std::move(handlers));
    post_or_keep({client, ClientHere{}});
}

void WorkerServer::closed(ClientId client, const Error& reason) {
    log_info("{}: gateway {} gone: {}", options_.hello.worker, client.value, reason.message);
    clients_.erase(client);
    post_or_keep({client, ClientGone{}});
}

void WorkerServer::receive(ClientId client, link::ToWorker&& message) {
    auto found = clients_.find(client);
    if (found == clients_.end()) return;
    std::visit(
        [&](auto&& what) {
            using What = std::decay_t<decltype(what)>;
            if constexpr (std::is_same_v<What, link::Generate>) {
                receive_generate(client, std::move(what));
            } else if constexpr (std::is_same_v<What, link::FetchText>) {
                // Whatever digest was asked for: the answer names its own.
                link::TextBundle bundle{options_.hello.text_digest, options_.text_bundle};
                send_to(found->second, link::ToGateway(std::move(bundle)));
            } else if constexpr (std::is_same_v<What, link::Ping>) {
                send_to(found->second, link::ToGateway(link::Pong{what.nonce}));
            } else {
                post_or_keep({client, std::move(what)});
            }
        },
        std::move(message));
}

void WorkerServer::receive_generate(ClientId client, link::Generate&& spec) {
    RequestId request = spec.request;
    bool taken = kept_.empty() && engine_->has_room_for_requests() &&
                 engine_->post({client, std::move(spec)});
    if (taken) return;
    link::Rejected rejected{request, link::RejectReason::kQueueFull, "the worker's inbox is full",
                            100};
    if (closing_) {
        rejected.reason = link::RejectReason::kShuttingDown;
        rejected.message = "the worker is shutting down";
        rejected.retry_after_ms = 0;
    }
    send_to(clients_.at(client), link::ToGateway(std::move(rejected)));
}

// --- to the engine -------------------------------------------------------------------------------

void WorkerServer::post_or_keep(Command command) {
    // The order of commands of one gateway matters, so nothing overtakes what is kept.
    if (kept_.empty() && engine_->post(command)) return;
    if (closing_) return;  // the engine has ended all requests
    if (kept_.size() >= kKeptMax) {
        log_error("{}: {} commands wait for the engine; dropping all gateways",
                  options_.hello.worker, kept_.size());
        for (auto& [client, connection] : clients_) connection->close("too many commands");
        return;
    }
    kept_.push_back(std::move(command));
    if (kept_.size() == 1) flush_kept();
}

void WorkerServer::flush_kept() {
    while (!kept_.empty()) {
        Command command = kept_.front();
        if (!engine_->post(std::move(command))) break;
        kept_.pop_front();
    }
    if (kept_.empty() || closing_) return;
    timers_->kept.expires_after(kKeptRetry);
    timers_->kept.async_wait([this](NetError error) {
        if (!error) flush_kept();
    });
}

// --- from the engine -----------------------------------------------------------------------------

void WorkerServer::on_step(ClientId client, link::StepOutput&& output) {
    hand_over({client, std::move(output)});
}
void WorkerServer::on_rejected(ClientId client, link::Rejected&& rejected) {
    hand_over({client, std::move(rejected)});
}
void WorkerServer::on_snapshot(ClientId client, link::KvSnapshot&& snapshot) {
    hand_over({client, std::move(snapshot)});
}
void WorkerServer::on_events(link::KvEventBatch&& events) {
    hand_over({std::nullopt, std::move(events)});
}
void WorkerServer::on_load(const link::Load& load) {
    hand_over({std::nullopt, load});
}

void WorkerServer::hand_over(Outgoing outgoing) {
    if (!outbox_.try_push(std::move(outgoing))) overflowed_.store(true);
    if (wake_posted_.exchange(true)) return;
    asio::post(io_, [this] { send_outbox(); });
}

void WorkerServer::send_outbox() {
    wake_posted_.store(false);  // before the drain: what comes later posts again
    std::vector<Outgoing> batch = outbox_.drain();
    for (Outgoing& outgoing : batch) {
        std::visit(
            [&](const auto& message) {
                if (!outgoing.client) {
                    for (auto& [client, connection] : clients_) send_to(connection, message);
                    return;
                }
                auto found = clients_.find(*outgoing.client);
                if (found != clients_.end()) send_to(found->second, message);
            },
            outgoing.message);
    }
    if (!overflowed_.exchange(false)) return;
    // Something was lost: no gateway may believe that it has everything.
    log_error("{}: results pile up faster than they are sent; dropping all gateways",
              options_.hello.worker);
    for (auto& [client, connection] : clients_) connection->close("results were lost");
}

template <typename Message>
void WorkerServer::send_to(Connection& connection, const Message& message) {
    auto send = [&connection](const auto& wire) {
        connection->send(wire).ignore("the connection reports its end by on_closed");
    };
    if constexpr (std::is_same_v<Message, link::Rejected>)
        send(link::ToGateway(message));
    else
        send(message);
}

// --- watching and stopping -----------------------------------------------------------------------

// An engine with work must make progress; if not, say so once per stall.
void WorkerServer::watch() {
    timers_->watch.expires_after(kWatchEvery);
    timers_->watch.async_wait([this](NetError error) {
        if (error || closing_) return;
        std::uint64_t progress = engine_->progress();
        bool stalled = engine_->busy() && progress == watched_progress_;
        Duration before = stalled_for_;
        stalled_for_ = stalled ? stalled_for_ + kWatchEvery : Duration(0);
        watched_progress_ = progress;
        if (before < options_.stall_warning && stalled_for_ >= options_.stall_warning)
            log_error("{}: the engine has work but made no progress for {:.0f} s",
                      options_.hello.worker, to_seconds(stalled_for_));
        watch();
    });
}

void WorkerServer::close() {
    closing_ = true;
    if (listener_) listener_->stop();
    timers_->kept.cancel();
    timers_->watch.cancel();
    send_outbox();
    for (auto& [client, connection] : clients_) connection->close("the worker is shutting down");
}

void WorkerServer::abandon() {
    for (auto& [client, connection] : clients_) connection->abandon();
    clients_.clear();
}

}  // namespace taproot
