// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/strong_id.h"
#include "base/types.h"

namespace taproot {

using HolderSetId = StrongId<struct HolderSetIdTag, std::uint32_t>;
inline constexpr HolderSetId kEmptySet{0};  // nobody holds it

// In which way a worker has a block; the first three are the tiers of KvTier, in the same order.
enum class HolderPlane : std::uint8_t { kDevice = 0, kRam = 1, kDisk = 2, kPending = 3 };
inline constexpr std::size_t kHolderPlanes = 4;

// Interned sets of (plane, worker). Thousands of blocks share a few combinations of holders, so an
// index entry stores 4 bytes however many workers there are, and a run of blocks with equal
// holders is recognised by comparing ids.
//
//   words of one set, stride = words per plane (1 up to 64 workers, grown on demand):
//   [device 0..][ram 0..][disk 0..][pending 0..]     bit w of a plane = worker w
//
// Sets are counted by their users and freed at zero. Owner: the PrefixIndex it is part of.
// Costs: with/without about 40 ns, or 2 ns when it repeats the previous change (events come in
// runs); the rest O(1).
class HolderSets {
public:
    HolderSets();

    // The set after a change. Does not count a user: follow with acquire/release.
    [[nodiscard]] HolderSetId with(HolderSetId set, HolderPlane plane, WorkerId worker);
    [[nodiscard]] HolderSetId without(HolderSetId set, HolderPlane plane, WorkerId worker);
    // Without the worker in the three tier planes; its claims (pending) stay.
    [[nodiscard]] HolderSetId without_tiers(HolderSetId set, WorkerId worker);

    void acquire(HolderSetId set) { ++uses_[set.value]; }
    void release(HolderSetId set);

    [[nodiscard]] bool holds(HolderSetId set, HolderPlane plane, WorkerId worker) const;
    [[nodiscard]] std::span<const std::uint64_t> plane(HolderSetId set, HolderPlane plane) const {
        return {words_of(set) + static_cast<std::size_t>(plane) * stride_, stride_};
    }
    // Workers in any plane, word by word.
    [[nodiscard]] std::uint64_t any_word(HolderSetId set, std::size_t word) const {
        const std::uint64_t* w = words_of(set) + word;
        return w[0] | w[stride_] | w[2 * stride_] | w[3 * stride_];
    }
    [[nodiscard]] std::size_t stride() const { return stride_; }
    [[nodiscard]] std::uint32_t uses(HolderSetId set) const { return uses_[set.value]; }
    [[nodiscard]] std::size_t size() const { return live_; }  // sets in use, the empty one excluded
    [[nodiscard]] std::size_t bytes() const;
    [[nodiscard]] std::size_t bytes_per_set() const;  // what one more set costs, slack included

private:
    friend class PrefixIndexIntegrity;

    [[nodiscard]] const std::uint64_t* words_of(HolderSetId set) const {
        return words_.data() + static_cast<std::size_t>(set.value) * kHolderPlanes * stride_;
    }
    HolderSetId intern_scratch();
    [[nodiscard]] std::uint64_t hash_of(const std::uint64_t* words) const;
    [[nodiscard]] std::size_t set_words() const { return kHolderPlanes * stride_; }
    HolderSetId changed(HolderSetId set, HolderPlane plane, WorkerId worker, bool holds);
    void grow_stride(std::size_t stride);

    struct Change {  // the change made last
        HolderSetId from, to;
        HolderPlane plane = HolderPlane::kDevice;
        WorkerId worker;
        bool holds = false;
        bool valid = false;
    };

    std::size_t stride_ = 1;
    std::vector<std::uint64_t> words_;  // [sets][kHolderPlanes][stride_]
    std::vector<std::uint32_t> uses_;   // [sets]
    std::vector<std::uint32_t> free_;
    std::unordered_multimap<std::uint64_t, HolderSetId> by_hash_;
    std::size_t live_ = 0;
    std::vector<std::uint64_t> scratch_;
    Change last_;
};

}  // namespace taproot
