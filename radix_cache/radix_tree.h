// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "radix_cache/block_hash.h"
#include "radix_cache/block_lru.h"
#include "radix_cache/kv_events.h"
#include "radix_cache/radix_node.h"

namespace taproot {

struct RadixTreeOptions {
    int block_tokens = kBlockTokens;
    std::uint32_t blocks_max = 1u << 24;  // every BlockId is below; the size of the KV pool
    // The names of blocks. Tests put weak hashes here: results must not change, tokens decide.
    BlockHash (*root_hash)(std::uint64_t salt) = &taproot::root_hash;
    BlockHash (*hash_block)(BlockHash parent,
                            std::span<const TokenId> tokens) = &taproot::hash_block;
};

// A cached block whose first `tokens` tokens continue the match; 0 < tokens < block_tokens. Whoever
// wants them copies the block and overwrites the rest.
struct PartialBlock {
    BlockId block;
    std::uint32_t tokens = 0;
    friend bool operator==(const PartialBlock&, const PartialBlock&) = default;
};

// The longest cached prefix, exact to the token. Holds only BlockIds: stays true until one of them
// is evicted, which pin(blocks.back()) (or pin(partial->block)) prevents.
struct RadixMatch {
    std::vector<BlockId> blocks;  // full blocks, from the start of the tokens asked for
    // The child that shares most tokens with what follows; of equals, the lowest by token ids.
    std::optional<PartialBlock> partial;
    std::size_t tokens = 0;  // blocks.size() * block_tokens + partial's
};

struct InsertResult {
    std::size_t existing_blocks = 0;  // leading blocks the tree held already; yours are not adopted
    std::size_t adopted_blocks = 0;   // the rest: these BlockIds belong to the tree until evicted
    BlockId deepest = kNoBlock;       // in-tree block at the end of the inserted tokens; pin this
};

struct EvictedBlock {
    BlockId block;
    BlockHash hash;
    friend bool operator==(const EvictedBlock&, const EvictedBlock&) = default;
};

// The worker's prefix tree: which KV pages hold which tokens. Edges are runs of blocks and carry
// both hashes (names for events) and token ids (the truth): no decision here is made on a hash.
// Layout: radix_node.h.
//
// Typical use (worker/kv/prefix_cache):
//     RadixMatch m = tree.match(salt, prompt.first(prompt.size() - 1));  // leave one to compute
//     if (!m.blocks.empty()) { tree.touch(m.blocks.back()); tree.pin(m.blocks.back()); }
//     ... compute; each time blocks are full:
//     InsertResult r = tree.insert(salt, tokens_of_full_blocks, block_ids);
//     tree.pin(r.deepest); tree.unpin(old_deepest);
//     ... pool runs low:  tree.evict(n, out);  give out's pages back, send KvRemoved for each.
//
// Owner: the engine thread. Errors: none; a broken precondition is our bug (TAPROOT_ASSERT).
// Invariants (integrity.h proves each):
//  - a BlockId is in the tree at most once; trees of different salts share nothing;
//  - an ancestor has at least the pins of its descendants, is at least as protected and used at
//    least as recently; so the oldest block of the eviction order always ends a leaf;
//  - edges are compressed: a node other than a root has no children or at least two.
// Costs: match compares 64 bytes per block (no hashing) plus one binary search per branch, 6-18 ns
// per block; insert hashes the new blocks (10 ns each); touch, pin, unpin walk the path once, about
// 10 ns per block; a victim is found in O(1); evicting and inserting a block costs 60 ns together.
class RadixTree {
public:
    explicit RadixTree(RadixTreeOptions options = {});

    // --- reading: never changes anything ---

    [[nodiscard]] RadixMatch match(std::uint64_t salt, std::span<const TokenId> tokens) const;
    // Continues below `anchor`, a block in the tree: `tokens` and the result start after it.
    [[nodiscard]] RadixMatch match_after(BlockId anchor, std::span<const TokenId> tokens) const;
    // Only match().tokens, without allocating.
    [[nodiscard]] std::size_t match_tokens(std::uint64_t salt,
                                           std::span<const TokenId> tokens) const;

    [[nodiscard]] bool contains(BlockId block) const;
    // Of a block in the tree:
    [[nodiscard]] BlockHash hash_of(BlockId block) const;
    [[nodiscard]] BlockHash parent_hash_of(BlockId block) const;  // root hash for a first block
    [[nodiscard]] BlockId parent_of(BlockId block) const;         // kNoBlock for a first block
    [[nodiscard]] std::span<const TokenId> tokens_of(BlockId block) const;
    [[nodiscard]] std::uint32_t pins_of(BlockId block) const;
    [[nodiscard]] Segment segment_of(BlockId block) const;
    [[nodiscard]] std::uint64_t salt_of(BlockId block) const;

    // --- growing ---

    // Makes the tree hold `tokens` (whole blocks: tokens.size() == blocks.size() * block_tokens).
    // Where it holds an equal block already, that one stays and blocks[i] remains the caller's;
    // from the first missing block on, blocks[i] is adopted. No adopted id may be in the tree.
    // New blocks enter in probation, as most recent. `resident`, when given, is replaced by the
    // in-tree BlockId of every position. The only place where an edge is split.
    InsertResult insert(std::uint64_t salt, std::span<const TokenId> tokens,
                        std::span<const BlockId> blocks, std::vector<BlockId>* resident = nullptr);
    // The same below `anchor`, without walking from the root: O(new blocks) when it is pinned.
    InsertResult insert_after(BlockId anchor, std::span<const TokenId> tokens,
                              std::span<const BlockId> blocks,
                              std::vector<BlockId>* resident = nullptr);

    // --- using ---

    // A request reuses the path from the root to `deepest`: all of it becomes most recent and
    // protected. Call once per request, with the last full (or partial) block of its match.
    void touch(BlockId deepest);

    // While pins are held the path from the root to `deepest` is not evicted. Counted; each pin is
    // undone by one unpin of the same block, which also makes the path most recent.
    void pin(BlockId deepest);
    void unpin(BlockId deepest);

    // --- shrinking ---

    // Evicts up to n unpinned blocks, least recently used first, all of probation before any
    // protected one; appends them to `out`, children before parents. Returns how many.
    std::size_t evict(std::size_t n, std::vector<EvictedBlock>& out);
    // The same from one segment (policies/evict decides which). An old protected block that still
    // has descendants in probation gives those first: parents never go before their children.
    std::size_t evict_from(Segment segment, std::size_t n, std::vector<EvictedBlock>& out);
    // The block that evict_from(segment, 1) would take: its facts can still be read. kNoBlock: all
    // of that segment are pinned.
    [[nodiscard]] BlockId victim(Segment segment) const;

    // --- facts ---

    [[nodiscard]] int block_tokens() const { return options_.block_tokens; }
    [[nodiscard]] std::size_t blocks() const { return block_count_; }
    [[nodiscard]] std::size_t evictable_blocks(Segment s) const { return lru(s).size(); }
    [[nodiscard]] std::size_t evictable_blocks() const {
        return evictable_blocks(Segment::kProbation) + evictable_blocks(Segment::kProtected);
    }
    [[nodiscard]] std::size_t pinned_blocks() const { return block_count_ - evictable_blocks(); }
    // Operations since the oldest evictable block of a segment was used; 0 when it is empty.
    [[nodiscard]] std::uint64_t oldest_age(Segment segment) const;
    [[nodiscard]] std::size_t nodes() const { return nodes_.size() - free_nodes_.size(); }
    [[nodiscard]] std::size_t roots() const { return roots_.size(); }
    // Bytes of all tables, unused capacity included. memory_bytes() / blocks() is about 104 plus
    // 48 per branch when the tables are full.
    [[nodiscard]] std::size_t memory_bytes() const;

    // Every block as a KvStored on the device tier, parents before children: a KvSnapshot.
    void append_snapshot(std::vector<KvStored>& out) const;

private:
    friend class RadixTreeIntegrity;

    // Where a walk stopped: after block `last` of `node`'s edge (kNoBlock: at a root).
    struct Position {
        NodeId node = kNoNode;
        BlockId last = kNoBlock;
        std::size_t blocks = 0;
        std::optional<PartialBlock> partial = std::nullopt;
    };
    static constexpr std::uint64_t kTickMask = ~0ull >> 1;  // RadixBlock::tick has 63 bits

    [[nodiscard]] BlockLru& lru(Segment s) { return lru_[static_cast<std::size_t>(s)]; }
    [[nodiscard]] const BlockLru& lru(Segment s) const { return lru_[static_cast<std::size_t>(s)]; }
    [[nodiscard]] RadixBlock& at(BlockId block) { return blocks_[block.value]; }
    [[nodiscard]] const RadixBlock& at(BlockId block) const { return blocks_[block.value]; }
    [[nodiscard]] RadixNode& at(NodeId node) { return nodes_[node.value]; }
    [[nodiscard]] const RadixNode& at(NodeId node) const { return nodes_[node.value]; }
    [[nodiscard]] const TokenId* tokens_at(BlockId block) const;

    Position walk(Position from, std::span<const TokenId> tokens, std::vector<BlockId>* path) const;
    [[nodiscard]] Position root_position(std::uint64_t salt) const;
    [[nodiscard]] Position position_of(BlockId anchor) const;
    [[nodiscard]] std::size_t child_lower_bound(const RadixNode& node,
                                                std::span<const TokenId> tokens) const;
    [[nodiscard]] std::optional<PartialBlock> best_partial_child(
        const RadixNode& node, std::size_t lower, std::span<const TokenId> tokens) const;

    InsertResult insert_at(Position from, std::span<const TokenId> tokens,
                           std::span<const BlockId> blocks, std::vector<BlockId>* resident);
    void adopt(NodeId node, BlockHash parent, std::span<const TokenId> tokens,
               std::span<const BlockId> blocks);
    NodeId new_node(NodeId parent, std::uint64_t salt);
    void add_child(NodeId parent, NodeId child);
    void split_after(NodeId node, BlockId last);
    void merge_only_child(NodeId node);
    void remove_tail(BlockId tail, std::vector<EvictedBlock>& out);
    void remove_empty(NodeId node);
    void refresh_path(BlockId deepest);
    [[nodiscard]] BlockId leaf_below(BlockId block) const;
    void reserve_blocks(std::span<const BlockId> blocks);

    RadixTreeOptions options_;
    std::vector<RadixBlock> blocks_;  // by BlockId
    std::vector<TokenId> tokens_;     // [blocks_.size()][block_tokens]
    std::vector<RadixNode> nodes_;
    std::vector<NodeId> free_nodes_;
    std::unordered_map<std::uint64_t, NodeId> roots_;  // by salt; only trees that hold blocks
    BlockLru lru_[2];                                  // by Segment
    std::size_t block_count_ = 0;
    std::uint64_t tick_ = 0;
};

}  // namespace taproot
