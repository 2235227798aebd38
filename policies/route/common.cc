// SPDX-License-Identifier: Apache-2.0
#include "policies/route/common.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace taproot::route {

std::uint64_t load_of(const WorkerView& worker) {
    return std::max<std::uint64_t>(std::uint64_t{worker.running} + worker.waiting,
                                   worker.in_flight);
}

const WorkerMatch* find_match(const RouteQuery& query, WorkerId worker) {
    const auto it =
        std::lower_bound(query.matches.begin(), query.matches.end(), worker,
                         [](const WorkerMatch& m, WorkerId wanted) { return m.worker < wanted; });
    return it != query.matches.end() && it->worker == worker ? &*it : nullptr;
}

std::uint32_t cached_tokens(const RouteQuery& query, const WorkerView& worker) {
    if (!worker.trusted || query.prompt_tokens == 0) return 0;
    const WorkerMatch* match = find_match(query, worker.id);
    if (match == nullptr) return 0;
    const std::uint64_t tokens =
        std::uint64_t{match->blocks} * static_cast<std::uint64_t>(query.block_tokens);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(tokens, query.prompt_tokens - 1));
}

bool less_busy(const WorkerView& a, const WorkerView& b) {
    const std::uint64_t load_a = load_of(a);
    const std::uint64_t load_b = load_of(b);
    if (load_a != load_b) return load_a < load_b;
    if (a.last_chosen != b.last_chosen) return a.last_chosen < b.last_chosen;
    return a.id < b.id;
}

std::vector<const WorkerView*> ready_workers(std::span<const WorkerView> workers) {
    std::vector<const WorkerView*> ready;
    ready.reserve(workers.size());
    for (const WorkerView& worker : workers) {
        if (worker.ready) ready.push_back(&worker);
    }
    return ready;
}

const WorkerView* session_home(std::uint64_t session, std::span<const WorkerView* const> ready) {
    const auto weight = [session](const WorkerView& worker) {
        std::uint64_t hash = 0xCBF29CE484222325ull;  // FNV-1a: names are short, order-free, stable
        for (const char c : worker.name) {
            hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
        }
        return mix64(mix64(session) ^ hash);
    };
    const WorkerView* best = ready.front();
    std::uint64_t best_weight = weight(*best);
    for (const WorkerView* worker : ready.subspan(1)) {
        const std::uint64_t w = weight(*worker);
        if (w > best_weight || (w == best_weight && worker->id < best->id)) {
            best = worker;
            best_weight = w;
        }
    }
    return best;
}

Error no_worker_ready() {
    return Error{ErrorCode::kUnavailable, "no worker is ready"};
}

RouteDecision decide(const RouteQuery& query, std::span<const WorkerView* const> ready,
                     const WorkerView& chosen, std::string reason) {
    RouteDecision out{.worker = chosen.id,
                      .expected_cached_tokens = cached_tokens(query, chosen),
                      .cost_ms = 0,
                      .reason = std::move(reason),
                      .candidates = {}};
    out.candidates.reserve(ready.size());
    out.candidates.push_back({.worker = chosen.id, .cached_tokens = out.expected_cached_tokens});
    for (const WorkerView* worker : ready) {
        if (worker == &chosen) continue;
        out.candidates.push_back(
            {.worker = worker->id, .cached_tokens = cached_tokens(query, *worker)});
    }
    return out;
}

}  // namespace taproot::route
