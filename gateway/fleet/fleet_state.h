// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gateway/fleet/fleet.h"
#include "gateway/fleet/flights.h"
#include "gateway/fleet/model_table.h"
#include "gateway/fleet/worker_client.h"
#include "gateway/fleet/worker_metrics.h"
#include "radix_cache/prefix_index.h"

// The inside of Fleet: fleet.cc chooses and sends (down), worker_events.cc hears (up).
namespace taproot::gateway {

// What the fleet keeps per configured worker, connected or not.
struct WorkerSlot {
    WorkerId id;
    std::string name;
    std::shared_ptr<WorkerClient> client;
    bool ready = false;
    link::Hello hello;                 // of the last connection
    std::optional<std::size_t> model;  // index in the model table, once ready
    link::Load load;                   // the last one, zeroes before
    std::uint64_t last_chosen = 0;
    std::uint64_t removals = 0;  // removed or cleared events so far
    TimePoint snapshot_asked;
    std::unique_ptr<WorkerMetrics> metrics;
};

// Owner: the I/O thread.
struct Fleet::State final : WorkerEvents {
    State(asio::io_context& io_context, const config::Config& configuration, const Clock& the_clock,
          Metrics& the_metrics, link::LinkOptions options);
    ~State() override;

    // --- down (fleet.cc)
    Result<Ticket> submit(SubmitRequest request, RequestSink* sink);
    Result<void> check_queue(std::size_t model, std::uint64_t uncached_tokens) const;
    void build_views(std::optional<std::size_t> model, std::span<const WorkerId> exclude,
                     std::vector<WorkerView>& out) const;
    Flight make_flight(const SubmitRequest& request, const RouteDecision& decision,
                       std::size_t model) const;
    void end_flight(RequestId id);  // forgets it and its reservation
    [[nodiscard]] double retry_after_ms(std::size_t model) const;
    [[nodiscard]] double retry_after_ms() const;
    void tick();

    // --- up (worker_events.cc)
    Result<void> on_hello(WorkerId worker, const link::Hello& hello) override;
    bool knows_text(std::uint64_t digest) override;
    Result<void> on_text(WorkerId worker, const link::TextBundle& text) override;
    Result<void> on_ready(WorkerId worker) override;
    void on_lost(WorkerId worker, const Error& reason) override;
    void on_step(WorkerId worker, link::StepOutput&& step) override;
    void on_rejected(WorkerId worker, const link::Rejected& rejected) override;
    void on_load(WorkerId worker, const link::Load& load) override;
    void on_kv_events(WorkerId worker, const link::KvEventBatch& batch) override;
    void on_kv_snapshot(WorkerId worker, const link::KvSnapshot& snapshot) override;

    void on_started(WorkerSlot& slot, const link::RequestStarted& started);
    void on_tokens(WorkerSlot& slot, std::span<link::TokenOutput> run);
    void resync(WorkerSlot& slot, std::string_view why);
    void update_model(std::size_t model);

    [[nodiscard]] WorkerSlot& slot(WorkerId worker) { return slots[worker.value]; }
    // The flight, when it is this worker's.
    Flight* flight_at(const WorkerSlot& slot, RequestId id);

    asio::io_context& io;
    const config::Config config;
    const Clock& clock;
    Metrics& metrics;
    const link::LinkOptions link_options;
    RoutePolicy policy = nullptr;
    PrefixIndex index;
    ModelTable models;
    Flights flights;
    std::vector<WorkerSlot> slots;  // by WorkerId; fixed after start
    bool running = false;
    std::uint64_t next_request = 1;
    std::uint64_t ordinal = 0;
    std::shared_ptr<bool> is_alive = std::make_shared<bool>(true);  // for the timer's handler
    asio::steady_timer tick_timer;
    prometheus::Gauge& index_blocks;
    prometheus::Gauge& index_bytes;
    prometheus::Gauge& in_flight;
    prometheus::Counter& refused;
    // Reused by submit.
    std::vector<WorkerMatch> matches;
    std::vector<WorkerView> views;
};

}  // namespace taproot::gateway
