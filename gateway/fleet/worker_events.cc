// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/log.h"
#include "gateway/fleet/fleet_state.h"

// What workers say, on its way to the index, the metrics and the sinks. A sink may call the fleet
// back (submit, cancel): nothing is held over a call to one, and a flight is removed before the
// call that ends it.
namespace taproot::gateway {
namespace {

constexpr Duration kResyncPause = std::chrono::seconds(1);

}  // namespace

Flight* Fleet::State::flight_at(const WorkerSlot& slot, RequestId id) {
    Flight* flight = flights.find(id);
    return flight != nullptr && flight->worker == slot.id ? flight : nullptr;
}

// --- coming and going ----------------------------------------------------------------------------

Result<void> Fleet::State::on_hello(WorkerId worker, const link::Hello& hello) {
    WorkerSlot& from = slot(worker);
    if (hello.block_tokens != static_cast<std::uint32_t>(kBlockTokens))
        return Error{ErrorCode::kUnsupported,
                     fmt::format("has blocks of {} tokens, this gateway hashes {}",
                                 hello.block_tokens, kBlockTokens),
                     "block_tokens"};
    if (hello.model.empty() || hello.max_model_len == 0 || hello.vocab == 0)
        return Error{ErrorCode::kDataLoss, "introduces no model", "model"};
    if (hello.worker != from.name)
        log_warn("worker {}: the process on its link calls itself '{}'", from.name, hello.worker);
    from.hello = hello;
    from.load = {};
    // What happened before this link is in the snapshot that the client asks for next.
    index.begin_epoch(worker, hello.epoch);
    index.distrust(worker);
    from.snapshot_asked = clock.now();
    return {};
}

bool Fleet::State::knows_text(std::uint64_t digest) {
    return models.knows_text(digest);
}

Result<void> Fleet::State::on_text(WorkerId, const link::TextBundle& text) {
    if (models.knows_text(text.digest)) return {};  // two workers were asked at the same time
    return models.add_text(text.digest, text.bytes);
}

Result<void> Fleet::State::on_ready(WorkerId worker) {
    WorkerSlot& from = slot(worker);
    bool is_only = std::none_of(slots.begin(), slots.end(), [&](const WorkerSlot& other) {
        return other.ready && other.hello.model == from.hello.model;
    });
    TAPROOT_TRY(from.model, models.join(from.hello, is_only));
    from.ready = true;
    // Kept over links: the same epoch goes on from the totals it had.
    if (from.metrics == nullptr || from.metrics->model() != from.hello.model)
        from.metrics = std::make_unique<WorkerMetrics>(metrics, from.name, from.hello.model);
    from.metrics->on_ready(from.hello.epoch);
    update_model(*from.model);
    return {};
}

void Fleet::State::on_lost(WorkerId worker, const Error& reason) {
    WorkerSlot& from = slot(worker);
    index.drop_worker(worker);
    from.load = {};
    if (!std::exchange(from.ready, false)) return;
    update_model(*from.model);
    std::vector<RequestId> lost = flights.of_worker(worker);
    from.metrics->on_lost(lost.size());
    Error told{ErrorCode::kUnavailable,
               fmt::format("worker {} is gone: {}", from.name, reason.message), from.name};
    for (RequestId id : lost) {
        Flight* flight = flight_at(from, id);
        if (flight == nullptr) continue;  // a sink before it cancelled this one
        RequestSink* sink = flight->sink;
        end_flight(id);
        sink->on_worker_lost(told);
    }
}

void Fleet::State::update_model(std::size_t model) {
    bool is_ready = false;
    std::uint32_t shortest = std::numeric_limits<std::uint32_t>::max();
    for (const WorkerSlot& each : slots) {
        if (!each.ready || each.model != model) continue;
        is_ready = true;
        shortest = std::min(shortest, each.hello.max_model_len);
    }
    models.set_ready(model, is_ready, shortest);
}

// --- the index -----------------------------------------------------------------------------------

void Fleet::State::on_kv_events(WorkerId worker, const link::KvEventBatch& batch) {
    WorkerSlot& from = slot(worker);
    for (const KvEvent& event : batch.events)
        if (!std::holds_alternative<KvStored>(event)) ++from.removals;
    ApplyResult result = index.apply(worker, batch.epoch, batch.first_seq, batch.events);
    if (result == ApplyResult::kNeedSnapshot) resync(from, "events are missing");
}

void Fleet::State::on_kv_snapshot(WorkerId worker, const link::KvSnapshot& snapshot) {
    ApplyResult result =
        index.apply_snapshot(worker, snapshot.epoch, snapshot.next_seq, snapshot.stored);
    if (result != ApplyResult::kApplied)
        log_warn("worker {}: a snapshot of {} blocks does not fit its events", slot(worker).name,
                 snapshot.stored.size());
}

// The worker is routed to by session until its whole tree has come.
void Fleet::State::resync(WorkerSlot& from, std::string_view why) {
    index.distrust(from.id);
    TimePoint now = clock.now();
    if (now - from.snapshot_asked < kResyncPause) return;  // tick() comes back to it
    from.snapshot_asked = now;
    log_warn("worker {}: {}; asking for its whole tree", from.name, why);
    if (from.metrics != nullptr) from.metrics->on_resync();
    from.client->fetch_snapshot();
}

// --- answers -------------------------------------------------------------------------------------

void Fleet::State::on_load(WorkerId worker, const link::Load& load) {
    WorkerSlot& from = slot(worker);
    from.load = load;
    if (from.metrics != nullptr) from.metrics->on_load(load);
}

void Fleet::State::on_rejected(WorkerId worker, const link::Rejected& rejected) {
    Flight* flight = flight_at(slot(worker), rejected.request);
    if (flight == nullptr) return;
    RequestSink* sink = flight->sink;
    end_flight(rejected.request);
    sink->on_rejected(rejected);
}

void Fleet::State::on_step(WorkerId worker, link::StepOutput&& step) {
    WorkerSlot& from = slot(worker);
    for (const link::RequestStarted& started : step.started) on_started(from, started);
    for (const link::PromptLogprobs& logprobs : step.prompt_logprobs)
        if (Flight* flight = flight_at(from, logprobs.request))
            flight->sink->on_prompt_logprobs(logprobs);
    std::span<link::TokenOutput> rest = step.tokens;
    while (!rest.empty()) {
        std::size_t count = 1;
        while (count < rest.size() && rest[count].request == rest[0].request) ++count;
        on_tokens(from, rest.first(count));
        rest = rest.subspan(count);
    }
}

void Fleet::State::on_started(WorkerSlot& from, const link::RequestStarted& started) {
    Flight* flight = flight_at(from, started.request);
    if (flight == nullptr || flight->started) return;
    flights.mark_started(*flight);
    from.metrics->on_started(flight->expected_cached_tokens, started.cached_tokens);
    // Proof that the events were wrong: the index swore to blocks on the device, nothing was
    // removed since, and the worker did not find them. One token is always computed.
    if (flight->sworn_blocks && flight->removals == from.removals) {
        std::uint32_t sworn =
            std::min(*flight->sworn_blocks * kBlockTokens, flight->prompt_tokens - 1);
        if (started.cached_tokens < sworn)
            resync(from, fmt::format("its events promised {} cached tokens, it found {}", sworn,
                                     started.cached_tokens));
    }
    flight->sink->on_started(started);
}

// `run`: outputs of one request, in order.
void Fleet::State::on_tokens(WorkerSlot& from, std::span<link::TokenOutput> run) {
    RequestId id = run[0].request;
    Flight* flight = flight_at(from, id);
    if (flight == nullptr) return;  // cancelled; this was under way
    flights.mark_started(*flight);
    flights.mark_token(*flight);
    std::size_t kept = 0;
    for (link::TokenOutput& output : run) {
        if (output.choice >= flight->open_choices.size() || !flight->open_choices[output.choice])
            continue;
        if (output.finish != link::FinishReason::kNone)
            flights.close_choice(*flight, output.choice);
        if (&run[kept] != &output) run[kept] = std::move(output);
        ++kept;
    }
    if (kept == 0) return;
    RequestSink* sink = flight->sink;
    if (flight->open_count == 0) end_flight(id);
    sink->on_tokens(run.first(kept));
}

}  // namespace taproot::gateway
