// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <utility>

#include "base/log.h"
#include "base/random.h"
#include "gateway/fleet/fleet_state.h"
#include "policies/registry.h"

namespace taproot::gateway {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(250);
constexpr double kRetryMsMin = 100;
constexpr double kRetryMsMax = 60'000;

Error no_worker(std::string_view model) {
    return {ErrorCode::kUnavailable, "no worker can serve this model now", std::string(model)};
}

}  // namespace

Fleet::State::State(asio::io_context& io_context, const config::Config& configuration,
                    const Clock& the_clock, Metrics& the_metrics, link::LinkOptions options)
    : io(io_context),
      config(configuration),
      clock(the_clock),
      metrics(the_metrics),
      link_options(options),
      index(the_clock, {.bytes_max = configuration.gateway.index_bytes}),
      flights(configuration.workers.size()),
      tick_timer(io_context),
      index_blocks(
          metrics.gauge("taproot_index_blocks", "Distinct KV blocks the prefix index knows of.")),
      index_bytes(metrics.gauge("taproot_index_bytes", "Memory of the prefix index.")),
      in_flight(metrics.gauge("taproot_fleet_requests_in_flight",
                              "Requests at workers, waiting or running.")),
      refused(metrics.counter("taproot_fleet_queue_full_total",
                              "Requests refused because too much waits in the fleet.")) {}

Fleet::State::~State() {
    for (WorkerSlot& slot : slots) slot.client->stop();
}

// Every member of a WorkerView as its comment in policies/route/policy.h says.
void Fleet::State::build_views(std::optional<std::size_t> model, std::span<const WorkerId> exclude,
                               std::vector<WorkerView>& out) const {
    out.clear();
    for (const WorkerSlot& slot : slots) {
        if (model && slot.model != model) continue;
        Flights::AtWorker ours = flights.at_worker(slot.id);
        WorkerView view;
        view.id = slot.id;
        view.name = slot.name;
        view.ready =
            slot.ready && std::find(exclude.begin(), exclude.end(), slot.id) == exclude.end();
        view.trusted = index.trusted(slot.id);
        view.running = slot.load.running;
        view.waiting = slot.load.waiting + slot.load.preempted;
        view.in_flight = ours.requests;
        view.seqs_max = slot.hello.max_num_seqs;
        view.backlog_uncached_tokens =
            std::max(slot.load.backlog_tokens, ours.unstarted_uncached_tokens);
        bool has_load = slot.load.blocks_total > 0;
        view.blocks_total = has_load ? slot.load.blocks_total : slot.hello.blocks_total;
        view.blocks_active = slot.load.blocks_active;
        view.blocks_cached = slot.load.blocks_cached;
        view.prefill_ms_per_token = slot.load.prefill_ms_per_token > 0
                                        ? slot.load.prefill_ms_per_token
                                        : slot.hello.prefill_ms_per_token;
        view.decode_ms_per_step = slot.load.decode_ms_per_step;
        view.ram_restore_ms_per_token = slot.load.ram_restore_ms_per_block / kBlockTokens;
        view.last_chosen = slot.last_chosen;
        out.push_back(view);
    }
}

Result<void> Fleet::State::check_queue(std::size_t model, std::uint64_t uncached_tokens) const {
    const config::Limits& limits = config.gateway.limits;
    Flights::Waiting waiting = flights.waiting(model);
    if (waiting.requests >= limits.queue_requests)
        return Error{ErrorCode::kQueueFull,
                     fmt::format("{} requests wait already, allowed {}", waiting.requests,
                                 limits.queue_requests),
                     {}};
    // A request alone may exceed the sum: what can ever run is the worker's rule, not this one's.
    if (waiting.requests > 0 &&
        waiting.uncached_tokens + uncached_tokens > limits.queue_uncached_tokens)
        return Error{ErrorCode::kQueueFull,
                     fmt::format("{} uncached tokens wait already, allowed {}",
                                 waiting.uncached_tokens, limits.queue_uncached_tokens),
                     {}};
    return {};
}

Flight Fleet::State::make_flight(const SubmitRequest& request, const RouteDecision& decision,
                                 std::size_t model) const {
    Flight flight;
    flight.worker = decision.worker;
    flight.model = model;
    flight.prompt_tokens = static_cast<std::uint32_t>(request.generate.prompt.size());
    flight.expected_cached_tokens = std::min(decision.expected_cached_tokens, flight.prompt_tokens);
    flight.open_choices.assign(request.generate.choices, true);
    flight.open_count = request.generate.choices;
    flight.removals = slots[decision.worker.value].removals;
    bool reads_cache = !request.generate.sampling.prompt_logprobs;
    if (reads_cache && index.trusted(decision.worker)) {
        flight.sworn_blocks = 0;
        for (const WorkerMatch& match : matches) {
            if (match.worker != decision.worker) continue;
            if (match.ram_blocks + match.disk_blocks + match.pending_blocks > 0)
                flight.sworn_blocks.reset();
            else
                flight.sworn_blocks = match.device_blocks;
        }
    }
    return flight;
}

Result<Ticket> Fleet::State::submit(SubmitRequest request, RequestSink* sink) {
    if (!running) return no_worker(request.model);
    auto model = models.find(request.model);
    if (!model)
        return Error{ErrorCode::kNotFound, "no worker has introduced this model",
                     std::string(request.model)};
    TAPROOT_CHECK_OK(link::validate(request.generate));

    RouteQuery query;
    query.prompt_tokens = static_cast<std::uint32_t>(request.generate.prompt.size());
    query.max_tokens = request.generate.max_tokens;
    query.session = request.session;
    query.ordinal = ++ordinal;
    query.seed = mix64(ordinal);
    std::vector<WorkerId> exclude(request.exclude.begin(), request.exclude.end());
    // Again only when a link breaks under the request: once per worker at most.
    for (std::size_t attempt = 0; attempt <= slots.size(); ++attempt) {
        // Scoring a prompt computes every position: nothing of it can come from a cache.
        matches.clear();
        if (!request.generate.sampling.prompt_logprobs) index.lookup(request.chain, matches);
        query.matches = matches;
        build_views(model, exclude, views);
        TAPROOT_TRY(RouteDecision decision, policy(query, views));
        TAPROOT_ASSERT(decision.worker.value < slots.size());
        Flight flight = make_flight(request, decision, *model);
        if (auto fits = check_queue(*model, flight.uncached_tokens()); !fits) {
            refused.Increment();
            return std::move(fits).error();
        }

        WorkerSlot& chosen = slot(decision.worker);
        request.generate.request = RequestId{next_request++};
        request.generate.expected_cached_tokens = decision.expected_cached_tokens;
        if (auto sent = chosen.client->send(request.generate); !sent) {
            if (sent.error().code == ErrorCode::kTooLarge) return std::move(sent).error();
            exclude.push_back(decision.worker);
            continue;
        }
        TimePoint expiry =
            clock.now() + from_ms(static_cast<double>(config.gateway.reservation_ms));
        flight.reservation = index.reserve(decision.worker, request.chain, expiry);
        flight.sink = sink;
        flights.add(request.generate.request, std::move(flight));
        in_flight.Set(static_cast<double>(flights.size()));
        chosen.last_chosen = query.ordinal;
        chosen.metrics->on_routed();
        return Ticket{request.generate.request, decision.worker, chosen.name, std::move(decision)};
    }
    return no_worker(request.model);
}

void Fleet::State::end_flight(RequestId id) {
    auto flight = flights.remove(id);
    if (flight) index.release(flight->reservation);
    in_flight.Set(static_cast<double>(flights.size()));
}

// The shortest time in which some worker of the model gets through what waits there.
double Fleet::State::retry_after_ms(std::size_t model) const {
    std::vector<WorkerView> now;
    build_views(model, {}, now);
    double best = kRetryMsMax;
    for (const WorkerView& view : now) {
        if (!view.ready) continue;
        double ms_per_token = view.prefill_ms_per_token > 0 ? view.prefill_ms_per_token : 1;
        best = std::min(best, static_cast<double>(view.backlog_uncached_tokens) * ms_per_token);
    }
    return std::max(best, kRetryMsMin);
}

double Fleet::State::retry_after_ms() const {
    double worst = 0;
    for (std::size_t model = 0; model < models.size(); ++model)
        if (models.at(model).ready) worst = std::max(worst, retry_after_ms(model));
    return worst > 0 ? worst : 1'000;  // nobody is there: soon again
}

void Fleet::State::tick() {
    tick_timer.expires_after(kTick);
    tick_timer.async_wait([this, alive = std::weak_ptr<bool>(is_alive)](NetError error) {
        if (!error && !alive.expired()) tick();
    });
    index.expire();
    for (WorkerSlot& slot : slots)
        if (slot.ready && !index.trusted(slot.id)) resync(slot, "still not trusted");
    PrefixIndexStats stats = index.stats();
    index_blocks.Set(static_cast<double>(stats.blocks));
    index_bytes.Set(static_cast<double>(stats.bytes));
}

// --- the public face -----------------------------------------------------------------------------

Fleet::Fleet(asio::io_context& io, const config::Config& config, const Clock& clock,
             Metrics& metrics, link::LinkOptions link_options)
    : state_(std::make_unique<State>(io, config, clock, metrics, link_options)) {}

Fleet::~Fleet() = default;

Result<void> Fleet::start() {
    State& s = *state_;
    TAPROOT_ASSERT(s.slots.empty());
    TAPROOT_TRY(auto policy, find_route_policy(s.config.gateway.route_policy));
    s.policy = policy.policy;
    if (s.config.workers.size() > kIndexWorkersMax)
        return invalid_argument(
            fmt::format("has {} entries, allowed {}", s.config.workers.size(), kIndexWorkersMax),
            "workers");
    std::vector<WorkerSlot> slots;
    for (const config::Worker& worker : s.config.workers) {
        WorkerSlot& slot = slots.emplace_back();
        slot.id = WorkerId{static_cast<std::uint32_t>(slots.size() - 1)};
        slot.name = worker.name;
        WorkerClient::Options options;
        options.worker = slot.id;
        options.name = worker.name;
        options.link = s.link_options;
        options.reconnect_max = std::chrono::milliseconds(s.config.gateway.reconnect_ms_max);
        TAPROOT_TRY(options.address,
                    link::LinkAddress::of_worker(worker.link, s.config.run_dir, worker.name));
        slot.client = std::make_shared<WorkerClient>(s.io, std::move(options), s);
    }
    s.slots = std::move(slots);
    s.running = true;
    for (WorkerSlot& slot : s.slots) slot.client->start();
    s.tick();
    return {};
}

void Fleet::stop() {
    State& s = *state_;
    if (!std::exchange(s.running, false)) return;
    s.tick_timer.cancel();
    for (WorkerSlot& slot : s.slots) {
        slot.client->stop();
        s.on_lost(slot.id, {ErrorCode::kUnavailable, "the gateway stops", {}});
    }
}

std::vector<ModelInfo> Fleet::models() const {
    std::vector<ModelInfo> out;
    for (std::size_t i = 0; i < state_->models.size(); ++i) out.push_back(state_->models.at(i));
    return out;
}

const ModelInfo* Fleet::find_model(std::optional<std::string_view> name) const {
    auto found = name ? state_->models.find(*name) : state_->models.first();
    return found ? &state_->models.at(*found) : nullptr;
}

bool Fleet::ready() const {
    return std::any_of(state_->slots.begin(), state_->slots.end(),
                       [](const WorkerSlot& slot) { return slot.ready; });
}

Result<Ticket> Fleet::submit(SubmitRequest request, RequestSink* sink) {
    TAPROOT_ASSERT(sink != nullptr);
    return state_->submit(std::move(request), sink);
}

void Fleet::cancel(RequestId request) {
    Flight* flight = state_->flights.find(request);
    if (flight == nullptr) return;
    state_->slot(flight->worker)
        .client->send(link::Cancel{request})
        .ignore("a lost worker has forgotten it");
    state_->end_flight(request);
}

void Fleet::cancel_choice(RequestId request, std::uint16_t choice) {
    Flight* flight = state_->flights.find(request);
    if (flight == nullptr || !state_->flights.close_choice(*flight, choice)) return;
    if (flight->open_count == 0) return cancel(request);
    state_->slot(flight->worker)
        .client->send(link::CancelChoice{request, choice})
        .ignore("a lost worker has forgotten it");
}

double Fleet::retry_after_ms() const {
    return state_->retry_after_ms();
}

std::size_t Fleet::requests_in_flight() const {
    return state_->flights.size();
}

std::string_view Fleet::worker_name(WorkerId worker) const {
    if (worker.value >= state_->slots.size()) return {};
    return state_->slots[worker.value].name;
}

std::vector<WorkerView> Fleet::worker_views() const {
    std::vector<WorkerView> out;
    state_->build_views(std::nullopt, {}, out);
    return out;
}

PrefixIndexStats Fleet::index_stats() const {
    return state_->index.stats();
}

}  // namespace taproot::gateway
