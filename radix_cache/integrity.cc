// SPDX-License-Identifier: Apache-2.0
#include "radix_cache/integrity.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "radix_cache/prefix_index.h"
#include "radix_cache/radix_tree.h"

namespace taproot {

namespace {

constexpr std::size_t kViolationsMax = 100;

class Report {
public:
    // Notes a violation unless the rule holds.
    template <typename... Args>
    void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
        if (holds || violations_.size() >= kViolationsMax) return;
        violations_.push_back(fmt::format(format, std::forward<Args>(args)...));
    }
    std::vector<std::string> take() { return std::move(violations_); }

private:
    std::vector<std::string> violations_;
};

}  // namespace

class RadixTreeIntegrity {
public:
    explicit RadixTreeIntegrity(const RadixTree& tree) : tree_(tree) {}

    std::vector<std::string> check() {
        seen_.assign(tree_.blocks_.size(), 0);
        std::size_t nodes = 0;
        for (const auto& [salt, root] : tree_.roots_) nodes += check_root(salt, root);
        report_.require(nodes == tree_.nodes(), "{} nodes reachable, {} in use", nodes,
                        tree_.nodes());
        check_counts();
        check_order(Segment::kProbation);
        check_order(Segment::kProtected);
        return report_.take();
    }

private:
    std::size_t check_root(std::uint64_t salt, NodeId root) {
        const RadixNode& node = tree_.at(root);
        report_.require(node.parent == kNoNode, "root of salt {} has a parent", salt);
        report_.require(node.salt == salt, "root of salt {} says salt {}", salt, node.salt);
        report_.require(node.first == kNoBlock && node.last == kNoBlock && node.block_count == 0,
                        "root of salt {} has blocks", salt);
        report_.require(!node.children.empty(), "root of salt {} is empty but kept", salt);
        std::size_t nodes = 0;
        std::vector<NodeId> stack{root};
        while (!stack.empty() && nodes <= tree_.nodes_.size()) {
            const NodeId id = stack.back();
            stack.pop_back();
            ++nodes;
            check_children(id);
            if (id != root) check_edge(id, salt);
            const auto& children = tree_.at(id).children;
            stack.insert(stack.end(), children.begin(), children.end());
        }
        return nodes;
    }

    void check_children(NodeId id) {
        const RadixNode& node = tree_.at(id);
        report_.require(node.parent == kNoNode || node.children.size() != 1,
                        "node {} has an only child", id.value);
        for (std::size_t i = 0; i < node.children.size(); ++i) {
            const NodeId child = node.children[i];
            report_.require(tree_.at(child).parent == id, "node {}: parent of child {} is {}",
                            id.value, child.value, tree_.at(child).parent.value);
            if (i == 0) continue;
            const auto before = tree_.tokens_of(tree_.at(node.children[i - 1]).first);
            const auto here = tree_.tokens_of(tree_.at(child).first);
            report_.require(std::lexicographical_compare(before.begin(), before.end(), here.begin(),
                                                         here.end()),
                            "node {}: children {} and {} are not in ascending order", id.value,
                            i - 1, i);
        }
    }

    void check_edge(NodeId id, std::uint64_t salt) {
        const RadixNode& node = tree_.at(id);
        report_.require(node.salt == salt, "node {} says salt {} in the tree of {}", id.value,
                        node.salt, salt);
        report_.require(node.first != kNoBlock, "node {} has no block", id.value);
        BlockId previous = kNoBlock;
        std::size_t count = 0;
        for (BlockId block = node.first; block != kNoBlock && count <= tree_.blocks_.size();
             block = tree_.at(block).next) {
            ++count;
            report_.require(block.value < seen_.size() && ++seen_[block.value] == 1,
                            "block {} is in the tree more than once", block.value);
            report_.require(tree_.at(block).node == id, "block {} names node {}, lies in {}",
                            block.value, tree_.at(block).node.value, id.value);
            report_.require(tree_.at(block).prev == previous, "block {}: wrong back link",
                            block.value);
            check_block(block);
            previous = block;
        }
        report_.require(count == node.block_count, "node {} counts {} blocks, has {}", id.value,
                        node.block_count, count);
        report_.require(previous == node.last, "node {} ends with block {}, says {}", id.value,
                        previous.value, node.last.value);
    }

    // Rules between a block and the one before it on the path.
    void check_block(BlockId id) {
        const RadixBlock& block = tree_.at(id);
        report_.require(
            block.hash == tree_.options_.hash_block(tree_.parent_hash_of(id), tree_.tokens_of(id)),
            "block {}: its hash is not that of its parent and tokens", id.value);
        report_.require(block.tick <= tree_.tick_, "block {} was used in the future", id.value);
        const BlockId parent_id = tree_.parent_of(id);
        if (parent_id == kNoBlock) return;
        const RadixBlock& parent = tree_.at(parent_id);
        report_.require(parent.pins >= block.pins, "block {} has {} pins, its parent {} only {}",
                        id.value, block.pins, parent_id.value, parent.pins);
        report_.require(parent.segment >= block.segment,
                        "block {} is protected, its parent {} is not", id.value, parent_id.value);
        report_.require(parent.pins > 0 || parent.tick >= block.tick,
                        "block {} was used after its parent {}", id.value, parent_id.value);
    }

    void check_counts() {
        std::size_t held = 0;
        std::size_t unpinned = 0;
        for (std::uint32_t i = 0; i < tree_.blocks_.size(); ++i) {
            const RadixBlock& block = tree_.blocks_[i];
            report_.require(block.in_tree() == (seen_[i] > 0),
                            "block {} is marked in the tree but not reachable", i);
            held += block.in_tree();
            unpinned += block.in_tree() && block.pins == 0;
        }
        report_.require(held == tree_.block_count_, "{} blocks held, {} counted", held,
                        tree_.block_count_);
        report_.require(unpinned == tree_.evictable_blocks(), "{} unpinned, {} in order of use",
                        unpinned, tree_.evictable_blocks());
    }

    // From the oldest on: a block's unpinned children must have come before it.
    void check_order(Segment segment) {
        const BlockLru& order = tree_.lru(segment);
        std::vector<char> passed(tree_.blocks_.size(), 0);
        std::size_t count = 0;
        BlockId older = kNoBlock;
        std::uint64_t tick = 0;
        for (BlockId id = order.back(); id != kNoBlock && count <= tree_.blocks_.size();
             id = tree_.at(id).newer) {
            const RadixBlock& block = tree_.at(id);
            ++count;
            report_.require(block.in_tree() && block.pins == 0 &&
                                block.segment == static_cast<std::uint64_t>(segment),
                            "block {} does not belong in this order", id.value);
            report_.require(block.older == older, "block {}: wrong link to the older one",
                            id.value);
            report_.require(block.tick >= tick, "block {} is newer in order than in use", id.value);
            passed[id.value] = 1;
            for_each_child(id, [&](BlockId child) {
                const RadixBlock& c = tree_.at(child);
                report_.require(c.pins == 0, "block {} is evictable, its child {} pinned", id.value,
                                child.value);
                report_.require(c.segment != block.segment || passed[child.value] != 0,
                                "block {} would go before its child {}", id.value, child.value);
            });
            older = id;
            tick = block.tick;
        }
        report_.require(count == order.size(), "order counts {} blocks, has {}", order.size(),
                        count);
        report_.require(order.front() == older, "order starts with {}, says {}", older.value,
                        order.front().value);
    }

    template <typename Visit>
    void for_each_child(BlockId id, Visit visit) const {
        const RadixBlock& block = tree_.at(id);
        if (block.next != kNoBlock) return visit(block.next);
        for (const NodeId child : tree_.at(block.node).children) visit(tree_.at(child).first);
    }

    const RadixTree& tree_;
    Report report_;
    std::vector<std::uint32_t> seen_;  // [blocks] times met
};

class PrefixIndexIntegrity {
public:
    explicit PrefixIndexIntegrity(const PrefixIndex& index) : index_(index) {}

    std::vector<std::string> check() {
        check_entries();
        check_reservations();
        check_sets();
        check_free_lists();
        report_.require(index_.bytes() <= index_.options_.bytes_max + kSlackBytes,
                        "{} bytes owned, {} allowed", index_.bytes(), index_.options_.bytes_max);
        return report_.take();
    }

private:
    // Rows per worker (48 bytes each, 1024 at most) are not part of the budget.
    static constexpr std::size_t kSlackBytes = 2 * kIndexWorkersMax * 48;

    void check_entries() {
        set_uses_.assign(index_.sets_.uses_.size(), 0);
        std::vector<std::size_t> tiers(index_.workers_.size() * PrefixIndex::kTiers, 0);
        for (std::uint32_t i = 0; i < index_.entries_.size(); ++i) {
            const PrefixIndex::Entry& entry = index_.entries_[i];
            if (entry.set == kEmptySet) continue;
            ++live_;
            ++set_uses_[entry.set.value];
            report_.require(index_.find(entry.hash) == i, "entry {} is not found by its hash", i);
            check_claims(i);
            for (std::uint32_t w = 0; w < index_.workers_.size(); ++w) {
                for (std::size_t tier = 0; tier < PrefixIndex::kTiers; ++tier) {
                    tiers[w * PrefixIndex::kTiers + tier] +=
                        index_.sets_.holds(entry.set, static_cast<HolderPlane>(tier), WorkerId{w});
                }
            }
        }
        report_.require(live_ == index_.block_count_, "{} entries live, {} counted", live_,
                        index_.block_count_);
        const auto used =
            static_cast<std::size_t>(std::count_if(index_.table_.begin(), index_.table_.end(),
                                                   [](std::uint32_t slot) { return slot != 0; }));
        report_.require(used == live_, "{} slots for {} entries", used, live_);
        for (std::size_t w = 0; w < index_.workers_.size(); ++w) {
            for (std::size_t tier = 0; tier < PrefixIndex::kTiers; ++tier) {
                const std::size_t have = tiers[w * PrefixIndex::kTiers + tier];
                const std::size_t counted = index_.workers_[w].tier_blocks[tier];
                report_.require(have == counted, "worker {} holds {} blocks in tier {}, counted {}",
                                w, have, tier, counted);
            }
        }
    }

    void check_claims(std::uint32_t entry) {
        std::vector<std::uint32_t> workers;
        for (std::uint32_t c = index_.entries_[entry].claims;
             c != 0 && workers.size() <= index_.claims_.size(); c = index_.claims_[c - 1].next) {
            const PrefixIndex::Claim& claim = index_.claims_[c - 1];
            report_.require(claim.entry == entry, "claim {} of entry {} names {}", c, entry,
                            claim.entry);
            report_.require(claim.reservations > 0, "claim {} has no reservation", c);
            expected_[{c - 1, claim.generation}] = claim.reservations;
            workers.push_back(claim.worker.value);
        }
        claims_ += workers.size();
        std::size_t pending = 0;
        for (const std::uint64_t word :
             index_.sets_.plane(index_.entries_[entry].set, HolderPlane::kPending)) {
            pending += static_cast<std::size_t>(std::popcount(word));
        }
        report_.require(pending == workers.size(), "entry {}: {} pending, {} claims", entry,
                        pending, workers.size());
        for (const std::uint32_t worker : workers) {
            report_.require(index_.sets_.holds(index_.entries_[entry].set, HolderPlane::kPending,
                                               WorkerId{worker}),
                            "entry {}: claim of worker {} is not in its set", entry, worker);
        }
    }

    void check_reservations() {
        report_.require(claims_ == index_.claim_count_, "{} claims live, {} counted", claims_,
                        index_.claim_count_);
        std::size_t active = 0;
        std::size_t refs = 0;
        for (std::uint32_t slot = 0; slot < index_.reservations_.size(); ++slot) {
            const PrefixIndex::Reservation& r = index_.reservations_[slot];
            if (!r.active) continue;
            ++active;
            refs += r.claims.size();
            report_.require(index_.by_expiry_.contains({r.expiry, slot}),
                            "reservation {} never expires", slot);
            for (const PrefixIndex::ClaimRef& ref : r.claims) {
                const auto it = expected_.find({ref.claim, ref.generation});
                if (it != expected_.end()) --it->second;
            }
        }
        for (const auto& [claim, left] : expected_) {
            report_.require(left == 0, "claim {}: reservations counted wrong by {}", claim.first,
                            static_cast<std::int32_t>(left));
        }
        report_.require(active == index_.active_reservations_ && active == index_.by_expiry_.size(),
                        "{} reservations active, {} counted, {} queued", active,
                        index_.active_reservations_, index_.by_expiry_.size());
        report_.require(refs == index_.claim_refs_, "{} claim references, {} counted", refs,
                        index_.claim_refs_);
    }

    void check_sets() {
        std::size_t live = 0;
        for (std::uint32_t i = 1; i < set_uses_.size(); ++i) {
            live += set_uses_[i] > 0;
            report_.require(set_uses_[i] == index_.sets_.uses(HolderSetId{i}),
                            "set {} is used by {} entries, counts {}", i, set_uses_[i],
                            index_.sets_.uses(HolderSetId{i}));
        }
        report_.require(live == index_.sets_.size(), "{} sets used, {} live", live,
                        index_.sets_.size());
    }

    void check_free_lists() {
        std::size_t entries = 0;
        for (std::uint32_t e = index_.free_entry_; e != 0 && entries <= index_.entries_.size();
             e = static_cast<std::uint32_t>(index_.entries_[e - 1].hash.value)) {
            ++entries;
        }
        report_.require(entries + live_ == index_.entries_.size(),
                        "{} free and {} live entries of {}", entries, live_,
                        index_.entries_.size());
        std::size_t claims = 0;
        for (std::uint32_t c = index_.free_claim_; c != 0 && claims <= index_.claims_.size();
             c = index_.claims_[c - 1].next) {
            ++claims;
        }
        report_.require(claims + claims_ == index_.claims_.size(),
                        "{} free and {} live claims of {}", claims, claims_, index_.claims_.size());
    }

    const PrefixIndex& index_;
    Report report_;
    std::size_t live_ = 0;
    std::size_t claims_ = 0;
    std::vector<std::uint32_t> set_uses_;
    // (claim, generation) -> its reservations not met yet
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> expected_;
};

std::vector<std::string> check_integrity(const RadixTree& tree) {
    return RadixTreeIntegrity(tree).check();
}

std::vector<std::string> check_integrity(const PrefixIndex& index) {
    return PrefixIndexIntegrity(index).check();
}

}  // namespace taproot
