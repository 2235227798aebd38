// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/block_table.h"

#include <utility>

#include "worker/kv/prefix_cache.h"

namespace taproot {

BlockTable::BlockTable(BlockTable&& other) noexcept
    : cache_(other.cache_),
      ids_(std::exchange(other.ids_, {})),
      own_(std::exchange(other.own_, {})),
      pinned_(std::exchange(other.pinned_, false)) {}

BlockTable& BlockTable::operator=(BlockTable&& other) noexcept {
    if (this != &other) {
        clear();
        cache_ = other.cache_;
        ids_ = std::exchange(other.ids_, {});
        own_ = std::exchange(other.own_, {});
        pinned_ = std::exchange(other.pinned_, false);
    }
    return *this;
}

void BlockTable::append_own(BlockRef block) {
    ids_.push_back(block.id());
    own_.push_back(std::move(block));
}

void BlockTable::drop_own() {
    ids_.resize(shared());
    own_.clear();
}

void BlockTable::clear() {
    if (pinned_) cache_->unpin(ids_[shared() - 1]);
    pinned_ = false;
    own_.clear();
    ids_.clear();
}

}  // namespace taproot
