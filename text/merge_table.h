// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/text_model.h"
#include "text/vocab.h"

namespace taproot {

// Which neighbours merge, in which order, into what. Immutable once built; any thread.
// Open addressing at half load: a lookup is one multiplication and about one cache line.
class MergeTable {
public:
    static constexpr std::uint32_t kNoRank = UINT32_MAX;

    // Refuses merges without a space, or whose parts or result are no tokens. A merge that would
    // make a control token is left out: merged text is never control.
    static Result<MergeTable> build(const TextModel& model, const Vocab& vocab);

    // The rank of the merge of (left, right); kNoRank when they do not merge. Lower goes first.
    [[nodiscard]] std::uint32_t rank(TokenId left, TokenId right) const {
        const std::uint64_t key = make_key(left, right);
        for (std::size_t slot = hash(key);; ++slot) {
            const Slot& s = slots_[slot & mask_];
            if (s.key == key) return s.rank;
            if (s.key == kEmpty) return kNoRank;
        }
    }
    // The token that the merge of this rank makes.
    [[nodiscard]] TokenId result(std::uint32_t rank) const { return results_[rank]; }
    [[nodiscard]] std::size_t size() const { return results_.size(); }

private:
    static constexpr std::uint64_t kEmpty = UINT64_MAX;  // no key: ids are never negative

    struct Slot {
        std::uint64_t key = kEmpty;
        std::uint32_t rank = kNoRank;
    };

    static std::uint64_t make_key(TokenId left, TokenId right) {
        return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
               static_cast<std::uint32_t>(right);
    }
    [[nodiscard]] std::size_t hash(std::uint64_t key) const {
        return static_cast<std::size_t>((key * 0x9E3779B97F4A7C15ull) >> shift_);
    }
    void insert(std::uint64_t key, std::uint32_t rank);

    std::vector<Slot> slots_;       // power of two
    std::vector<TokenId> results_;  // [rank]
    std::size_t mask_ = 0;
    int shift_ = 0;
};

// Working memory of merge_pairs; grows to the longest piece and gives large buffers back.
struct MergeScratch {
    std::vector<TokenId> ids;             // [symbol]
    std::vector<std::uint32_t> next;      // [symbol]
    std::vector<std::uint32_t> previous;  // [symbol]
    std::vector<std::uint32_t> ranks;     // [symbol] rank of (symbol, next)
    std::vector<std::uint64_t> heap;      // rank << 32 | symbol
    std::uint64_t steps = 0;              // table lookups and heap moves so far, for cost tests
};

// Byte-pair encoding (Sennrich et al. 2016): while any neighbours merge, merge those of the lowest
// rank, the leftmost first among equals. `scratch->ids` holds the symbols on entry (fewer than
// 2^32); the result is appended to `out`. O(n log n); short pieces take a simple scan instead.
void merge_pairs(const MergeTable& table, MergeScratch* scratch, std::vector<TokenId>* out);

}  // namespace taproot
