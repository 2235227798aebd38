// SPDX-License-Identifier: Apache-2.0
#include "radix_cache/radix_tree.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"

// Reading and the order of use. Everything that changes the shape is in radix_tree_edit.cc.
namespace taproot {

namespace {

std::size_t common_tokens(const TokenId* block, std::span<const TokenId> tokens,
                          std::size_t block_tokens) {
    const std::size_t most = std::min(block_tokens, tokens.size());
    std::size_t n = 0;
    while (n < most && block[n] == tokens[n]) ++n;
    return n;
}

}  // namespace

RadixTree::RadixTree(RadixTreeOptions options) : options_(options) {
    TAPROOT_ASSERT(options_.block_tokens > 0);
    TAPROOT_ASSERT(options_.blocks_max < kNoBlock.value);
    TAPROOT_ASSERT(options_.root_hash != nullptr);
    TAPROOT_ASSERT(options_.hash_block != nullptr);
}

const TokenId* RadixTree::tokens_at(BlockId block) const {
    return tokens_.data() +
           static_cast<std::size_t>(block.value) * static_cast<std::size_t>(options_.block_tokens);
}

RadixTree::Position RadixTree::root_position(std::uint64_t salt) const {
    const auto found = roots_.find(salt);
    return Position{.node = found == roots_.end() ? kNoNode : found->second};
}

RadixTree::Position RadixTree::position_of(BlockId anchor) const {
    TAPROOT_ASSERT(contains(anchor));
    return Position{.node = at(anchor).node, .last = anchor};
}

// Index of the first child whose first block is not below `tokens` (a short rest of a prompt
// compares by its own length).
std::size_t RadixTree::child_lower_bound(const RadixNode& node,
                                         std::span<const TokenId> tokens) const {
    const std::size_t most =
        std::min(tokens.size(), static_cast<std::size_t>(options_.block_tokens));
    const auto below = [&](NodeId child, std::span<const TokenId> wanted) {
        const TokenId* have = tokens_at(at(child).first);
        return std::lexicographical_compare(have, have + most, wanted.begin(), wanted.end());
    };
    const auto it =
        std::lower_bound(node.children.begin(), node.children.end(), tokens.first(most), below);
    return static_cast<std::size_t>(it - node.children.begin());
}

// Children are sorted by tokens, so one of the two neighbours of the place where `tokens` would
// stand shares most with it; the lowest child that shares as much is found by a second search.
std::optional<PartialBlock> RadixTree::best_partial_child(const RadixNode& node, std::size_t lower,
                                                          std::span<const TokenId> tokens) const {
    const auto block_tokens = static_cast<std::size_t>(options_.block_tokens);
    const auto shared = [&](std::size_t child) {
        return common_tokens(tokens_at(at(node.children[child]).first), tokens, block_tokens);
    };
    std::size_t best = lower < node.children.size() ? shared(lower) : 0;
    if (lower > 0) best = std::max(best, shared(lower - 1));
    if (best == 0) return std::nullopt;
    const std::size_t lowest = child_lower_bound(node, tokens.first(best));
    return PartialBlock{at(node.children[lowest]).first, static_cast<std::uint32_t>(best)};
}

RadixTree::Position RadixTree::walk(Position from, std::span<const TokenId> tokens,
                                    std::vector<BlockId>* path) const {
    const auto block_tokens = static_cast<std::size_t>(options_.block_tokens);
    if (from.node == kNoNode) return from;
    while (!tokens.empty()) {
        // 1. The next block of this edge, or, at its end, of the child that continues like tokens.
        BlockId next = from.last == kNoBlock ? kNoBlock : at(from.last).next;
        if (next == kNoBlock) {
            const RadixNode& node = at(from.node);
            const std::size_t lower = child_lower_bound(node, tokens);
            if (lower < node.children.size()) next = at(node.children[lower]).first;
            // 2. No child has the whole block: the one that shares most is a partial hit.
            if (next == kNoBlock || tokens.size() < block_tokens ||
                std::memcmp(tokens_at(next), tokens.data(), block_tokens * sizeof(TokenId)) != 0) {
                from.partial = best_partial_child(node, lower, tokens);
                return from;
            }
        } else if (tokens.size() < block_tokens ||
                   std::memcmp(tokens_at(next), tokens.data(), block_tokens * sizeof(TokenId)) !=
                       0) {
            // 3. Inside an edge only its next block can share anything.
            const std::size_t shared = common_tokens(tokens_at(next), tokens, block_tokens);
            if (shared > 0) from.partial = {next, static_cast<std::uint32_t>(shared)};
            return from;
        }
        // 4. A whole block: step over it.
        from.node = at(next).node;
        from.last = next;
        ++from.blocks;
        if (path != nullptr) path->push_back(next);
        tokens = tokens.subspan(block_tokens);
    }
    return from;
}

RadixMatch RadixTree::match(std::uint64_t salt, std::span<const TokenId> tokens) const {
    RadixMatch out;
    const Position end = walk(root_position(salt), tokens, &out.blocks);
    out.partial = end.partial;
    out.tokens = end.blocks * static_cast<std::size_t>(options_.block_tokens) +
                 (end.partial ? end.partial->tokens : 0);
    return out;
}

RadixMatch RadixTree::match_after(BlockId anchor, std::span<const TokenId> tokens) const {
    RadixMatch out;
    const Position end = walk(position_of(anchor), tokens, &out.blocks);
    out.partial = end.partial;
    out.tokens = end.blocks * static_cast<std::size_t>(options_.block_tokens) +
                 (end.partial ? end.partial->tokens : 0);
    return out;
}

std::size_t RadixTree::match_tokens(std::uint64_t salt, std::span<const TokenId> tokens) const {
    const Position end = walk(root_position(salt), tokens, nullptr);
    return end.blocks * static_cast<std::size_t>(options_.block_tokens) +
           (end.partial ? end.partial->tokens : 0);
}

bool RadixTree::contains(BlockId block) const {
    return block.value < blocks_.size() && at(block).in_tree();
}

BlockHash RadixTree::hash_of(BlockId block) const {
    TAPROOT_ASSERT(contains(block));
    return at(block).hash;
}

BlockId RadixTree::parent_of(BlockId block) const {
    TAPROOT_DASSERT(contains(block));
    const RadixBlock& b = at(block);
    return b.prev != kNoBlock ? b.prev : at(at(b.node).parent).last;
}

BlockHash RadixTree::parent_hash_of(BlockId block) const {
    TAPROOT_ASSERT(contains(block));
    const BlockId parent = parent_of(block);
    return parent != kNoBlock ? at(parent).hash : options_.root_hash(at(at(block).node).salt);
}

std::span<const TokenId> RadixTree::tokens_of(BlockId block) const {
    TAPROOT_ASSERT(contains(block));
    return {tokens_at(block), static_cast<std::size_t>(options_.block_tokens)};
}

std::uint32_t RadixTree::pins_of(BlockId block) const {
    TAPROOT_ASSERT(contains(block));
    return at(block).pins;
}

Segment RadixTree::segment_of(BlockId block) const {
    TAPROOT_ASSERT(contains(block));
    return static_cast<Segment>(at(block).segment);
}

std::uint64_t RadixTree::salt_of(BlockId block) const {
    TAPROOT_ASSERT(contains(block));
    return at(at(block).node).salt;
}

void RadixTree::touch(BlockId deepest) {
    TAPROOT_ASSERT(contains(deepest));
    ++tick_;
    for (BlockId id = deepest; id != kNoBlock; id = parent_of(id)) {
        RadixBlock& block = at(id);
        if (block.pins == 0) lru(static_cast<Segment>(block.segment)).remove(blocks_, id);
        block.segment = static_cast<std::uint64_t>(Segment::kProtected) & 1;
        if (block.pins > 0) continue;
        block.tick = tick_ & kTickMask;
        lru(Segment::kProtected).push_front(blocks_, id);
    }
}

void RadixTree::pin(BlockId deepest) {
    TAPROOT_ASSERT(contains(deepest));
    for (BlockId id = deepest; id != kNoBlock; id = parent_of(id)) {
        RadixBlock& block = at(id);
        if (block.pins == 0) lru(static_cast<Segment>(block.segment)).remove(blocks_, id);
        ++block.pins;
    }
}

void RadixTree::unpin(BlockId deepest) {
    TAPROOT_ASSERT(contains(deepest));
    ++tick_;
    for (BlockId id = deepest; id != kNoBlock; id = parent_of(id)) {
        RadixBlock& block = at(id);
        TAPROOT_ASSERT(block.pins > 0);
        if (--block.pins > 0) continue;
        block.tick = tick_ & kTickMask;
        lru(static_cast<Segment>(block.segment)).push_front(blocks_, id);
    }
}

// Makes the unpinned part of a path most recent. Above a pinned block everything is pinned.
void RadixTree::refresh_path(BlockId deepest) {
    ++tick_;
    for (BlockId id = deepest; id != kNoBlock && at(id).pins == 0; id = parent_of(id)) {
        RadixBlock& block = at(id);
        BlockLru& order = lru(static_cast<Segment>(block.segment));
        order.remove(blocks_, id);
        block.tick = tick_ & kTickMask;
        order.push_front(blocks_, id);
    }
}

std::uint64_t RadixTree::oldest_age(Segment segment) const {
    const BlockId oldest = lru(segment).back();
    return oldest == kNoBlock ? 0 : tick_ - at(oldest).tick + 1;
}

std::size_t RadixTree::memory_bytes() const {
    std::size_t bytes =
        blocks_.capacity() * sizeof(RadixBlock) + tokens_.capacity() * sizeof(TokenId) +
        nodes_.capacity() * sizeof(RadixNode) + free_nodes_.capacity() * sizeof(NodeId) +
        roots_.bucket_count() * sizeof(void*) + roots_.size() * 32;
    for (const RadixNode& node : nodes_) bytes += node.children.capacity() * sizeof(NodeId);
    return bytes;
}

void RadixTree::append_snapshot(std::vector<KvStored>& out) const {
    out.reserve(out.size() + block_count_);
    std::vector<NodeId> stack;
    for (const auto& [salt, root] : roots_) stack.push_back(root);
    while (!stack.empty()) {
        const RadixNode& node = at(stack.back());
        stack.pop_back();
        stack.insert(stack.end(), node.children.begin(), node.children.end());
        if (node.first == kNoBlock) continue;
        BlockHash parent = parent_hash_of(node.first);
        for (BlockId id = node.first; id != kNoBlock; id = at(id).next) {
            out.push_back(KvStored{at(id).hash, parent, KvTier::kDevice});
            parent = at(id).hash;
        }
    }
}

}  // namespace taproot
