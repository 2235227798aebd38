// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "policies/route/common.h"

namespace taproot {

Result<RouteDecision> route_prefix_first(const RouteQuery& query,
                                         std::span<const WorkerView> workers) {
    const auto ready = route::ready_workers(workers);
    if (ready.empty()) return route::no_worker_ready();
    const WorkerView* chosen = ready.front();
    std::uint32_t most = route::cached_tokens(query, *chosen);
    for (const WorkerView* worker : ready) {
        const std::uint32_t cached = route::cached_tokens(query, *worker);
        if (cached > most || (cached == most && route::less_busy(*worker, *chosen))) {
            chosen = worker;
            most = cached;
        }
    }
    std::string reason =
        most > 0 ? fmt::format("longest prefix: {} of {} tokens", most, query.prompt_tokens)
                 : fmt::format("nothing cached; least loaded: {} requests there",
                               route::load_of(*chosen));
    return route::decide(query, ready, *chosen, std::move(reason));
}

}  // namespace taproot
