// SPDX-License-Identifier: Apache-2.0
#include "radix_cache/holder_sets.h"

#include <algorithm>

#include "base/assert.h"
#include "base/random.h"

namespace taproot {

namespace {

constexpr std::size_t kWordBits = 64;
constexpr std::size_t kMapNodeBytes = 48;  // node, allocation overhead and its share of buckets

std::size_t word_of(WorkerId worker) {
    return worker.value / kWordBits;
}
std::uint64_t bit_of(WorkerId worker) {
    return 1ull << (worker.value % kWordBits);
}

// std::vector doubles; a quarter more keeps the unused share of a byte budget small.
template <typename T>
void reserve_quarter_more(std::vector<T>& v, std::size_t size) {
    if (size > v.capacity()) v.reserve(std::max(size, v.capacity() + v.capacity() / 4));
}

}  // namespace

HolderSets::HolderSets() {
    words_.assign(set_words(), 0);  // set 0: nobody
    uses_.assign(1, 0);
}

HolderSetId HolderSets::with(HolderSetId set, HolderPlane plane, WorkerId worker) {
    return changed(set, plane, worker, true);
}

HolderSetId HolderSets::without(HolderSetId set, HolderPlane plane, WorkerId worker) {
    return changed(set, plane, worker, false);
}

HolderSetId HolderSets::changed(HolderSetId set, HolderPlane plane, WorkerId worker, bool holds) {
    if (last_.valid && last_.from == set && last_.worker == worker && last_.plane == plane &&
        last_.holds == holds) {
        return last_.to;
    }
    if (this->holds(set, plane, worker) == holds) return set;
    if (word_of(worker) >= stride_) grow_stride(word_of(worker) + 1);
    scratch_.assign(words_of(set), words_of(set) + set_words());
    scratch_[static_cast<std::size_t>(plane) * stride_ + word_of(worker)] ^= bit_of(worker);
    const HolderSetId to = intern_scratch();
    last_ = {
        .from = set, .to = to, .plane = plane, .worker = worker, .holds = holds, .valid = true};
    return to;
}

HolderSetId HolderSets::without_tiers(HolderSetId set, WorkerId worker) {
    if (word_of(worker) >= stride_) return set;
    scratch_.assign(words_of(set), words_of(set) + set_words());
    for (std::size_t plane = 0; plane < static_cast<std::size_t>(HolderPlane::kPending); ++plane) {
        scratch_[plane * stride_ + word_of(worker)] &= ~bit_of(worker);
    }
    return intern_scratch();
}

bool HolderSets::holds(HolderSetId set, HolderPlane plane, WorkerId worker) const {
    if (word_of(worker) >= stride_) return false;
    const std::size_t word = static_cast<std::size_t>(plane) * stride_ + word_of(worker);
    return (words_of(set)[word] & bit_of(worker)) != 0;
}

std::uint64_t HolderSets::hash_of(const std::uint64_t* words) const {
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < set_words(); ++i) hash = mix64(hash ^ words[i]);
    return hash;
}

HolderSetId HolderSets::intern_scratch() {
    if (std::all_of(scratch_.begin(), scratch_.end(), [](std::uint64_t w) { return w == 0; })) {
        return kEmptySet;
    }
    const std::uint64_t hash = hash_of(scratch_.data());
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        if (std::equal(scratch_.begin(), scratch_.end(), words_of(it->second))) return it->second;
    }
    HolderSetId id{static_cast<std::uint32_t>(uses_.size())};
    if (free_.empty()) {
        reserve_quarter_more(words_, words_.size() + set_words());
        reserve_quarter_more(uses_, uses_.size() + 1);
        words_.insert(words_.end(), scratch_.begin(), scratch_.end());
        uses_.push_back(0);
    } else {
        id.value = free_.back();
        free_.pop_back();
        std::copy(scratch_.begin(), scratch_.end(),
                  words_.begin() + static_cast<std::ptrdiff_t>(id.value * set_words()));
    }
    by_hash_.emplace(hash, id);
    ++live_;
    return id;
}

void HolderSets::release(HolderSetId set) {
    TAPROOT_DASSERT(uses_[set.value] > 0);
    if (--uses_[set.value] > 0 || set == kEmptySet) return;
    const auto [begin, end] = by_hash_.equal_range(hash_of(words_of(set)));
    const auto it = std::find_if(begin, end, [set](const auto& p) { return p.second == set; });
    TAPROOT_ASSERT(it != end);
    by_hash_.erase(it);
    free_.push_back(set.value);
    --live_;
    if (last_.from == set || last_.to == set) last_.valid = false;
}

void HolderSets::grow_stride(std::size_t stride) {
    std::vector<std::uint64_t> grown(uses_.size() * kHolderPlanes * stride, 0);
    for (std::size_t row = 0; row < uses_.size() * kHolderPlanes; ++row) {
        std::copy_n(words_.begin() + static_cast<std::ptrdiff_t>(row * stride_), stride_,
                    grown.begin() + static_cast<std::ptrdiff_t>(row * stride));
    }
    std::vector<HolderSetId> ids;
    ids.reserve(live_);
    for (const auto& [hash, id] : by_hash_) ids.push_back(id);
    words_ = std::move(grown);
    stride_ = stride;
    by_hash_.clear();
    for (const HolderSetId id : ids) by_hash_.emplace(hash_of(words_of(id)), id);
}

std::size_t HolderSets::bytes() const {
    return words_.capacity() * sizeof(std::uint64_t) + uses_.capacity() * sizeof(std::uint32_t) +
           free_.capacity() * sizeof(std::uint32_t) + live_ * kMapNodeBytes;
}

std::size_t HolderSets::bytes_per_set() const {
    const std::size_t row = set_words() * sizeof(std::uint64_t) + 2 * sizeof(std::uint32_t);
    return row + row / 4 + kMapNodeBytes;
}

}  // namespace taproot
