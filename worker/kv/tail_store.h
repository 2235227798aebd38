// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "radix_cache/radix_tree.h"

namespace taproot {

// The last, partly filled pages of sequences that ended. The tree holds full blocks only; without
// these, every turn of a chat would compute up to 15 tokens again.
//
//      tree:  ... ── b4 ── b9          anchor b9: what the tail continues
//                          └─ tail page b30: 7 tokens
//
// A tail is found by its anchor (the last full block before it, or the root of a salt), compared by
// tokens, and used by copying. It goes when its anchor leaves the tree, when a full block says the
// same, or when pages run low: the least recently used first, before any block of the tree.
// Owner: the prefix cache (engine thread). Holds page ids only; the cache moves them in the pool.
// Costs: O(tails of one anchor), at most kPerAnchor.
class TailStore {
public:
    static constexpr std::size_t kPerAnchor = 8;

    // Keeps `page` holding `tokens` after `anchor` (kNoBlock: after the root of `salt`). Appends
    // to `dropped` what goes instead: shorter tails that this one continues, the oldest of a full
    // anchor, or `page` itself when nothing is gained.
    void keep(BlockId anchor, std::uint64_t salt, std::span<const TokenId> tokens, BlockId page,
              std::vector<BlockId>& dropped);

    // The tail that shares most of `tokens`, at least one. Marks it as used.
    [[nodiscard]] std::optional<PartialBlock> find(BlockId anchor, std::uint64_t salt,
                                                   std::span<const TokenId> tokens);
    // How many tokens find() would give.
    [[nodiscard]] std::size_t match_tokens(BlockId anchor, std::uint64_t salt,
                                           std::span<const TokenId> tokens) const;

    // While held, a tail is not dropped by drop_oldest().
    void hold(BlockId page);
    void release(BlockId page);
    [[nodiscard]] bool contains(BlockId page) const { return by_page_.count(page) > 0; }

    // The least recently used tail nobody holds.
    [[nodiscard]] std::optional<BlockId> drop_oldest();
    // `anchor` leaves the tree.
    void drop_anchor(BlockId anchor, std::vector<BlockId>& dropped);
    // A full block with `tokens` now follows `anchor`: tails that it begins with are superseded.
    void drop_superseded(BlockId anchor, std::uint64_t salt, std::span<const TokenId> tokens,
                         std::vector<BlockId>& dropped);

    [[nodiscard]] std::size_t size() const { return by_page_.size(); }
    // Those that drop_oldest() could give.
    [[nodiscard]] std::size_t droppable() const { return by_page_.size() - held_; }
    [[nodiscard]] std::vector<std::string> check_integrity(const RadixTree& tree) const;

private:
    struct Key {
        BlockId anchor;
        std::uint64_t salt;  // 0 unless the anchor is a root
        friend bool operator==(const Key&, const Key&) = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const noexcept {
            return std::hash<std::uint64_t>{}(key.salt * 0x9E3779B97F4A7C15ull ^ key.anchor.value);
        }
    };
    struct Tail {
        Key key;
        BlockId page;
        std::vector<TokenId> tokens;
        std::uint32_t holds = 0;
    };
    using Order = std::list<Tail>;  // most recently used first

    [[nodiscard]] static Key key_of(BlockId anchor, std::uint64_t salt) {
        return {anchor, anchor == kNoBlock ? salt : 0};
    }
    void erase(Order::iterator tail);

    Order order_;
    std::unordered_map<Key, std::vector<Order::iterator>, KeyHash> by_key_;
    std::unordered_map<BlockId, Order::iterator> by_page_;
    std::size_t held_ = 0;
};

}  // namespace taproot
