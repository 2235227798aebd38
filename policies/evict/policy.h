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

// A block that several requests used may be unused this many times as long as one that only one
// request used, before it goes first. Replays of two real traces (`taproot bench tiers`): 2 to 4
// are best at every size; "used once goes first, always" is worse than plain LRU, because sessions
// that ended long ago fill the cache.
inline constexpr std::uint64_t kReuseWeight = 3;

// Used once goes first, so that a flood of such prompts cannot wash out shared prefixes, unless the
// oldest of the others is much older: what was popular last week must not outlive everything new.
EvictDecision evict_segmented_lru(const EvictView& view);
// The oldest of all, however often it was used.
EvictDecision evict_lru(const EvictView& view);

}  // namespace taproot
