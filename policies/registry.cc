// SPDX-License-Identifier: Apache-2.0
#include "policies/registry.h"

#include <fmt/core.h>

namespace taproot {

namespace {

constexpr NamedPolicy<RoutePolicy> kRoute[] = {
    {"cost", &route_cost, "least predicted milliseconds, own and others'"},
    {"round_robin", &route_round_robin, "ready workers in turn"},
    {"least_loaded", &route_least_loaded, "fewest requests there"},
    {"prefix_first", &route_prefix_first, "longest cached prefix, whatever the load"},
    {"session_hash", &route_session_hash, "a session's home by rendezvous hashing"},
};
constexpr NamedPolicy<AdmitPolicy> kAdmit[] = {
    {"token_budget", &admit_token_budget, "queue bounded in requests and uncached tokens"},
};
constexpr NamedPolicy<BatchPolicy> kBatch[] = {
    {"decode_first", &batch_decode_first, "decodes, then prompt tokens up to the step's time"},
};
constexpr NamedPolicy<EvictPolicy> kEvict[] = {
    {"segmented_lru", &evict_segmented_lru, "blocks used by one request go first"},
    {"lru", &evict_lru, "least recently used"},
};

template <typename Policy>
Result<NamedPolicy<Policy>> find(std::string_view kind,
                                 std::span<const NamedPolicy<Policy>> policies,
                                 std::string_view name) {
    std::string names;
    for (const auto& known : policies) {
        if (known.name == name) return known;
        names += (names.empty() ? "" : ", ");
        names += known.name;
    }
    return Error{ErrorCode::kNotFound,
                 fmt::format("no {} policy is called '{}'; there are: {}", kind, name, names)};
}

}  // namespace

std::span<const NamedPolicy<RoutePolicy>> route_policies() {
    return kRoute;
}
std::span<const NamedPolicy<AdmitPolicy>> admit_policies() {
    return kAdmit;
}
std::span<const NamedPolicy<BatchPolicy>> batch_policies() {
    return kBatch;
}
std::span<const NamedPolicy<EvictPolicy>> evict_policies() {
    return kEvict;
}

Result<NamedPolicy<RoutePolicy>> find_route_policy(std::string_view name) {
    return find("route", route_policies(), name);
}
Result<NamedPolicy<AdmitPolicy>> find_admit_policy(std::string_view name) {
    return find("admit", admit_policies(), name);
}
Result<NamedPolicy<BatchPolicy>> find_batch_policy(std::string_view name) {
    return find("batch", batch_policies(), name);
}
Result<NamedPolicy<EvictPolicy>> find_evict_policy(std::string_view name) {
    return find("evict", evict_policies(), name);
}

}  // namespace taproot
