// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/strong_id.h"
#include "base/types.h"
#include "radix_cache/radix_node.h"
#include "worker/kv/block_io.h"

namespace taproot {

using RamSlot = StrongId<struct RamSlotTag, std::uint32_t>;  // index of a page in the arena
inline constexpr RamSlot kNoRamSlot{std::numeric_limits<std::uint32_t>::max()};

// What a stored block is: all of it is compared before its bytes are used.
struct BlockName {
    BlockHash hash;
    BlockHash parent;  // the salt's root hash for a first block
    std::uint64_t salt = 0;
    std::span<const TokenId> tokens;  // a full block
};

struct RamTierOptions {
    std::uint64_t bytes_max = 0;  // pages and index together
    std::size_t block_bytes = 0;
    std::size_t block_tokens = kBlockTokens;
};

// Monotonic since start.
struct RamTierStats {
    std::uint64_t stored = 0;        // blocks that came down
    std::uint64_t restored = 0;      // blocks that went up again
    std::uint64_t dropped = 0;       // victims
    std::uint64_t refused = 0;       // not stored: every slot was held
    std::uint64_t corrupt = 0;       // misses: the checksum did not match
    std::uint64_t other_tokens = 0;  // misses: another block has the same hash
};

// KV pages in host memory below the device pool: what eviction takes from the prefix cache comes
// here, and goes up again when a sequence wants it. One arena with a hard cap; its memory is taken
// by the kernel as slots are first used, so it must have been planned for.
//
//               store()                       restore() gave true, erase()
//   ┌──────┐ ────────────> ┌────────┐ ──────────────────────────────────────┐
//   │ free │               │ stored │ <────┐                                │
//   └──────┘ <──────────── └────────┘      │ release()                      v
//       ^   victim(),          │ hold()    │                           on the device
//       │   erase()            v           │                                ^
//       │                  ┌────────┐ ─────┘                                │
//       └───────────────── │  held  │ ──────────────────────────────────────┘
//        restore() gave    └────────┘  restore() gave true, erase()
//        false, erase()
//
//  stored  in the index and in the order of eviction
//  held    a sequence is about to bring it up: in the index, never a victim
//
// Copies are made by the caller's thread within the call, so no page is ever reused while a copy
// reads it and no state "being copied" exists. A tier below takes victims over between victim() and
// erase(): name_of() and bytes() are all it needs.
//
// A block is found by its chained hash and compared by salt, parent and tokens (a hash routes,
// tokens decide). An XXH3-128 over name and bytes is made by store() and checked by restore():
// memory that changed is a miss, never a wrong answer.
// Order: segmented LRU. A block brings the segment it had on the device; blocks used once go first;
// protected ones beyond kProtectedShare of the slots become used-once again, the oldest first.
//
// Owner: the engine thread. Errors: create() only. Everything is O(1) but for the copies: store and
// restore pass over the page's bytes twice (about 60 us for 360 KB).
// Invariants: free + stored + held == slots; at most one block per hash.
class RamTier {
public:
    static constexpr double kProtectedShare = 0.3;

    // Errors: kInvalidArgument (no whole block fits the cap), kUnavailable (no address space).
    static Result<std::unique_ptr<RamTier>> create(const RamTierOptions& options);
    // How many blocks `bytes_max` holds, index included.
    [[nodiscard]] static std::uint64_t slots_for(const RamTierOptions& options);

    ~RamTier();
    RamTier(const RamTier&) = delete;
    RamTier& operator=(const RamTier&) = delete;

    // The slot of this very block, or kNoRamSlot. `foreign`, when given, tells that another block
    // has its hash.
    [[nodiscard]] RamSlot find(const BlockName& name, bool* foreign = nullptr) const;

    // The slot to empty before store(), which needs a free one; kNoRamSlot: all are held.
    [[nodiscard]] RamSlot victim() const;
    [[nodiscard]] bool full() const { return free_.empty(); }

    // Copies a page in, as most recent of its segment. A free slot is there (victim, erase) and no
    // block has this hash (slot_of).
    void store(const BlockName& name, Segment segment, const BlockIo& from, BlockId page);
    // Copies a block up, if it is still what was stored; the caller erases the slot either way.
    [[nodiscard]] bool restore(RamSlot slot, BlockIo& to, BlockId page);

    void hold(RamSlot slot);
    void release(RamSlot slot);
    void touch(RamSlot slot);  // most recent and protected
    void erase(RamSlot slot);
    void clear();  // all that is not held

    // Whatever block has this hash, or kNoRamSlot.
    [[nodiscard]] RamSlot slot_of(BlockHash hash) const;
    [[nodiscard]] BlockName name_of(RamSlot slot) const;
    [[nodiscard]] std::span<const std::byte> bytes(RamSlot slot) const;
    [[nodiscard]] Segment segment_of(RamSlot slot) const { return at(slot).segment; }
    [[nodiscard]] bool held(RamSlot slot) const { return at(slot).holds > 0; }

    [[nodiscard]] std::uint32_t slots() const { return static_cast<std::uint32_t>(slots_.size()); }
    [[nodiscard]] std::uint32_t used() const {
        return slots() - static_cast<std::uint32_t>(free_.size());
    }
    [[nodiscard]] std::size_t block_bytes() const { return options_.block_bytes; }
    [[nodiscard]] const RamTierStats& stats() const { return stats_; }
    RamTierStats& stats() { return stats_; }

    // Every stored block, most recent first; parents are usually before their children.
    template <typename Visit>
    void for_each(Visit visit) const {
        for (const List& list : lists_)
            for (RamSlot slot = list.front; slot != kNoRamSlot; slot = at(slot).older)
                visit(name_of(slot));
    }

    // One sentence per broken invariant; O(slots). For tests and fuzzing.
    [[nodiscard]] std::vector<std::string> check_integrity() const;

private:
    struct Slot {
        BlockHash hash;
        BlockHash parent;
        std::uint64_t salt = 0;
        std::uint64_t checksum[2] = {0, 0};
        RamSlot next = kNoRamSlot;  // with the same bucket
        RamSlot newer = kNoRamSlot;
        RamSlot older = kNoRamSlot;
        std::uint32_t holds = 0;
        Segment segment = Segment::kProbation;
        bool used = false;
    };
    struct List {
        RamSlot front = kNoRamSlot;
        RamSlot back = kNoRamSlot;
        std::size_t size = 0;
    };

    RamTier(const RamTierOptions& options, std::byte* arena, std::uint32_t slots);

    [[nodiscard]] static std::size_t stride(std::size_t block_bytes);
    [[nodiscard]] Slot& at(RamSlot slot) { return slots_[slot.value]; }
    [[nodiscard]] const Slot& at(RamSlot slot) const { return slots_[slot.value]; }
    [[nodiscard]] List& list_of(const Slot& slot) {
        return lists_[static_cast<std::size_t>(slot.segment)];
    }
    [[nodiscard]] std::span<std::byte> page(RamSlot slot) const;
    [[nodiscard]] std::size_t bucket_of(BlockHash hash) const {
        return hash.value & (buckets_.size() - 1);
    }
    void checksum_of(RamSlot slot, std::uint64_t out[2]) const;
    void link_front(RamSlot slot);
    void unlink(RamSlot slot);
    void limit_protected();

    RamTierOptions options_;
    std::byte* arena_;
    std::vector<Slot> slots_;
    std::vector<TokenId> tokens_;   // [slots][block_tokens]
    std::vector<RamSlot> buckets_;  // a power of two, at least as many as slots
    std::vector<RamSlot> free_;     // a stack: what was used is used again before untouched memory
    List lists_[2];                 // by Segment; held slots are in none
    RamTierStats stats_;
};

}  // namespace taproot
