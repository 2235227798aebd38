// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "policies/route/common.h"

namespace taproot {

Result<RouteDecision> route_least_loaded(const RouteQuery& query,
                                         std::span<const WorkerView> workers) {
    const auto ready = route::ready_workers(workers);
    if (ready.empty()) return route::no_worker_ready();
    const WorkerView* chosen = ready.front();
    for (const WorkerView* worker : ready) {
        if (route::less_busy(*worker, *chosen)) chosen = worker;
    }
    return route::decide(query, ready, *chosen,
                         fmt::format("least loaded: {} requests there", route::load_of(*chosen)));
}

}  // namespace taproot
