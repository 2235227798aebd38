// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "base/strong_id.h"
#include "base/types.h"

// How the worker's tree lies in memory. Two tables of plain records that name each other by index:
//
//   nodes                                       blocks, indexed by BlockId of the KV pool
//   ┌────────────────────┐  first   ┌─────┐ next ┌─────┐ next ┌─────┐
//   │ node 7: an edge of │ ───────> │ b12 │ ───> │ b3  │ ───> │ b40 │  hash, 16 tokens, pins,
//   │ 3 blocks           │          │     │ <─── │     │ <─── │     │  place in the eviction order
//   │ parent, children   │ ─────────────────────────────────> └─────┘
//   └────────────────────┘  last
//
// A KV page is in the tree at most once, so its BlockId is its place in the block table, a match is
// a list of BlockIds, and a handle is one BlockId: it survives every split and merge of edges.
// Splitting an edge relinks two records; trimming its end is O(1).
namespace taproot {

using NodeId = StrongId<struct NodeIdTag, std::uint32_t>;  // index in the node table

inline constexpr BlockId kNoBlock{std::numeric_limits<std::uint32_t>::max()};
inline constexpr NodeId kNoNode{std::numeric_limits<std::uint32_t>::max()};

// Segmented LRU: a block enters in probation and is protected once a second request used it.
// Protection grows towards the root: an ancestor was used whenever its descendant was.
enum class Segment : std::uint8_t { kProbation = 0, kProtected = 1 };

struct RadixBlock {
    BlockHash hash;
    BlockId next = kNoBlock;  // towards the leaf, within the edge
    BlockId prev = kNoBlock;  // towards the root, within the edge
    // Neighbours in the eviction order of `segment`; both unused while pins > 0.
    BlockId newer = kNoBlock;
    BlockId older = kNoBlock;
    NodeId node = kNoNode;   // whose edge holds it; kNoNode = not in the tree
    std::uint32_t pins = 0;  // of this block or any descendant: never grows with depth
    std::uint64_t segment : 1 = 0;
    std::uint64_t tick : 63 = 0;  // operation that used it last; kept while unpinned

    [[nodiscard]] bool in_tree() const { return node != kNoNode; }
};
static_assert(sizeof(RadixBlock) == 40, "40 bytes + 16 tokens of 4 bytes = 104 per cached block");

// A root has no blocks and one salt. Every other node has at least one block, and either no
// children or at least two (a single child would be part of its parent's edge).
struct RadixNode {
    NodeId parent = kNoNode;  // kNoNode for a root
    std::uint32_t block_count = 0;
    BlockId first = kNoBlock;
    BlockId last = kNoBlock;
    std::uint64_t salt = 0;        // of the whole tree this node is in
    std::vector<NodeId> children;  // ascending by the tokens of their first block
};
static_assert(sizeof(RadixNode) == 48);

}  // namespace taproot
