// SPDX-License-Identifier: Apache-2.0
#include "policies/route/common.h"

namespace taproot {

Result<RouteDecision> route_session_hash(const RouteQuery& query,
                                         std::span<const WorkerView> workers) {
    const auto ready = route::ready_workers(workers);
    if (ready.empty()) return route::no_worker_ready();
    if (!query.session) {
        TAPROOT_TRY(RouteDecision out, route_least_loaded(query, workers));
        out.reason = "no session named; " + out.reason;
        return out;
    }
    return route::decide(query, ready, *route::session_home(*query.session, ready),
                         "home of the session");
}

}  // namespace taproot
