// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "radix_cache/radix_node.h"

// From which segment the next victim comes; the tree finds it in O(1). Pure functions, any thread.
namespace taproot {

struct EvictView {
    std::size_t probation_blocks = 0;  // evictable, used by one request so far
    std::size_t protected_blocks = 0;  // evictable, used by several
    std::uint64_t probation_age = 0;   // RadixTree::oldest_age of each
    std::uint64_t protected_age = 0;
};

struct EvictDecision {
    std::optional<Segment> segment;  // empty: nothing can be evicted
    std::string_view reason;         // a literal
};

using EvictPolicy = EvictDecision (*)(const EvictView& view);

// At most this share of the evictable blocks may be protected before its oldest must go too:
// a prefix that was popular last week must not outlive everything new.
inline constexpr double kProtectedShareMax = 0.8;

// Probation first, so a flood of prompts used once cannot wash out shared prefixes.
EvictDecision evict_segmented_lru(const EvictView& view);
// The oldest of all, however often it was used.
EvictDecision evict_lru(const EvictView& view);

}  // namespace taproot
