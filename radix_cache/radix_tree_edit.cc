// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "radix_cache/radix_tree.h"

// What changes the shape of the tree: insert (the only place that splits an edge) and evict.
//
//   insert [a b x] into   root ── a b c d     1. walk: a b match, the edge goes on with c
//                                             2. split after b     root ── a b ── c d
//                                             3. hang the rest     root ── a b ─┬ c d
//                                                                               └ x
//   a rest that follows the end of a leaf lengthens its edge instead (a chat that grows is one
//   node)
//
//   evict x, then d:      root ── a b ─┬ c d  ->  root ── a b c d  ->  root ── a b c
//                                      └ x
//   an only child joins its parent's edge, so the shape depends on the content alone
namespace taproot {

InsertResult RadixTree::insert(std::uint64_t salt, std::span<const TokenId> tokens,
                               std::span<const BlockId> blocks, std::vector<BlockId>* resident) {
    if (blocks.empty()) {
        TAPROOT_ASSERT(tokens.empty());
        if (resident != nullptr) resident->clear();
        return {};
    }
    Position from = root_position(salt);
    if (from.node == kNoNode) {
        from.node = new_node(kNoNode, salt);
        roots_.emplace(salt, from.node);
    }
    return insert_at(from, tokens, blocks, resident);
}

InsertResult RadixTree::insert_after(BlockId anchor, std::span<const TokenId> tokens,
                                     std::span<const BlockId> blocks,
                                     std::vector<BlockId>* resident) {
    return insert_at(position_of(anchor), tokens, blocks, resident);
}

InsertResult RadixTree::insert_at(Position from, std::span<const TokenId> tokens,
                                  std::span<const BlockId> blocks, std::vector<BlockId>* resident) {
    const auto block_tokens = static_cast<std::size_t>(options_.block_tokens);
    TAPROOT_ASSERT(tokens.size() == blocks.size() * block_tokens);
    if (resident != nullptr) resident->clear();
    // 1. What is there already stays.
    const Position end = walk(from, tokens, resident);
    const InsertResult result{
        .existing_blocks = end.blocks,
        .adopted_blocks = blocks.size() - end.blocks,
        .deepest = end.blocks == blocks.size() ? end.last : blocks.back(),
    };
    if (result.adopted_blocks == 0) {
        if (end.last != kNoBlock) refresh_path(end.last);
        return result;
    }
    const std::span<const BlockId> fresh = blocks.subspan(end.blocks);
    if (resident != nullptr) resident->insert(resident->end(), fresh.begin(), fresh.end());
    // 2. Make the place of insertion the end of a node.
    if (end.last != at(end.node).last) split_after(end.node, end.last);
    // 3. Lengthen a leaf's edge, or hang a new child.
    const BlockHash parent_hash =
        end.last != kNoBlock ? at(end.last).hash : options_.root_hash(at(end.node).salt);
    const bool lengthen = end.last != kNoBlock && at(end.node).children.empty();
    const NodeId target = lengthen ? end.node : new_node(end.node, at(end.node).salt);
    adopt(target, parent_hash, tokens.subspan(end.blocks * block_tokens), fresh);
    if (!lengthen) add_child(end.node, target);
    // 4. The whole path is most recent now, deepest block first.
    refresh_path(result.deepest);
    return result;
}

// Appends blocks to a node's edge. They enter the eviction order here; refresh_path places them.
void RadixTree::adopt(NodeId node, BlockHash parent, std::span<const TokenId> tokens,
                      std::span<const BlockId> blocks) {
    const auto block_tokens = static_cast<std::size_t>(options_.block_tokens);
    reserve_blocks(blocks);
    for (const BlockId id : blocks) {
        RadixBlock& block = at(id);
        TAPROOT_ASSERT(!block.in_tree());
        const std::span<const TokenId> own = tokens.first(block_tokens);
        std::memcpy(tokens_.data() + id.value * block_tokens, own.data(), own.size_bytes());
        tokens = tokens.subspan(block_tokens);
        parent = options_.hash_block(parent, own);
        block = RadixBlock{.hash = parent, .prev = at(node).last, .node = node};
        (at(node).last == kNoBlock ? at(node).first : at(at(node).last).next) = id;
        at(node).last = id;
        ++at(node).block_count;
        ++block_count_;
        lru(Segment::kProbation).push_front(blocks_, id);
    }
}

void RadixTree::reserve_blocks(std::span<const BlockId> blocks) {
    std::uint32_t highest = 0;
    for (const BlockId id : blocks) highest = std::max(highest, id.value);
    TAPROOT_ASSERT(highest < options_.blocks_max);
    if (highest < blocks_.size()) return;
    const std::size_t size = std::min<std::size_t>(
        std::max<std::size_t>(highest + std::size_t{1}, blocks_.size() * 2), options_.blocks_max);
    blocks_.resize(size);
    tokens_.resize(size * static_cast<std::size_t>(options_.block_tokens));
}

NodeId RadixTree::new_node(NodeId parent, std::uint64_t salt) {
    NodeId id{static_cast<std::uint32_t>(nodes_.size())};
    if (free_nodes_.empty()) {
        nodes_.emplace_back();
    } else {
        id = free_nodes_.back();
        free_nodes_.pop_back();
    }
    at(id) = RadixNode{.parent = parent, .salt = salt, .children = {}};
    return id;
}

void RadixTree::add_child(NodeId parent, NodeId child) {
    std::vector<NodeId>& children = at(parent).children;
    const std::size_t place = child_lower_bound(at(parent), tokens_of(at(child).first));
    children.insert(children.begin() + static_cast<std::ptrdiff_t>(place), child);
}

// The blocks after `last` and all children move to a new node below. `node` has one child then,
// until the caller adds the second.
void RadixTree::split_after(NodeId node, BlockId last) {
    const NodeId lower = new_node(node, at(node).salt);
    RadixNode& above = at(node);
    RadixNode& below = at(lower);
    below.first = at(last).next;
    below.last = above.last;
    below.children = std::move(above.children);
    above.children.assign(1, lower);
    above.last = last;
    at(last).next = kNoBlock;
    at(below.first).prev = kNoBlock;
    for (BlockId id = below.first; id != kNoBlock; id = at(id).next) {
        at(id).node = lower;
        ++below.block_count;
    }
    above.block_count -= below.block_count;
    for (const NodeId child : below.children) at(child).parent = lower;
}

// The reverse of split_after.
void RadixTree::merge_only_child(NodeId node) {
    TAPROOT_DASSERT(at(node).children.size() == 1);
    const NodeId child = at(node).children.front();
    RadixNode& above = at(node);
    RadixNode& below = at(child);
    for (BlockId id = below.first; id != kNoBlock; id = at(id).next) at(id).node = node;
    at(above.last).next = below.first;
    at(below.first).prev = above.last;
    above.last = below.last;
    above.block_count += below.block_count;
    above.children = std::move(below.children);
    for (const NodeId grandchild : above.children) at(grandchild).parent = node;
    at(child) = RadixNode{};
    free_nodes_.push_back(child);
}

std::size_t RadixTree::evict(std::size_t n, std::vector<EvictedBlock>& out) {
    const std::size_t first = evict_from(Segment::kProbation, n, out);
    return first + evict_from(Segment::kProtected, n - first, out);
}

std::size_t RadixTree::evict_from(Segment segment, std::size_t n, std::vector<EvictedBlock>& out) {
    std::size_t evicted = 0;
    for (; evicted < n && lru(segment).size() > 0; ++evicted) {
        remove_tail(leaf_below(lru(segment).back()), out);
    }
    return evicted;
}

BlockId RadixTree::victim(Segment segment) const {
    return lru(segment).size() > 0 ? leaf_below(lru(segment).back()) : kNoBlock;
}

// The end of a leaf at or below `block`: itself, unless it has descendants in probation.
BlockId RadixTree::leaf_below(BlockId block) const {
    const RadixNode* node = &at(at(block).node);
    while (!node->children.empty()) node = &at(node->children.front());
    return node->last;
}

void RadixTree::remove_tail(BlockId tail, std::vector<EvictedBlock>& out) {
    const NodeId node = at(tail).node;
    TAPROOT_ASSERT(at(node).last == tail);
    TAPROOT_ASSERT(at(node).children.empty());
    TAPROOT_ASSERT(at(tail).pins == 0);
    const BlockId prev = at(tail).prev;
    lru(static_cast<Segment>(at(tail).segment)).remove(blocks_, tail);
    out.push_back({tail, at(tail).hash});
    at(tail) = RadixBlock{};
    --block_count_;
    --at(node).block_count;
    at(node).last = prev;
    if (prev != kNoBlock) {
        at(prev).next = kNoBlock;
    } else {
        remove_empty(node);
    }
}

// A node whose last block just went. Its first block's tokens still lie in the table, so its place
// among its siblings is found by search.
void RadixTree::remove_empty(NodeId node) {
    const NodeId parent = at(node).parent;
    std::vector<NodeId>& siblings = at(parent).children;
    const std::size_t place = child_lower_bound(
        at(parent), {tokens_at(at(node).first), static_cast<std::size_t>(options_.block_tokens)});
    TAPROOT_ASSERT(place < siblings.size() && siblings[place] == node);
    siblings.erase(siblings.begin() + static_cast<std::ptrdiff_t>(place));
    at(node) = RadixNode{};
    free_nodes_.push_back(node);
    if (at(parent).parent != kNoNode) {
        if (siblings.size() == 1) merge_only_child(parent);
    } else if (siblings.empty()) {
        roots_.erase(at(parent).salt);
        at(parent) = RadixNode{};
        free_nodes_.push_back(parent);
    }
}

}  // namespace taproot
