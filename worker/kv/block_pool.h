// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace taproot {

class BlockRef;

// A fixed pool of KV blocks: who may write which page. It holds no bytes, only states.
//
//                allocate()                 into_cache()
//      ┌──────┐ ───────────> ┌────────┐ ───────────────> ┌────────┐
//      │ free │              │ active │                  │ cached │
//      └──────┘ <─────────── └────────┘                  └────────┘
//          ^    last handle                                   │
//          │    dropped                                       │
//          └──────────────────────────────────────────────────┘
//                              evicted()
//
//  free    nobody reads or writes it; in the free list
//  active  private to the holders of its handles (BlockRef): a sequence fills it
//  cached  kept by the prefix cache (full in its tree, or a tail), never written again; sequences
//          read it while they pin their path in the tree, which evicts only unpinned blocks
// A block that goes down to RAM is copied between cached and free, within one call of the engine
// thread, so it needs no state of its own (ram_tier.h).
//
// Owner: the engine thread. Every move is O(1); an illegal one is our bug (TAPROOT_ASSERT).
// Invariants: free + active + cached == size; a block has handles exactly while it is active.
// BlockRefs must not outlive the pool.
class BlockPool {
public:
    enum class State : std::uint8_t { kFree, kActive, kCached };

    explicit BlockPool(std::uint32_t size);
    ~BlockPool();
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;

    // Free -> active. An empty handle when nothing is free. Most recently freed first: its page is
    // the warmest.
    [[nodiscard]] BlockRef allocate();

    // Active -> cached: the tree keeps the block from now on. `ref` must be its only handle.
    void into_cache(BlockRef ref);

    // Cached -> free: the tree let it go.
    void evicted(BlockId block);

    [[nodiscard]] State state(BlockId block) const;
    [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }
    [[nodiscard]] std::uint32_t free_blocks() const {
        return static_cast<std::uint32_t>(free_list_.size());
    }
    [[nodiscard]] std::uint32_t active_blocks() const {
        return size() - free_blocks() - cached_blocks_;
    }
    [[nodiscard]] std::uint32_t cached_blocks() const { return cached_blocks_; }

    // One sentence per broken invariant. For tests and fuzzing; O(size).
    [[nodiscard]] std::vector<std::string> check_integrity() const;

private:
    friend class BlockRef;

    struct Slot {
        State state = State::kFree;
        std::uint32_t handles = 0;
    };

    void add_handle(BlockId block);
    void drop_handle(BlockId block);

    std::vector<Slot> slots_;
    std::vector<BlockId> free_list_;  // a stack
    std::uint32_t cached_blocks_ = 0;
};

}  // namespace taproot
