// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/flights.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace taproot::gateway {

Flights::Flights(std::size_t workers) : at_worker_(workers) {}

void Flights::add(RequestId id, Flight flight) {
    TAPROOT_ASSERT(flight.worker.value < at_worker_.size());
    TAPROOT_ASSERT(flight.expected_cached_tokens <= flight.prompt_tokens);
    if (flight.model >= waiting_.size()) waiting_.resize(flight.model + 1);
    waiting_[flight.model].requests += 1;
    waiting_[flight.model].uncached_tokens += flight.uncached_tokens();
    at_worker_[flight.worker.value].requests += 1;
    at_worker_[flight.worker.value].unstarted_uncached_tokens += flight.uncached_tokens();
    bool added = flights_.emplace(id, std::move(flight)).second;
    TAPROOT_ASSERT(added);
}

Flight* Flights::find(RequestId id) {
    auto found = flights_.find(id);
    return found == flights_.end() ? nullptr : &found->second;
}

std::optional<Flight> Flights::remove(RequestId id) {
    auto found = flights_.find(id);
    if (found == flights_.end()) return std::nullopt;
    mark_started(found->second);
    mark_token(found->second);
    at_worker_[found->second.worker.value].requests -= 1;
    std::optional<Flight> out(std::move(found->second));
    flights_.erase(found);
    return out;
}

void Flights::mark_started(Flight& flight) {
    if (std::exchange(flight.started, true)) return;
    waiting_[flight.model].requests -= 1;
    waiting_[flight.model].uncached_tokens -= flight.uncached_tokens();
}

void Flights::mark_token(Flight& flight) {
    if (std::exchange(flight.has_token, true)) return;
    at_worker_[flight.worker.value].unstarted_uncached_tokens -= flight.uncached_tokens();
}

bool Flights::close_choice(Flight& flight, std::uint16_t choice) {
    if (choice >= flight.open_choices.size() || !flight.open_choices[choice]) return false;
    flight.open_choices[choice] = false;
    --flight.open_count;
    return true;
}

Flights::Waiting Flights::waiting(std::size_t model) const {
    return model < waiting_.size() ? waiting_[model] : Waiting{};
}

std::vector<RequestId> Flights::of_worker(WorkerId worker) const {
    std::vector<RequestId> out;
    for (const auto& [id, flight] : flights_)
        if (flight.worker == worker) out.push_back(id);
    std::sort(out.begin(), out.end());
    return out;
}

bool Flights::check() const {
    std::vector<Waiting> waiting(waiting_.size());
    std::vector<AtWorker> at_worker(at_worker_.size());
    for (const auto& [id, flight] : flights_) {
        at_worker[flight.worker.value].requests += 1;
        if (!flight.has_token)
            at_worker[flight.worker.value].unstarted_uncached_tokens += flight.uncached_tokens();
        if (flight.started) continue;
        waiting[flight.model].requests += 1;
        waiting[flight.model].uncached_tokens += flight.uncached_tokens();
    }
    auto same_waiting = [](const Waiting& a, const Waiting& b) {
        return a.requests == b.requests && a.uncached_tokens == b.uncached_tokens;
    };
    auto same_at_worker = [](const AtWorker& a, const AtWorker& b) {
        return a.requests == b.requests &&
               a.unstarted_uncached_tokens == b.unstarted_uncached_tokens;
    };
    return std::equal(waiting.begin(), waiting.end(), waiting_.begin(), same_waiting) &&
           std::equal(at_worker.begin(), at_worker.end(), at_worker_.begin(), same_at_worker);
}

}  // namespace taproot::gateway
