// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "base/clock.h"
#include "base/types.h"
#include "link/messages.h"
#include "worker/engine/executor.h"
#include "worker/kv/block_pool.h"
#include "worker/kv/prefix_cache.h"
#include "worker/kv/ram_tier.h"
#include "worker/sample/sampler.h"
#include "worker/sched/scheduler.h"

namespace taproot {

// What the engine is told. Client: the connection that the answer goes to.
struct ClientHere {};  // a gateway connected: it wants to know the load
struct ClientGone {};  // everything it asked for is cancelled
struct Shutdown {};    // end all requests and stop
struct Command {
    ClientId client;
    std::variant<link::Generate, link::Cancel, link::CancelChoice, link::FetchSnapshot, ClientHere,
                 ClientGone, Shutdown>
        what;
};

// Where the engine's results go. Called on the engine thread; an implementation hands over and
// returns at once.
class EngineSink {
public:
    virtual ~EngineSink() = default;
    virtual void on_step(ClientId client, link::StepOutput&& output) = 0;
    virtual void on_rejected(ClientId client, link::Rejected&& rejected) = 0;
    virtual void on_snapshot(ClientId client, link::KvSnapshot&& snapshot) = 0;
    virtual void on_events(link::KvEventBatch&& events) = 0;  // to every client
    virtual void on_load(const link::Load& load) = 0;         // to every client
};

struct EngineOptions {
    std::string name;                 // in log lines
    std::uint32_t blocks = 0;         // size of the executor's KV pool
    std::vector<TokenId> end_tokens;  // of the model
    SchedulerOptions scheduler;       // scheduler.tokens: ids below exist
    std::uint64_t epoch = 1;          // new at each start
    std::uint64_t load_interval_ms = 50;
    std::uint64_t stats_interval_ms = 10'000;
    std::size_t commands_max = 8'192;  // between two steps
    std::unique_ptr<RamTier> ram;      // below the pool, for its pages; null = none
};

// The engine of one worker: drain inbox, plan, run, sample, publish; one step after another. Read
// step.cc first.
//
// Threads: post() and the three facts below it from any; everything else on the engine thread (the
// one that start() makes, or a test that calls pump()). Nothing calls into a running engine.
// Errors: a request that cannot be served is a Rejected; a row without a finite logit ends its
// sequence with kError. Exceptions of the executor end the process.
class Engine {
public:
    Engine(EngineOptions options, Executor& executor, const Clock& clock, EngineSink& sink);
    ~Engine();  // stops
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Hands over a command. False when the inbox is full (try again after a step) or closed.
    [[nodiscard]] bool post(Command command) { return inbox_.try_push(std::move(command)); }
    // Commands that still fit for new requests: half of the inbox is kept for cancels.
    [[nodiscard]] bool has_room_for_requests() const {
        return inbox_.size() < options_.commands_max / 2;
    }
    // Watchdog: with work, the count must grow.
    [[nodiscard]] std::uint64_t progress() const { return progress_.load(); }
    [[nodiscard]] bool busy() const { return busy_.load(); }

    void start();
    // Ends every request (started ones with kAbort, others rejected with kShuttingDown), joins.
    void stop();

    // One round on the calling thread: drain the inbox, one step if there is work, publish. True
    // while there is work.
    bool pump();

    [[nodiscard]] link::Load load() const;
    [[nodiscard]] const Scheduler& scheduler() const { return scheduler_; }
    [[nodiscard]] const PrefixCache& cache() const { return cache_; }

private:
    // A token to be drawn in this step.
    struct Draw {
        Sequence* sequence;
        std::span<const float> row;
        bool forbid_end;
        std::optional<Sampled> sampled;
    };

    void run();
    void drain(std::vector<Command>&& commands);
    void handle(ClientId client, link::Generate&& spec);
    void handle(ClientId client, const link::Cancel& cancel);
    void handle(ClientId client, const link::CancelChoice& cancel);
    void handle(ClientId client, const link::FetchSnapshot& fetch);
    void handle(ClientId client, const ClientHere& here);
    void handle(ClientId client, const ClientGone& gone);
    void handle(ClientId client, const Shutdown& shutdown);

    // step.cc
    void step();
    std::span<const float> forward(const StepPlan& plan);
    void sample_part(const PlannedSequence& part, std::span<const float> rows);
    void score_prompt(const PlannedSequence& part, std::span<const float> rows);
    void draw_choices(Sequence& lead, std::span<const float> row);
    void draw_next(Sequence& sequence, std::span<const float> row);
    void sample_draws();
    void take(Draw&& draw);
    void end_without_token(Sequence& sequence, link::FinishReason reason);
    [[nodiscard]] link::FinishReason finish_reason(const Sequence& sequence, bool forbid_end) const;
    void announce_start(Request& request);
    link::StepOutput& output_of(ClientId client);

    void publish();
    void publish_events();
    void publish_load();
    void log_stats();

    EngineOptions options_;
    Executor& executor_;
    const Clock& clock_;
    EngineSink& sink_;
    BoundedQueue<Command> inbox_;
    BlockPool pool_;
    PrefixCache cache_;
    Scheduler scheduler_;
    std::vector<Sampler> samplers_;  // one per thread of the executor

    std::vector<StepSequence> batch_;                             // scratch
    std::vector<Draw> draws_;                                     // of this step
    std::vector<std::pair<ClientId, link::StepOutput>> outputs_;  // of this step
    std::deque<std::pair<std::size_t, std::size_t>> recent_;      // (prompt, cached) of requests
    std::size_t recent_prompt_ = 0;
    std::size_t recent_cached_ = 0;

    TimePoint load_sent_;
    bool load_due_ = true;  // send at the next publish, whatever the interval
    bool was_busy_ = false;
    TimePoint stats_logged_;
    SchedulerCounters stats_counters_;  // at the last log line

    std::atomic<std::uint64_t> progress_{0};
    std::atomic<bool> busy_{false};
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace taproot
