// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/block_pool.h"

#include <fmt/format.h>

#include "base/assert.h"
#include "worker/kv/block_ref.h"

namespace taproot {

BlockPool::BlockPool(std::uint32_t size) : slots_(size) {
    TAPROOT_ASSERT(size > 0);
    free_list_.reserve(size);
    for (std::uint32_t i = size; i > 0; --i) free_list_.push_back(BlockId{i - 1});  // 0 on top
}

BlockPool::~BlockPool() {
    TAPROOT_ASSERT(active_blocks() == 0);  // a handle would point to nothing
}

BlockRef BlockPool::allocate() {
    if (free_list_.empty()) return {};
    BlockId block = free_list_.back();
    free_list_.pop_back();
    slots_[block.value] = {State::kActive, 1};
    return BlockRef(this, block);
}

void BlockPool::into_cache(BlockRef ref) {
    TAPROOT_ASSERT(ref.pool_ == this);
    Slot& slot = slots_[ref.block_.value];
    TAPROOT_ASSERT(slot.state == State::kActive);
    TAPROOT_ASSERT(slot.handles == 1);
    slot = {State::kCached, 0};
    ++cached_blocks_;
    ref.pool_ = nullptr;
}

void BlockPool::evicted(BlockId block) {
    Slot& slot = slots_[block.value];
    TAPROOT_ASSERT(slot.state == State::kCached);
    slot.state = State::kFree;
    --cached_blocks_;
    free_list_.push_back(block);
}

BlockPool::State BlockPool::state(BlockId block) const {
    TAPROOT_ASSERT(block.value < slots_.size());
    return slots_[block.value].state;
}

void BlockPool::add_handle(BlockId block) {
    Slot& slot = slots_[block.value];
    TAPROOT_ASSERT(slot.state == State::kActive);
    ++slot.handles;
}

void BlockPool::drop_handle(BlockId block) {
    Slot& slot = slots_[block.value];
    TAPROOT_ASSERT(slot.state == State::kActive);
    TAPROOT_ASSERT(slot.handles > 0);
    if (--slot.handles > 0) return;
    slot.state = State::kFree;
    free_list_.push_back(block);
}

std::vector<std::string> BlockPool::check_integrity() const {
    std::vector<std::string> wrong;
    std::vector<bool> listed(slots_.size());
    for (BlockId block : free_list_) {
        if (listed[block.value])
            wrong.push_back(fmt::format("block {} is in the free list twice", block.value));
        listed[block.value] = true;
    }
    std::uint32_t cached = 0;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        const Slot& slot = slots_[i];
        if (slot.state == State::kCached) ++cached;
        if (listed[i] != (slot.state == State::kFree))
            wrong.push_back(fmt::format("block {}: state and free list disagree", i));
        if ((slot.handles > 0) != (slot.state == State::kActive))
            wrong.push_back(fmt::format("block {} has {} handles in state {}", i, slot.handles,
                                        static_cast<int>(slot.state)));
    }
    if (cached != cached_blocks_)
        wrong.push_back(fmt::format("{} cached blocks, counted {}", cached, cached_blocks_));
    return wrong;
}

}  // namespace taproot
