// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/prefix_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "radix_cache/integrity.h"

namespace taproot {
namespace {

RadixTreeOptions sized(RadixTreeOptions options, const BlockPool& pool) {
    options.blocks_max = pool.size();
    return options;
}

}  // namespace

PrefixCache::PrefixCache(BlockPool& pool, std::uint64_t epoch, RadixTreeOptions options,
                         RamTier* ram, BlockIo* pages, EvictPolicy evict)
    : pool_(pool),
      epoch_(epoch),
      options_(sized(options, pool)),
      ram_(ram),
      pages_(pages),
      evict_(evict),
      tree_(options_) {
    TAPROOT_ASSERT((ram == nullptr) == (pages == nullptr));
    if (ram != nullptr) TAPROOT_ASSERT(ram->block_bytes() == pages->block_bytes());
}

PrefixCache::~PrefixCache() {
    TAPROOT_ASSERT(tree_.pinned_blocks() == 0);  // a table would point to nothing
    clear();
}

std::size_t PrefixCache::Found::tokens() const {
    std::size_t partial = match.partial ? match.partial->tokens : 0;
    return full_tokens + std::max(partial, tail_tokens);
}

PrefixCache::Found PrefixCache::look_up(std::span<const BlockId> shared, std::uint64_t salt,
                                        std::span<const TokenId> tokens) const {
    Found found;
    std::size_t skip = shared.size() * block_tokens();
    std::span<const TokenId> rest = tokens.subspan(skip);
    found.match = shared.empty() ? tree_.match(salt, rest) : tree_.match_after(shared.back(), rest);
    std::size_t full = found.match.blocks.size() * block_tokens();
    if (!found.match.blocks.empty())
        found.anchor = found.match.blocks.back();
    else if (!shared.empty())
        found.anchor = shared.back();
    found.full_tokens = skip + full;
    found.tail_tokens = tails_.match_tokens(found.anchor, salt, rest.subspan(full));
    return found;
}

CacheProbe PrefixCache::probe(std::uint64_t salt, std::span<const TokenId> tokens) const {
    Found found = look_up({}, salt, tokens);
    const std::vector<BlockId>& blocks = found.match.blocks;
    // Pins never grow with depth, so the unpinned blocks are a tail of the path.
    auto unpinned = std::partition_point(
        blocks.begin(), blocks.end(), [this](BlockId block) { return tree_.pins_of(block) > 0; });
    CacheProbe probe{found.tokens(), blocks.size(),
                     static_cast<std::size_t>(blocks.end() - unpinned)};
    if (ram_ == nullptr) return probe;
    probe.ram_blocks = follow_ram(found.anchor, salt, tokens.subspan(found.full_tokens));
    if (probe.ram_blocks > 0) probe.tokens = found.full_tokens + probe.ram_blocks * block_tokens();
    return probe;
}

CacheHit PrefixCache::extend(BlockTable& table, std::uint64_t salt, std::span<const TokenId> tokens,
                             std::size_t computed, std::size_t restore_max) {
    std::size_t shared = table.shared();
    if (shared * block_tokens() >= tokens.size()) return {.tokens = computed};
    Found found = look_up(table.ids().first(shared), salt, tokens);
    if (ram_ != nullptr) {
        if (auto hit = extend_from_ram(table, salt, tokens, computed, found, restore_max))
            return *hit;
        found = look_up(table.ids().first(shared), salt, tokens);  // a try may have dropped tails
    }
    if (found.tokens() <= computed) return {.tokens = computed};

    // Giving back the own pages first makes sure that one is free for the partial block.
    table.drop_own();
    take_match(table, found);
    CacheHit hit{.tokens = found.full_tokens};
    if (auto partial = hold_partial(found, salt, tokens)) {
        BlockRef page = allocate();
        if (page) {
            hit.copy = BlockCopy{partial->block, page.id()};
            hit.tokens += partial->tokens;
            table.append_own(std::move(page));
        } else {
            release_copy_source({partial->block, kNoBlock});
        }
    }
    TAPROOT_ASSERT(hit.tokens >= computed);
    return hit;
}

// The full blocks of a match, pinned. The table has no own pages now.
void PrefixCache::take_match(BlockTable& table, const Found& found) {
    if (found.match.blocks.empty()) return;
    tree_.touch(found.anchor);
    tree_.pin(found.anchor);
    if (table.pinned_) tree_.unpin(table.ids_.back());
    table.pinned_ = true;
    table.ids_.insert(table.ids_.end(), found.match.blocks.begin(), found.match.blocks.end());
}

// The page to copy, kept from eviction until release_copy_source().
std::optional<PartialBlock> PrefixCache::hold_partial(const Found& found, std::uint64_t salt,
                                                      std::span<const TokenId> tokens) {
    std::size_t in_tree = found.match.partial ? found.match.partial->tokens : 0;
    if (found.tail_tokens > in_tree) {
        auto tail = tails_.find(found.anchor, salt, tokens.subspan(found.full_tokens));
        tails_.hold(tail->block);
        return tail;
    }
    if (!found.match.partial) return std::nullopt;
    tree_.touch(found.match.partial->block);
    tree_.pin(found.match.partial->block);
    return found.match.partial;
}

void PrefixCache::release_copy_source(const BlockCopy& copy) {
    if (tails_.contains(copy.from))
        tails_.release(copy.from);
    else
        tree_.unpin(copy.from);
}

void PrefixCache::adopt(BlockTable& table, std::uint64_t salt, std::span<const TokenId> tokens,
                        std::size_t full_blocks) {
    std::size_t shared = table.shared();
    TAPROOT_ASSERT(full_blocks <= table.size());
    if (full_blocks <= shared) return;
    std::size_t count = full_blocks - shared;
    std::span<const TokenId> fresh =
        tokens.subspan(shared * block_tokens(), count * block_tokens());
    std::span<const BlockId> pages = table.ids().subspan(shared, count);
    if (tails_.size() > 0) {
        BlockId anchor = shared == 0 ? kNoBlock : table.ids()[shared - 1];
        tails_.drop_superseded(anchor, salt, fresh.first(block_tokens()), dropped_);
        drop_pages();
    }
    InsertResult result =
        shared == 0 ? tree_.insert(salt, fresh, pages, &residents_)
                    : tree_.insert_after(table.ids()[shared - 1], fresh, pages, &residents_);
    TAPROOT_ASSERT(residents_.size() == count);

    if (result.existing_blocks > 0) tree_.touch(residents_[result.existing_blocks - 1]);
    tree_.pin(result.deepest);
    if (table.pinned_) tree_.unpin(table.ids_[shared - 1]);
    table.pinned_ = true;
    for (std::size_t i = 0; i < count; ++i) {
        if (i < result.existing_blocks) {  // a twin was first: use its page, give ours back
            table.ids_[shared + i] = residents_[i];
            table.own_[i].reset();
            continue;
        }
        pool_.into_cache(std::move(table.own_[i]));
        emit(KvStored{tree_.hash_of(residents_[i]), tree_.parent_hash_of(residents_[i]),
                      KvTier::kDevice});
        if (ram_ != nullptr) leave_ram(residents_[i]);
    }
    table.own_.erase(table.own_.begin(), table.own_.begin() + static_cast<std::ptrdiff_t>(count));
}

void PrefixCache::retire(BlockTable& table, std::uint64_t salt, std::span<const TokenId> tokens,
                         std::size_t computed) {
    std::size_t shared = table.shared();
    std::size_t skip = shared * block_tokens();
    bool has_tail = !table.own_.empty() && computed > skip && computed - skip < block_tokens();
    if (has_tail) {
        std::span<const TokenId> tail = tokens.subspan(skip, computed - skip);
        if (look_up(table.ids().first(shared), salt, tokens.first(computed)).tokens() < computed) {
            BlockId anchor = shared == 0 ? kNoBlock : table.ids()[shared - 1];
            BlockId page = table.own_[0].id();
            pool_.into_cache(std::move(table.own_[0]));
            tails_.keep(anchor, salt, tail, page, dropped_);
            drop_pages();
            ++version_;
        }
    }
    table.clear();
}

BlockTable PrefixCache::share(const BlockTable& table) {
    BlockTable copy(this);
    if (!table.pinned_) return copy;
    std::span<const BlockId> shared = table.ids().first(table.shared());
    copy.ids_.assign(shared.begin(), shared.end());
    tree_.pin(shared.back());
    copy.pinned_ = true;
    return copy;
}

BlockRef PrefixCache::allocate() {
    if (pool_.free_blocks() == 0) {
        if (auto tail = tails_.drop_oldest())
            pool_.evicted(*tail);
        else
            evict_one();
    }
    return pool_.allocate();
}

void PrefixCache::clear() {
    while (auto tail = tails_.drop_oldest()) pool_.evicted(*tail);
    tree_.evict(tree_.evictable_blocks(), evicted_);
    account_evicted();
    if (ram_ == nullptr) return;
    for (RamSlot slot = ram_->victim(); slot != kNoRamSlot; slot = ram_->victim()) forget(slot);
}

// The block that the policy chooses; where there is a RAM tier, a copy of it goes down.
void PrefixCache::evict_one() {
    EvictDecision decision =
        evict_({.probation_blocks = tree_.evictable_blocks(Segment::kProbation),
                .protected_blocks = tree_.evictable_blocks(Segment::kProtected),
                .probation_age = tree_.oldest_age(Segment::kProbation),
                .protected_age = tree_.oldest_age(Segment::kProtected)});
    if (!decision.segment) return;
    if (ram_ != nullptr) write_back(tree_.victim(*decision.segment));
    tree_.evict_from(*decision.segment, 1, evicted_);
    account_evicted();
}

void PrefixCache::account_evicted() {
    for (const EvictedBlock& gone : evicted_) {
        pool_.evicted(gone.block);
        if (tails_.size() > 0) tails_.drop_anchor(gone.block, dropped_);
        emit(KvRemoved{gone.hash, KvTier::kDevice});
    }
    evicted_total_ += evicted_.size();
    evicted_.clear();
    drop_pages();
}

void PrefixCache::drop_pages() {
    for (BlockId page : dropped_) pool_.evicted(page);
    dropped_.clear();
}

void PrefixCache::emit(KvEvent event) {
    events_.push_back(event);
    ++next_seq_;
    ++version_;
}

std::vector<KvEvent> PrefixCache::take_events() {
    return std::exchange(events_, {});
}

std::vector<KvStored> PrefixCache::snapshot() const {
    std::vector<KvStored> stored;
    stored.reserve(tree_.blocks());
    tree_.append_snapshot(stored);
    if (ram_ != nullptr)
        ram_->for_each([&stored](const BlockName& name) {
            stored.push_back({name.hash, name.parent, KvTier::kRam});
        });
    return stored;
}

std::vector<std::string> PrefixCache::check_integrity() const {
    std::vector<std::string> wrong = pool_.check_integrity();
    for (std::string& sentence : taproot::check_integrity(tree_))
        wrong.push_back(std::move(sentence));
    for (std::string& sentence : tails_.check_integrity(tree_))
        wrong.push_back(std::move(sentence));
    for (std::uint32_t i = 0; i < pool_.size(); ++i) {
        bool cached = pool_.state(BlockId{i}) == BlockPool::State::kCached;
        bool known = tree_.contains(BlockId{i}) || tails_.contains(BlockId{i});
        if (cached != known) wrong.push_back(fmt::format("block {}: pool and cache disagree", i));
        if (ram_ != nullptr && tree_.contains(BlockId{i}) &&
            ram_->find(name_of(BlockId{i})) != kNoRamSlot)
            wrong.push_back(fmt::format("block {} is in RAM too", i));
    }
    if (ram_ != nullptr)
        for (std::string& sentence : ram_->check_integrity()) wrong.push_back(std::move(sentence));
    return wrong;
}

}  // namespace taproot
