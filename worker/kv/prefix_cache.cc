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

PrefixCache::PrefixCache(BlockPool& pool, std::uint64_t epoch, RadixTreeOptions options)
    : pool_(pool), epoch_(epoch), tree_(sized(options, pool)) {}

PrefixCache::~PrefixCache() {
    TAPROOT_ASSERT(tree_.pinned_blocks() == 0);  // a table would point to nothing
    clear();
}

CacheProbe PrefixCache::probe(std::uint64_t salt, std::span<const TokenId> tokens) const {
    RadixMatch match = tree_.match(salt, tokens);
    // Pins never grow with depth, so the unpinned blocks are a tail of the path.
    auto unpinned =
        std::partition_point(match.blocks.begin(), match.blocks.end(),
                             [this](BlockId block) { return tree_.pins_of(block) > 0; });
    return {match.tokens, match.blocks.size(),
            static_cast<std::size_t>(match.blocks.end() - unpinned)};
}

CacheHit PrefixCache::extend(BlockTable& table, std::uint64_t salt, std::span<const TokenId> tokens,
                             std::size_t computed) {
    std::size_t shared = table.shared();
    std::size_t skip = shared * block_tokens();
    if (skip >= tokens.size()) return {computed, {}};
    std::span<const TokenId> rest = tokens.subspan(skip);
    RadixMatch match =
        shared == 0 ? tree_.match(salt, rest) : tree_.match_after(table.ids()[shared - 1], rest);
    if (skip + match.tokens <= computed) return {computed, {}};

    // Giving back the own pages first makes sure that one is free for the partial block.
    table.drop_own();
    CacheHit hit;
    if (!match.blocks.empty()) {
        tree_.touch(match.blocks.back());
        tree_.pin(match.blocks.back());
        if (table.pinned_) tree_.unpin(table.ids_[shared - 1]);
        table.pinned_ = true;
        table.ids_.insert(table.ids_.end(), match.blocks.begin(), match.blocks.end());
    }
    hit.tokens = table.shared() * block_tokens();
    if (match.partial) {
        tree_.pin(match.partial->block);  // until release_copy_source()
        BlockRef page = allocate();
        if (page) {
            tree_.touch(match.partial->block);
            hit.copy = BlockCopy{match.partial->block, page.id()};
            hit.tokens += match.partial->tokens;
            table.append_own(std::move(page));
        } else {
            tree_.unpin(match.partial->block);
        }
    }
    TAPROOT_ASSERT(hit.tokens >= computed);
    return hit;
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
    }
    table.own_.erase(table.own_.begin(), table.own_.begin() + static_cast<std::ptrdiff_t>(count));
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
    if (pool_.free_blocks() == 0) evict(1);
    return pool_.allocate();
}

void PrefixCache::clear() {
    evict(tree_.evictable_blocks());
}

void PrefixCache::evict(std::size_t blocks) {
    evicted_.clear();
    tree_.evict(blocks, evicted_);
    for (const EvictedBlock& gone : evicted_) {
        pool_.evicted(gone.block);
        emit(KvRemoved{gone.hash, KvTier::kDevice});
    }
    evicted_total_ += evicted_.size();
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
    return stored;
}

std::vector<std::string> PrefixCache::check_integrity() const {
    std::vector<std::string> wrong = pool_.check_integrity();
    for (std::string& sentence : taproot::check_integrity(tree_))
        wrong.push_back(std::move(sentence));
    for (std::uint32_t i = 0; i < pool_.size(); ++i) {
        bool cached = pool_.state(BlockId{i}) == BlockPool::State::kCached;
        if (cached != tree_.contains(BlockId{i}))
            wrong.push_back(fmt::format("block {}: pool and tree disagree", i));
    }
    return wrong;
}

}  // namespace taproot
