// SPDX-License-Identifier: Apache-2.0
#include "text/merge_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <functional>

namespace taproot {
namespace {

constexpr std::size_t kMergesMax = std::size_t{1} << 24;
constexpr std::size_t kScanSymbolsMax = 32;                 // up to here a scan beats a heap
constexpr std::size_t kKeptSymbols = std::size_t{1} << 16;  // larger buffers are given back
constexpr std::uint32_t kNone = UINT32_MAX;

Result<TokenId> must_know(const Vocab& vocab, std::string_view text, std::size_t index) {
    if (const auto id = vocab.id_of(text)) return *id;
    return invalid_argument(fmt::format("'{}' is not in the vocabulary", text.substr(0, 64)),
                            fmt::format("tokenizer.ggml.merges[{}]", index));
}

// At most kScanSymbolsMax symbols: find the lowest rank, merge, close the gap, again.
void merge_by_scan(const MergeTable& table, MergeScratch* scratch) {
    std::vector<TokenId>& ids = scratch->ids;
    std::uint32_t ranks[kScanSymbolsMax];
    std::size_t count = ids.size();
    for (std::size_t i = 0; i + 1 < count; ++i) ranks[i] = table.rank(ids[i], ids[i + 1]);
    scratch->steps += count;
    while (count > 1) {
        const std::uint32_t* best = std::min_element(ranks, ranks + count - 1);
        scratch->steps += count;
        if (*best == MergeTable::kNoRank) break;
        const auto i = static_cast<std::size_t>(best - ranks);
        ids[i] = table.result(*best);
        std::copy(ids.data() + i + 2, ids.data() + count, ids.data() + i + 1);
        if (i + 2 < count) std::copy(ranks + i + 2, ranks + count - 1, ranks + i + 1);
        --count;
        if (i + 1 < count) ranks[i] = table.rank(ids[i], ids[i + 1]);
        if (i > 0) ranks[i - 1] = table.rank(ids[i - 1], ids[i]);
    }
    ids.resize(count);
}

// A linked list of symbols and a heap of candidate merges. An entry is stale, and skipped, when the
// pair at its symbol has another rank by now.
class HeapMerger {
public:
    HeapMerger(const MergeTable& table, MergeScratch* scratch) : table_(table), s_(*scratch) {}

    void run(std::vector<TokenId>* out) {
        start();
        while (!s_.heap.empty()) {
            std::pop_heap(s_.heap.begin(), s_.heap.end(), std::greater<>());
            const std::uint64_t entry = s_.heap.back();
            s_.heap.pop_back();
            ++s_.steps;
            const auto left = static_cast<std::uint32_t>(entry);
            if (s_.ranks[left] == static_cast<std::uint32_t>(entry >> 32)) merge_at(left);
        }
        for (std::uint32_t i = 0; i != kNone; i = s_.next[i]) out->push_back(s_.ids[i]);
    }

private:
    void start() {
        const auto count = static_cast<std::uint32_t>(s_.ids.size());
        s_.next.resize(count);
        s_.previous.resize(count);
        s_.ranks.resize(count);
        s_.heap.clear();
        for (std::uint32_t i = 0; i < count; ++i) {
            s_.next[i] = i + 1 < count ? i + 1 : kNone;
            s_.previous[i] = i > 0 ? i - 1 : kNone;
            s_.ranks[i] = i + 1 < count ? table_.rank(s_.ids[i], s_.ids[i + 1]) : kNone;
            if (s_.ranks[i] != MergeTable::kNoRank) s_.heap.push_back(entry_of(i));
        }
        s_.steps += count;
        std::make_heap(s_.heap.begin(), s_.heap.end(), std::greater<>());
    }
    [[nodiscard]] std::uint64_t entry_of(std::uint32_t symbol) const {
        return static_cast<std::uint64_t>(s_.ranks[symbol]) << 32 | symbol;
    }
    void merge_at(std::uint32_t left) {
        const std::uint32_t right = s_.next[left];
        s_.ids[left] = table_.result(s_.ranks[left]);
        s_.ranks[right] = MergeTable::kNoRank;  // gone: its entries are stale
        s_.next[left] = s_.next[right];
        if (s_.next[left] != kNone) s_.previous[s_.next[left]] = left;
        rank_again(left);
        if (s_.previous[left] != kNone) rank_again(s_.previous[left]);
    }
    void rank_again(std::uint32_t symbol) {
        const std::uint32_t right = s_.next[symbol];
        s_.ranks[symbol] =
            right == kNone ? MergeTable::kNoRank : table_.rank(s_.ids[symbol], s_.ids[right]);
        ++s_.steps;
        if (s_.ranks[symbol] == MergeTable::kNoRank) return;
        s_.heap.push_back(entry_of(symbol));
        std::push_heap(s_.heap.begin(), s_.heap.end(), std::greater<>());
    }

    const MergeTable& table_;
    MergeScratch& s_;
};

}  // namespace

Result<MergeTable> MergeTable::build(const TextModel& model, const Vocab& vocab) {
    const std::size_t count = model.merges.size();
    if (count > kMergesMax)
        return invalid_argument(fmt::format("{} merges; at most {}", count, kMergesMax),
                                "tokenizer.ggml.merges");
    MergeTable table;
    const std::size_t slots = std::bit_ceil(std::max<std::size_t>(16, count * 2));
    table.slots_.resize(slots);
    table.mask_ = slots - 1;
    table.shift_ = 64 - std::countr_zero(slots);
    table.results_.assign(count, -1);
    std::string whole;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string_view merge = model.merges[i];
        // The first space that leaves a left part: a part may itself begin with a space.
        const std::size_t space = merge.find(' ', 1);
        if (space == std::string_view::npos || space + 1 == merge.size())
            return invalid_argument("is not 'left right'",
                                    fmt::format("tokenizer.ggml.merges[{}]", i));
        const std::string_view left_text = merge.substr(0, space);
        const std::string_view right_text = merge.substr(space + 1);
        TAPROOT_TRY(const TokenId left, must_know(vocab, left_text, i));
        TAPROOT_TRY(const TokenId right, must_know(vocab, right_text, i));
        whole.assign(left_text).append(right_text);
        TAPROOT_TRY(const TokenId result, must_know(vocab, whole, i));
        if (vocab.is_control(result)) continue;
        table.results_[i] = result;
        table.insert(make_key(left, right), static_cast<std::uint32_t>(i));
    }
    return table;
}

void MergeTable::insert(std::uint64_t key, std::uint32_t rank) {
    for (std::size_t slot = hash(key);; ++slot) {
        Slot& s = slots_[slot & mask_];
        if (s.key == key) return;  // listed twice: the first, lower rank decides
        if (s.key != kEmpty) continue;
        s = {key, rank};
        return;
    }
}

void merge_pairs(const MergeTable& table, MergeScratch* scratch, std::vector<TokenId>* out) {
    if (scratch->ids.empty()) return;
    if (scratch->ids.size() <= kScanSymbolsMax) {
        merge_by_scan(table, scratch);
        out->insert(out->end(), scratch->ids.begin(), scratch->ids.end());
        return;
    }
    HeapMerger(table, scratch).run(out);
    if (scratch->ids.capacity() > kKeptSymbols) {
        const std::uint64_t steps = scratch->steps;
        *scratch = {};
        scratch->steps = steps;
    }
}

}  // namespace taproot
