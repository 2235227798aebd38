// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "base/assert.h"
#include "base/types.h"
#include "worker/kv/block_pool.h"

namespace taproot {

// A counted handle of an active block: gives it back when the last one goes. Copies are explicit
// (clone), so that sharing shows in the code. Owner: the engine thread.
class BlockRef {
public:
    BlockRef() = default;  // holds nothing
    BlockRef(BlockRef&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), block_(other.block_) {}
    BlockRef& operator=(BlockRef&& other) noexcept {
        if (this != &other) {
            reset();
            pool_ = std::exchange(other.pool_, nullptr);
            block_ = other.block_;
        }
        return *this;
    }
    ~BlockRef() { reset(); }

    [[nodiscard]] BlockRef clone() const {
        TAPROOT_ASSERT(pool_ != nullptr);
        pool_->add_handle(block_);
        return BlockRef(pool_, block_);
    }

    void reset() {
        if (pool_ != nullptr) std::exchange(pool_, nullptr)->drop_handle(block_);
    }

    explicit operator bool() const { return pool_ != nullptr; }
    [[nodiscard]] BlockId id() const {
        TAPROOT_ASSERT(pool_ != nullptr);
        return block_;
    }

private:
    friend class BlockPool;
    BlockRef(BlockPool* pool, BlockId block) : pool_(pool), block_(block) {}

    BlockPool* pool_ = nullptr;
    BlockId block_;
};

}  // namespace taproot
