// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "policies/admit/policy.h"
#include "policies/batch/policy.h"
#include "policies/evict/policy.h"
#include "policies/route/policy.h"

namespace taproot {

// The only place where a policy has a string name. find_* of an unknown name is kNotFound and lists
// the names there are.
template <typename Policy>
struct NamedPolicy {
    std::string_view name;
    Policy policy;
    std::string_view summary;  // one line for --help and documents
};

[[nodiscard]] std::span<const NamedPolicy<RoutePolicy>> route_policies();
[[nodiscard]] std::span<const NamedPolicy<AdmitPolicy>> admit_policies();
[[nodiscard]] std::span<const NamedPolicy<BatchPolicy>> batch_policies();
[[nodiscard]] std::span<const NamedPolicy<EvictPolicy>> evict_policies();

Result<NamedPolicy<RoutePolicy>> find_route_policy(std::string_view name);
Result<NamedPolicy<AdmitPolicy>> find_admit_policy(std::string_view name);
Result<NamedPolicy<BatchPolicy>> find_batch_policy(std::string_view name);
Result<NamedPolicy<EvictPolicy>> find_evict_policy(std::string_view name);

}  // namespace taproot
