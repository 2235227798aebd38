// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/types.h"
#include "policies/evict/policy.h"
#include "radix_cache/kv_events.h"
#include "radix_cache/radix_tree.h"
#include "worker/kv/block_pool.h"
#include "worker/kv/block_ref.h"
#include "worker/kv/block_table.h"
#include "worker/kv/ram_tier.h"
#include "worker/kv/tail_store.h"

namespace taproot {

// A page to copy before the next forward pass: `from` stays pinned until release_copy_source().
struct BlockCopy {
    BlockId from;
    BlockId to;
};

// What extending a table by the cache brought.
struct CacheHit {
    std::size_t tokens = 0;  // of the sequence now in its table, exact to the token
    std::optional<BlockCopy> copy = std::nullopt;  // a hit that ends inside a block
    std::size_t restored_blocks = 0;               // of them, copied up from RAM in this call
    bool more_in_ram = false;  // restore_max stopped it: extend again before computing
};

// What a match would bring, without taking it.
struct CacheProbe {
    std::size_t tokens = 0;
    std::size_t full_blocks = 0;      // on the device
    std::size_t unpinned_blocks = 0;  // of the full ones: pinning them uses up available blocks
    std::size_t ram_blocks = 0;       // after the full ones: each needs a page
};

// The worker's prefix cache: the radix tree (which tokens) joined to the pool (which pages).
//  - match: the longest cached prefix of a sequence, exact to the token, pinned by its table;
//  - adopt: blocks that a step has filled enter the tree; where an equal block is there already,
//    the table switches to it and its own page goes back (equal tokens have equal bits, so a
//    switch between steps changes nothing);
//  - retire: the last, partly filled page of a sequence that ends stays too (TailStore): the next
//    turn of a chat computes only what is new;
//  - allocate: a free page; when none is left, the oldest tail goes, then the unpinned block that
//    the policy chooses (policies/evict);
//  - with a RAM tier below: an evicted block goes down there with its name, and where a match ends
//    in the tree it goes on in RAM; what it finds is copied into pages and enters the tree. A block
//    is in the tree or in RAM, never in both: what is computed again while a copy lies in RAM takes
//    its place. Full blocks only: a hit that ends inside a block of RAM brings nothing of that
//    block, and tails do not go down.
// Every change of the tree is a numbered KV event of this epoch.
//
// Owner: the engine thread. Errors: none; running out of pages is an empty BlockRef.
// Invariants: a block is in the tree or a tail exactly while the pool calls it cached;
// check_integrity() proves this and everything the tree, the tails and the pool promise.
// Costs: match and adopt are linear in the new blocks of the sequence; allocate is O(1).
class PrefixCache {
public:
    // `ram` and `pages` (the bytes of the pool) together, or neither; both outlive the cache.
    PrefixCache(BlockPool& pool, std::uint64_t epoch, RadixTreeOptions options = {},
                RamTier* ram = nullptr, BlockIo* pages = nullptr,
                EvictPolicy evict = &evict_segmented_lru);
    ~PrefixCache();
    PrefixCache(const PrefixCache&) = delete;
    PrefixCache& operator=(const PrefixCache&) = delete;

    // What a match would bring, without pinning or counting as a use.
    [[nodiscard]] CacheProbe probe(std::uint64_t salt, std::span<const TokenId> tokens) const;

    // Extends `table`, whose first `computed` tokens of `tokens` are stored, by what the cache
    // holds beyond. Own pages past the shared part are given back when the cache knows more.
    // Unchanged (hit.tokens == computed) when the cache has nothing more, or when the page for a
    // partial block cannot be had and the full blocks alone bring nothing.
    // Copies at most `restore_max` blocks up from RAM, now: about 60 us for 360 KB, and as much for
    // each block that goes down for it.
    CacheHit extend(BlockTable& table, std::uint64_t salt, std::span<const TokenId> tokens,
                    std::size_t computed,
                    std::size_t restore_max = std::numeric_limits<std::size_t>::max());

    // The copy of a CacheHit has been made.
    void release_copy_source(const BlockCopy& copy);

    // Blocks [table.shared(), full_blocks) of `tokens` are computed: puts them into the tree.
    void adopt(BlockTable& table, std::uint64_t salt, std::span<const TokenId> tokens,
               std::size_t full_blocks);

    // The sequence ends with `computed` of `tokens` stored: keeps its last, partial page, and
    // clears the table.
    void retire(BlockTable& table, std::uint64_t salt, std::span<const TokenId> tokens,
                std::size_t computed);

    // A second table over the same shared blocks (the choices of one request). Own pages are not
    // shared: the caller copies the last, partial one.
    [[nodiscard]] BlockTable share(const BlockTable& table);

    // A free page; empty when everything is active or pinned.
    [[nodiscard]] BlockRef allocate();

    // Pages that allocate() could give.
    [[nodiscard]] std::size_t available_blocks() const {
        return pool_.free_blocks() + tree_.evictable_blocks() + tails_.droppable();
    }
    [[nodiscard]] std::size_t cached_blocks() const {
        return tree_.evictable_blocks() + tails_.size();
    }
    [[nodiscard]] std::size_t active_blocks() const {
        return pool_.active_blocks() + tree_.pinned_blocks();
    }
    [[nodiscard]] std::uint64_t evicted_blocks_total() const { return evicted_total_; }
    // Grows with every change of what could match.
    [[nodiscard]] std::uint64_t version() const { return version_; }

    // Forgets every unpinned block, in RAM too.
    void clear();

    // Events since the last call, numbered [next_event_seq() - events.size(), next_event_seq()).
    [[nodiscard]] std::vector<KvEvent> take_events();
    [[nodiscard]] std::uint64_t next_event_seq() const { return next_seq_; }  // after untaken ones
    [[nodiscard]] std::uint64_t epoch() const { return epoch_; }
    [[nodiscard]] std::vector<KvStored> snapshot() const;

    [[nodiscard]] std::vector<std::string> check_integrity() const;

    [[nodiscard]] std::size_t block_tokens() const {
        return static_cast<std::size_t>(tree_.block_tokens());
    }
    [[nodiscard]] const RadixTree& tree() const { return tree_; }
    [[nodiscard]] const RamTier* ram() const { return ram_; }  // null without one

private:
    friend class BlockTable;

    // The longest match below the table's shared blocks: of the tree, then of the tails at its end.
    struct Found {
        RadixMatch match;
        BlockId anchor = kNoBlock;    // the last full block of table and match
        std::size_t full_tokens = 0;  // up to the anchor, from the start of the sequence
        std::size_t tail_tokens = 0;  // that a tail would bring beyond
        [[nodiscard]] std::size_t tokens() const;
    };
    [[nodiscard]] Found look_up(std::span<const BlockId> shared, std::uint64_t salt,
                                std::span<const TokenId> tokens) const;
    [[nodiscard]] std::optional<PartialBlock> hold_partial(const Found& found, std::uint64_t salt,
                                                           std::span<const TokenId> tokens);
    void take_match(BlockTable& table, const Found& found);
    void evict_one();
    void account_evicted();

    // prefix_cache_ram.cc
    std::size_t follow_ram(BlockId anchor, std::uint64_t salt, std::span<const TokenId> rest,
                           std::vector<RamSlot>* chain = nullptr, bool* foreign = nullptr) const;
    [[nodiscard]] std::optional<CacheHit> extend_from_ram(BlockTable& table, std::uint64_t salt,
                                                          std::span<const TokenId> tokens,
                                                          std::size_t computed, const Found& found,
                                                          std::size_t restore_max);
    void bring_up(BlockId anchor, std::size_t blocks);
    [[nodiscard]] BlockName name_of(BlockId block) const;
    void write_back(BlockId block);
    void leave_ram(BlockId block);
    void forget(RamSlot slot);
    void drop_pages();
    void emit(KvEvent event);
    void unpin(BlockId block) { tree_.unpin(block); }

    BlockPool& pool_;
    const std::uint64_t epoch_;
    const RadixTreeOptions options_;
    RamTier* const ram_;
    BlockIo* const pages_;
    const EvictPolicy evict_;
    RadixTree tree_;
    TailStore tails_;
    std::vector<KvEvent> events_;
    std::uint64_t next_seq_ = 1;
    std::uint64_t evicted_total_ = 0;
    std::uint64_t version_ = 0;
    std::vector<EvictedBlock> evicted_;  // scratch
    std::vector<BlockId> residents_;     // scratch
    std::vector<BlockId> dropped_;       // scratch: pages the tails gave up
    std::vector<RamSlot> ram_chain_;     // scratch: what RAM holds after a match
    std::vector<BlockRef> restored_;     // scratch: pages with what came up
};

}  // namespace taproot
