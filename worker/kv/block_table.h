// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/types.h"
#include "worker/kv/block_ref.h"

namespace taproot {

class PrefixCache;

// The KV pages of one sequence, in order of position:
//
//      position 0                                             computed tokens
//      ├─ shared: full, in the tree, pinned ─┼─ own: being filled ─┤
//      [ b4 ][ b9 ][ b2 ][ b7 ]               [ b30 ][ b31 ]
//                           ^ pinned_: keeps the whole path
//
// Shared blocks are read only and may be pinned by others too; own blocks are active and private.
// Destroying or clearing the table gives everything back: own pages to the pool, the pin to the
// tree. Changed only by PrefixCache (and append_own). Owner: the engine thread.
class BlockTable {
public:
    explicit BlockTable(PrefixCache* cache) : cache_(cache) {}
    BlockTable(BlockTable&& other) noexcept;
    BlockTable& operator=(BlockTable&& other) noexcept;
    ~BlockTable() { clear(); }

    void append_own(BlockRef block);
    void clear();

    [[nodiscard]] std::span<const BlockId> ids() const { return ids_; }
    [[nodiscard]] std::size_t size() const { return ids_.size(); }
    [[nodiscard]] std::size_t shared() const { return ids_.size() - own_.size(); }

private:
    friend class PrefixCache;

    void drop_own();

    PrefixCache* cache_;  // must outlive the table
    std::vector<BlockId> ids_;
    std::vector<BlockRef> own_;  // of the last own_.size() ids
    bool pinned_ = false;        // of ids_[shared() - 1]
};

}  // namespace taproot
