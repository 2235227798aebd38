// SPDX-License-Identifier: Apache-2.0
// How the prefix cache goes on in the RAM tier below it. Copies are made within the call, on the
// engine thread, between two steps: every block of the tree is computed, and no planned copy is
// pending for a page that is read or written here (a sequence gives its pages back before the first
// match of a plan, or after the plan ran).
#include "base/assert.h"
#include "worker/kv/prefix_cache.h"

namespace taproot {

// How many blocks RAM holds that continue `anchor` with `rest`; their slots into `chain`. `foreign`
// tells that the next block's hash belongs to other tokens there.
std::size_t PrefixCache::follow_ram(BlockId anchor, std::uint64_t salt,
                                    std::span<const TokenId> rest, std::vector<RamSlot>* chain,
                                    bool* foreign) const {
    BlockHash parent = anchor == kNoBlock ? options_.root_hash(salt) : tree_.hash_of(anchor);
    std::size_t blocks = 0;
    for (; rest.size() >= block_tokens(); rest = rest.subspan(block_tokens()), ++blocks) {
        std::span<const TokenId> own = rest.first(block_tokens());
        BlockHash hash = options_.hash_block(parent, own);
        RamSlot slot = ram_->find({hash, parent, salt, own}, foreign);
        if (slot == kNoRamSlot) break;
        if (chain != nullptr) chain->push_back(slot);
        parent = hash;
    }
    return blocks;
}

// Empty when RAM brings nothing: the table is then unchanged, but pages may have been evicted.
std::optional<CacheHit> PrefixCache::extend_from_ram(BlockTable& table, std::uint64_t salt,
                                                     std::span<const TokenId> tokens,
                                                     std::size_t computed, const Found& found,
                                                     std::size_t restore_max) {
    ram_chain_.clear();
    bool foreign = false;
    follow_ram(found.anchor, salt, tokens.subspan(found.full_tokens), &ram_chain_, &foreign);
    if (foreign) ++ram_->stats().other_tokens;
    std::size_t there = ram_chain_.size();
    if (there == 0 || found.full_tokens + there * block_tokens() <= computed) return std::nullopt;

    // Children first: a parent is never older than what needs it.
    for (auto slot = ram_chain_.rbegin(); slot != ram_chain_.rend(); ++slot) ram_->touch(*slot);
    std::size_t wanted = std::min(there, restore_max);
    bring_up(found.anchor, wanted);
    CacheHit hit{.tokens = computed};
    hit.restored_blocks = restored_.size();
    hit.more_in_ram = restored_.size() == wanted && wanted < there;
    std::size_t reached = found.full_tokens + restored_.size() * block_tokens();
    if (restored_.empty() || reached <= computed) {
        restored_.clear();
        if (hit.more_in_ram) return hit;
        return std::nullopt;
    }
    table.drop_own();
    take_match(table, found);
    for (BlockRef& page : restored_) table.append_own(std::move(page));
    restored_.clear();
    adopt(table, salt, tokens, table.size());
    tree_.touch(table.ids().back());  // used again: not like a block that was computed just now
    hit.tokens = reached;
    return hit;
}

// Copies the first `blocks` of ram_chain_, which continue `anchor`, into fresh pages (restored_):
// fewer when pages run out or a copy is not what was stored. The copies in RAM stay until the pages
// are adopted.
void PrefixCache::bring_up(BlockId anchor, std::size_t blocks) {
    TAPROOT_ASSERT(restored_.empty());
    std::span<const RamSlot> chain = std::span(ram_chain_).first(blocks);
    // A page for one block may be made free by evicting another: neither what the chain continues
    // nor the rest of the chain may be its victim.
    if (anchor != kNoBlock) tree_.pin(anchor);
    for (RamSlot slot : chain) ram_->hold(slot);
    RamSlot lost = kNoRamSlot;
    for (RamSlot slot : chain) {
        BlockRef page = allocate();
        if (!page) break;
        if (!ram_->restore(slot, *pages_, page.id())) {
            lost = slot;
            break;
        }
        restored_.push_back(std::move(page));
    }
    for (auto slot = chain.rbegin(); slot != chain.rend(); ++slot) ram_->release(*slot);
    if (lost != kNoRamSlot) forget(lost);
    if (anchor != kNoBlock) tree_.unpin(anchor);
}

BlockName PrefixCache::name_of(BlockId block) const {
    return {tree_.hash_of(block), tree_.parent_hash_of(block), tree_.salt_of(block),
            tree_.tokens_of(block)};
}

// `block`, in the tree, is about to be evicted.
void PrefixCache::write_back(BlockId block) {
    BlockName name = name_of(block);
    RamSlot room = ram_->slot_of(name.hash);  // another block with this hash gives way
    bool by_hash = room != kNoRamSlot;
    if (!by_hash && ram_->full()) room = ram_->victim();
    if (room == kNoRamSlot ? ram_->full() : ram_->held(room)) {
        ++ram_->stats().refused;
        return;
    }
    if (room != kNoRamSlot) {
        ++ram_->stats().dropped;
        forget(room);
    }
    ram_->store(name, tree_.segment_of(block), *pages_, block);
    emit(KvStored{name.hash, name.parent, KvTier::kRam});
}

// `block` has just entered the tree: its copy in RAM, if any, makes room for others.
void PrefixCache::leave_ram(BlockId block) {
    RamSlot slot = ram_->find(name_of(block));
    if (slot != kNoRamSlot) forget(slot);
}

void PrefixCache::forget(RamSlot slot) {
    BlockHash hash = ram_->name_of(slot).hash;
    ram_->erase(slot);
    emit(KvRemoved{hash, KvTier::kRam});
}

}  // namespace taproot
