// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "base/assert.h"
#include "radix_cache/radix_node.h"

namespace taproot {

// The eviction order of one segment: an intrusive list through the block table, newest at the
// front. It holds every unpinned block of the segment, not only leaves: users of a path push its
// deepest block first, so an ancestor is always nearer the front than its descendants and the back
// is always the end of a leaf. That gives an exact LRU with an O(1) victim; a list of leaves would
// have to search a place for each inner block that becomes a leaf.
//
//      front                                              back = next victim
//   a (root side) <-> b <-> x <-> c (a's grandchild) <-> y
//
// Owner: the tree it is part of. Costs: all O(1).
class BlockLru {
public:
    using Table = std::vector<RadixBlock>;

    void push_front(Table& table, BlockId id) {
        RadixBlock& block = table[id.value];
        TAPROOT_DASSERT(block.newer == kNoBlock && block.older == kNoBlock);
        block.older = front_;
        if (front_ != kNoBlock) table[front_.value].newer = id;
        front_ = id;
        if (back_ == kNoBlock) back_ = id;
        ++size_;
    }

    void remove(Table& table, BlockId id) {
        RadixBlock& block = table[id.value];
        TAPROOT_DASSERT(size_ > 0);
        (block.newer == kNoBlock ? front_ : table[block.newer.value].older) = block.older;
        (block.older == kNoBlock ? back_ : table[block.older.value].newer) = block.newer;
        block.newer = kNoBlock;
        block.older = kNoBlock;
        --size_;
    }

    [[nodiscard]] BlockId front() const { return front_; }
    [[nodiscard]] BlockId back() const { return back_; }  // kNoBlock when empty
    [[nodiscard]] std::size_t size() const { return size_; }

private:
    BlockId front_ = kNoBlock;
    BlockId back_ = kNoBlock;
    std::size_t size_ = 0;
};

}  // namespace taproot
