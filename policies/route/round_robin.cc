// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include "policies/route/common.h"

namespace taproot {

Result<RouteDecision> route_round_robin(const RouteQuery& query,
                                        std::span<const WorkerView> workers) {
    const auto ready = route::ready_workers(workers);
    if (ready.empty()) return route::no_worker_ready();
    const WorkerView& chosen = *ready[query.ordinal % ready.size()];
    return route::decide(
        query, ready, chosen,
        fmt::format("request {} of {} ready workers in turn", query.ordinal, ready.size()));
}

}  // namespace taproot
