// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/engine.h"

#include <chrono>

#include "base/assert.h"
#include "base/log.h"

namespace taproot {

Engine::Engine(EngineOptions options, Executor& executor, const Clock& clock, EngineSink& sink)
    : options_(std::move(options)),
      executor_(executor),
      clock_(clock),
      sink_(sink),
      inbox_(options_.commands_max),
      pool_(options_.blocks),
      cache_(pool_, options_.epoch, {}, options_.ram.get(), options_.ram ? &executor : nullptr),
      scheduler_(options_.scheduler, cache_, clock),
      samplers_(static_cast<std::size_t>(executor.threads()),
                Sampler(options_.scheduler.tokens, options_.end_tokens)),
      load_sent_(clock.now()),
      stats_logged_(clock.now()) {
    TAPROOT_ASSERT(options_.scheduler.tokens <= executor.vocab_size());
    // A lone sequence of the greatest length must fit, or it would wait for ever.
    TAPROOT_ASSERT(std::uint64_t{options_.scheduler.model_len_max} <=
                   std::uint64_t{options_.blocks} * kBlockTokens);
}

Engine::~Engine() {
    stop();
}

void Engine::start() {
    TAPROOT_ASSERT(!thread_.joinable());
    thread_ = std::thread([this] { run(); });
}

void Engine::stop() {
    if (!thread_.joinable()) return;
    while (!inbox_.closed() && !inbox_.try_push({ClientId{}, Shutdown{}}))
        std::this_thread::yield();  // a full inbox is drained within one step
    thread_.join();
}

void Engine::run() {
    while (!stopping_) {
        if (scheduler_.has_work())
            drain(inbox_.drain());
        else
            drain(inbox_.drain_wait(std::chrono::seconds(1)));
        if (stopping_) break;
        if (scheduler_.has_work()) step();
        publish();
    }
}

bool Engine::pump() {
    drain(inbox_.drain());
    if (scheduler_.has_work()) step();
    publish();
    return scheduler_.has_work();
}

// --- inbox ---------------------------------------------------------------------------------------

void Engine::drain(std::vector<Command>&& commands) {
    for (Command& command : commands) {
        std::visit([&](auto&& what) { handle(command.client, std::move(what)); },
                   std::move(command.what));
    }
}

void Engine::handle(ClientId client, link::Generate&& spec) {
    std::optional<link::Rejected> rejected = scheduler_.submit(client, std::move(spec));
    if (rejected) sink_.on_rejected(client, std::move(*rejected));
}

void Engine::handle(ClientId client, const link::Cancel& cancel) {
    scheduler_.cancel({client, cancel.request});
}

void Engine::handle(ClientId client, const link::CancelChoice& cancel) {
    scheduler_.cancel_choice({client, cancel.request}, cancel.choice);
}

// Untaken events go out first, so the snapshot continues exactly where the stream stands.
void Engine::handle(ClientId client, const link::FetchSnapshot&) {
    publish_events();
    sink_.on_snapshot(client, {cache_.epoch(), cache_.next_event_seq(), cache_.snapshot()});
}

void Engine::handle(ClientId, const ClientHere&) {
    load_due_ = true;
}

void Engine::handle(ClientId client, const ClientGone&) {
    scheduler_.cancel_client(client);
}

void Engine::handle(ClientId, const Shutdown&) {
    scheduler_.for_each_request([this](const Request& request) {
        if (!request.started) {
            sink_.on_rejected(request.key.client,
                              {request.key.request, link::RejectReason::kShuttingDown,
                               "the worker is shutting down", 0});
            return;
        }
        for (std::size_t choice = 0; choice < request.choice_ended.size(); ++choice) {
            if (request.choice_ended[choice]) continue;
            link::TokenOutput end;
            end.request = request.key.request;
            end.choice = static_cast<std::uint16_t>(choice);
            end.has_token = false;
            end.finish = link::FinishReason::kAbort;
            output_of(request.key.client).tokens.push_back(std::move(end));
        }
    });
    scheduler_.cancel_all();
    publish();
    stopping_ = true;
    inbox_.close();
}

// --- publishing ----------------------------------------------------------------------------------

// Events before the answers that follow from them: a client that has its answer finds its prefix in
// the gateway's index.
void Engine::publish() {
    publish_events();
    for (auto& [client, output] : outputs_) sink_.on_step(client, std::move(output));
    outputs_.clear();

    bool busy = scheduler_.has_work();
    bool changed = busy != was_busy_;
    was_busy_ = busy;
    busy_.store(busy);
    progress_.fetch_add(1);
    double since_ms = to_ms(clock_.now() - load_sent_);
    if (load_due_ || changed ||
        (busy && since_ms >= static_cast<double>(options_.load_interval_ms)))
        publish_load();
    log_stats();
}

void Engine::publish_events() {
    std::vector<KvEvent> events = cache_.take_events();
    if (events.empty()) return;
    std::uint64_t first = cache_.next_event_seq() - events.size();
    sink_.on_events({cache_.epoch(), first, std::move(events)});
}

void Engine::publish_load() {
    load_due_ = false;
    load_sent_ = clock_.now();
    sink_.on_load(load());
}

link::Load Engine::load() const {
    const SchedulerCounters& counters = scheduler_.counters();
    link::Load load;
    load.running = static_cast<std::uint32_t>(scheduler_.running());
    load.waiting = static_cast<std::uint32_t>(scheduler_.waiting());
    load.preempted = static_cast<std::uint32_t>(scheduler_.preempted());
    load.backlog_tokens = scheduler_.backlog_tokens();
    load.blocks_total = pool_.size();
    load.blocks_active = static_cast<std::uint32_t>(cache_.active_blocks());
    load.blocks_cached = static_cast<std::uint32_t>(cache_.cached_blocks());
    load.prefill_ms_per_token = scheduler_.prefill_ms_per_token();
    load.decode_ms_per_step = scheduler_.decode_ms_per_step();
    const StepCost cost = scheduler_.cost();
    load.step_fixed_ms = cost.fixed_ms;
    load.step_decode_stream_ms = cost.decode_stream_ms;
    load.step_decode_context_ms = cost.decode_context_ms;
    load.step_prefill_token_ms = cost.prefill_token_ms;
    load.step_prefill_pair_ms = cost.prefill_pair_ms;
    load.step_error = scheduler_.cost_error();
    load.prompt_tokens_total = counters.prompt_tokens;
    load.prefill_tokens_total = counters.prefill_tokens;
    load.cached_tokens_total = counters.cached_tokens;
    load.generation_tokens_total = counters.generation_tokens;
    load.preemptions_total = counters.preemptions;
    load.evicted_blocks_total = cache_.evicted_blocks_total();
    load.steps_total = counters.steps;
    if (options_.ram == nullptr) return load;
    const RamTierStats& ram = options_.ram->stats();
    load.block_bytes = options_.ram->block_bytes();
    load.ram_blocks_total = options_.ram->slots();
    load.ram_blocks_used = options_.ram->used();
    load.ram_restore_ms_per_block = scheduler_.restore_ms_per_block();
    load.ram_stored_blocks_total = ram.stored;
    load.ram_restored_blocks_total = ram.restored;
    load.ram_dropped_blocks_total = ram.dropped;
    load.ram_refused_blocks_total = ram.refused;
    load.ram_corrupt_blocks_total = ram.corrupt;
    load.ram_collisions_total = ram.other_tokens;
    return load;
}

// One line per interval in which something ran, in the words that people already grep for.
void Engine::log_stats() {
    double seconds = to_seconds(clock_.now() - stats_logged_);
    if (seconds * 1e3 < static_cast<double>(options_.stats_interval_ms)) return;
    const SchedulerCounters& now = scheduler_.counters();
    bool ran = now.steps != stats_counters_.steps;
    auto rate = [seconds](std::uint64_t after, std::uint64_t before) {
        return static_cast<double>(after - before) / seconds;
    };
    if (ran) {
        log_info(
            "{}: Avg prompt throughput: {:.1f} tokens/s, Avg generation throughput: {:.1f} "
            "tokens/s, Running: {} reqs, Swapped: {} reqs, Waiting: {} reqs, KV usage: device "
            "{:.1f}%, ram {:.1f}%, Prefix cache hit rate: {:.1f}%",
            options_.name, rate(now.prompt_tokens, stats_counters_.prompt_tokens),
            rate(now.generation_tokens, stats_counters_.generation_tokens), scheduler_.running(),
            scheduler_.preempted(), scheduler_.waiting(),
            100.0 * static_cast<double>(cache_.active_blocks()) / pool_.size(),
            options_.ram ? 100.0 * options_.ram->used() / options_.ram->slots() : 0.0,
            recent_prompt_ == 0 ? 0.0
                                : 100.0 * static_cast<double>(recent_cached_) /
                                      static_cast<double>(recent_prompt_));
    }
    stats_logged_ = clock_.now();
    stats_counters_ = now;
}

}  // namespace taproot
