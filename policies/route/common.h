// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "policies/route/policy.h"

// What the route policies share. Internal to policies/route.
namespace taproot::route {

// Requests there: the worker's word or our own count, whichever knows of more.
[[nodiscard]] std::uint64_t load_of(const WorkerView& worker);

// Prompt tokens the index credits to a worker: 0 when it is not trusted. At least one token is
// always computed, so never the whole prompt.
[[nodiscard]] std::uint32_t cached_tokens(const RouteQuery& query, const WorkerView& worker);
// The worker's entry of query.matches, or null.
[[nodiscard]] const WorkerMatch* find_match(const RouteQuery& query, WorkerId worker);

// Strict weak order: less load, then chosen longest ago, then lower id.
[[nodiscard]] bool less_busy(const WorkerView& a, const WorkerView& b);

// Pointers to the ready ones, in the order given.
[[nodiscard]] std::vector<const WorkerView*> ready_workers(std::span<const WorkerView> workers);

// The session's home: highest random weight (Thaler, Ravishankar 1996), so a worker that comes or
// goes moves only its own sessions. `ready` is not empty.
[[nodiscard]] const WorkerView* session_home(std::uint64_t session,
                                             std::span<const WorkerView* const> ready);

[[nodiscard]] Error no_worker_ready();

// A decision without predicted times; lists every ready worker as candidate, the chosen one first.
[[nodiscard]] RouteDecision decide(const RouteQuery& query,
                                   std::span<const WorkerView* const> ready,
                                   const WorkerView& chosen, std::string reason);

}  // namespace taproot::route
