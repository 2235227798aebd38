// SPDX-License-Identifier: Apache-2.0
#include "policies/evict/policy.h"

namespace taproot {

EvictDecision evict_segmented_lru(const EvictView& view) {
    if (view.probation_blocks + view.protected_blocks == 0)
        return {std::nullopt, "nothing can be evicted"};
    if (view.probation_blocks == 0) return {Segment::kProtected, "probation is empty"};
    if (view.protected_blocks > 0 && view.protected_age / kReuseWeight > view.probation_age)
        return {Segment::kProtected, "unused for long, though several requests used it"};
    return {Segment::kProbation, "used by one request only"};
}

EvictDecision evict_lru(const EvictView& view) {
    if (view.probation_blocks + view.protected_blocks == 0) {
        return {std::nullopt, "nothing can be evicted"};
    }
    const bool probation = view.protected_blocks == 0 ||
                           (view.probation_blocks > 0 && view.probation_age >= view.protected_age);
    return {probation ? Segment::kProbation : Segment::kProtected, "least recently used"};
}

}  // namespace taproot
