// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/tail_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.h"

namespace taproot {
namespace {

std::size_t common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
    auto [end, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
    return static_cast<std::size_t>(end - a.begin());
}

}  // namespace

void TailStore::keep(BlockId anchor, std::uint64_t salt, std::span<const TokenId> tokens,
                     BlockId page, std::vector<BlockId>& dropped) {
    TAPROOT_ASSERT(!tokens.empty());
    TAPROOT_ASSERT(!contains(page));
    Key key = key_of(anchor, salt);
    std::vector<Order::iterator> known = by_key_[key];
    for (Order::iterator tail : known) {
        std::size_t common = common_prefix(tail->tokens, tokens);
        if (common == tokens.size()) {  // it says all of this already
            order_.splice(order_.begin(), order_, tail);
            dropped.push_back(page);
            return;
        }
        if (common == tail->tokens.size() && tail->holds == 0) {
            dropped.push_back(tail->page);
            erase(tail);
        }
    }
    std::vector<Order::iterator>& list = by_key_[key];
    if (list.size() >= kPerAnchor) {
        auto oldest = std::find_if(list.begin(), list.end(),
                                   [](Order::iterator tail) { return tail->holds == 0; });
        if (oldest == list.end()) {
            dropped.push_back(page);
            return;
        }
        dropped.push_back((*oldest)->page);
        erase(*oldest);
    }
    order_.push_front({key, page, {tokens.begin(), tokens.end()}, 0});
    by_key_[key].push_back(order_.begin());
    by_page_[page] = order_.begin();
}

std::size_t TailStore::match_tokens(BlockId anchor, std::uint64_t salt,
                                    std::span<const TokenId> tokens) const {
    auto found = by_key_.find(key_of(anchor, salt));
    if (found == by_key_.end()) return 0;
    std::size_t best = 0;
    for (Order::iterator tail : found->second)
        best = std::max(best, common_prefix(tail->tokens, tokens));
    return best;
}

std::optional<PartialBlock> TailStore::find(BlockId anchor, std::uint64_t salt,
                                            std::span<const TokenId> tokens) {
    auto found = by_key_.find(key_of(anchor, salt));
    if (found == by_key_.end()) return std::nullopt;
    std::vector<Order::iterator>& list = found->second;
    std::size_t best = 0;
    auto best_at = list.end();
    for (auto at = list.begin(); at != list.end(); ++at) {
        std::size_t common = common_prefix((*at)->tokens, tokens);
        if (common <= best) continue;
        best = common;
        best_at = at;
    }
    if (best == 0) return std::nullopt;
    Order::iterator tail = *best_at;
    std::rotate(best_at, best_at + 1, list.end());  // the list of an anchor is oldest first
    order_.splice(order_.begin(), order_, tail);
    return PartialBlock{tail->page, static_cast<std::uint32_t>(best)};
}

void TailStore::hold(BlockId page) {
    if (by_page_.at(page)->holds++ == 0) ++held_;
}

void TailStore::release(BlockId page) {
    Tail& tail = *by_page_.at(page);
    TAPROOT_ASSERT(tail.holds > 0);
    if (--tail.holds == 0) --held_;
}

std::optional<BlockId> TailStore::drop_oldest() {
    if (droppable() == 0) return std::nullopt;
    auto at = std::prev(order_.end());
    while (at->holds > 0) --at;  // held ones were used just now: at the other end, and few
    BlockId page = at->page;
    erase(at);
    return page;
}

void TailStore::drop_anchor(BlockId anchor, std::vector<BlockId>& dropped) {
    auto found = by_key_.find(key_of(anchor, 0));
    if (found == by_key_.end()) return;
    std::vector<Order::iterator> list = found->second;
    for (Order::iterator tail : list) {
        TAPROOT_ASSERT(tail->holds == 0);  // whoever copies it has pinned its anchor
        dropped.push_back(tail->page);
        erase(tail);
    }
}

void TailStore::drop_superseded(BlockId anchor, std::uint64_t salt, std::span<const TokenId> tokens,
                                std::vector<BlockId>& dropped) {
    auto found = by_key_.find(key_of(anchor, salt));
    if (found == by_key_.end()) return;
    std::vector<Order::iterator> list = found->second;
    for (Order::iterator tail : list) {
        if (tail->holds > 0 || common_prefix(tail->tokens, tokens) < tail->tokens.size()) continue;
        dropped.push_back(tail->page);
        erase(tail);
    }
}

void TailStore::erase(Order::iterator tail) {
    auto found = by_key_.find(tail->key);
    std::erase(found->second, tail);
    if (found->second.empty()) by_key_.erase(found);
    by_page_.erase(tail->page);
    if (tail->holds > 0) --held_;
    order_.erase(tail);
}

std::vector<std::string> TailStore::check_integrity(const RadixTree& tree) const {
    std::vector<std::string> wrong;
    auto expect = [&wrong](bool holds, std::string sentence) {
        if (!holds) wrong.push_back(std::move(sentence));
    };
    std::size_t listed = 0;
    for (const auto& [key, list] : by_key_) {
        listed += list.size();
        expect(!list.empty() && list.size() <= kPerAnchor, "an anchor has no tail or too many");
        expect(key.anchor == kNoBlock || tree.contains(key.anchor),
               fmt::format("anchor {} left the tree", key.anchor.value));
    }
    std::size_t held = 0;
    for (const Tail& tail : order_) {
        held += tail.holds > 0;
        expect(!tail.tokens.empty() &&
                   tail.tokens.size() < static_cast<std::size_t>(tree.block_tokens()),
               "a tail is empty or full");
        expect(!tree.contains(tail.page), "a tail's page is in the tree");
    }
    expect(listed == order_.size() && by_page_.size() == order_.size(), "tails are miscounted");
    expect(held == held_, "held tails are miscounted");
    return wrong;
}

}  // namespace taproot
