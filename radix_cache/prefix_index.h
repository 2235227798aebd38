// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "radix_cache/holder_sets.h"
#include "radix_cache/kv_events.h"

namespace taproot {

inline constexpr std::uint32_t kIndexWorkersMax = 1024;  // WorkerId is below

struct PrefixIndexOptions {
    std::uint64_t bytes_max = 64ull << 20;    // everything the index owns; 64 KiB at least
    std::uint32_t reservations_max = 65'536;  // beyond it the one that expires first goes early
};

// How much of a chain one worker has: the longest prefix in which every block is present in some
// tier or reserved. Each block counts once, where it is quickest: device, RAM, disk, then pending.
struct WorkerMatch {
    WorkerId worker;
    std::uint32_t blocks = 0;  // length of the prefix; the sum of the four below
    std::uint32_t device_blocks = 0;
    std::uint32_t ram_blocks = 0;
    std::uint32_t disk_blocks = 0;
    std::uint32_t pending_blocks = 0;  // routed there, not yet confirmed by an event
    friend bool operator==(const WorkerMatch&, const WorkerMatch&) = default;
};

enum class ApplyResult : std::uint8_t {
    kApplied,       // all events are in (already seen ones were skipped)
    kDuplicate,     // nothing new: every event was seen before
    kNeedSnapshot,  // a gap, or an epoch joined late: ask for a snapshot now. Said once per gap
    kAwaiting,      // events dropped, the snapshot that was asked for will contain them
    kStale,         // a snapshot of another epoch or older than what is known; ignored
};

// A routed request's claim on blocks it will create. 0 is never a valid id.
using ReservationId = StrongId<struct ReservationIdTag, std::uint64_t>;

struct PrefixIndexStats {
    std::size_t blocks = 0;  // distinct hashes with at least one holder or claim
    std::size_t bytes = 0;   // everything the index owns
    double bytes_per_block = 0;
    std::size_t holder_sets = 0;  // distinct combinations of (worker, tier)
    std::size_t reservations = 0;
    std::size_t pending_claims = 0;        // (worker, block) pairs
    std::uint64_t dropped_for_budget = 0;  // blocks forgotten to stay below bytes_max
    std::uint64_t expired_reservations = 0;
};

// The gateway's view of the fleet: which worker holds which block, kept true by numbered events.
//
//   chain  h0 ── h1 ── h2 ── h3          one entry of 16 bytes per hash: hash, holder set, claims
//          A B   A B   A     A .         A holds 4 blocks, B 2; runs with one holder set cost one
//          └─ set 5 ─┘ └─ set 2 ─┘       comparison per block (holder_sets.h)
//
// Nothing is inferred: a block counts for a worker when an event of its present epoch said so, or
// while a reservation covers it. Blocks dropped for the byte budget are simply unknown (an
// underestimate), chosen by second chance: those no lookup met since the hand passed last.
//
// Owner: the gateway's I/O thread. Errors: values of ApplyResult; never throws.
// Costs (bench/radix_cache, 2.1 GHz Xeon): lookup 13 ns per block, 70-110 ns where a million
// blocks lie in no cache; apply 30 ns per event; reserve and release 25 ns per block of the chain;
// route_cost adds 0.6 us for two workers. drop_worker, apply_snapshot and KvCleared scan the table
// once and cost 3 ns per block known plus about 100 ns per block of that worker.
class PrefixIndex {
public:
    PrefixIndex(const Clock& clock, PrefixIndexOptions options = {});
    PrefixIndex(const PrefixIndex&) = delete;
    PrefixIndex& operator=(const PrefixIndex&) = delete;

    // --- asking ---

    // Who holds the beginning of `chain`; one entry per worker with at least one block, ascending
    // by WorkerId, into `out` (replaced). Marks the blocks met as used.
    void lookup(std::span<const BlockHash> chain, std::vector<WorkerMatch>& out);

    // --- what workers say ---

    // A worker introduced itself (link Hello): connected for the first time, again, or restarted.
    // A new epoch forgets what it held before. Answers kNeedSnapshot: what happened before this
    // connection is not known, and an idle worker would never show the gap. Events that arrive
    // before the snapshot are dropped, it contains them.
    ApplyResult begin_epoch(WorkerId worker, std::uint64_t epoch);
    // Events first_seq, first_seq+1, ... of an epoch. Without begin_epoch, an unknown epoch that
    // starts at 0 is complete and applied; one joined later needs a snapshot.
    ApplyResult apply(WorkerId worker, std::uint64_t epoch, std::uint64_t first_seq,
                      std::span<const KvEvent> events);
    // Replaces all the worker holds, ends the wait of kNeedSnapshot. Events continue at next_seq.
    ApplyResult apply_snapshot(WorkerId worker, std::uint64_t epoch, std::uint64_t next_seq,
                               std::span<const KvStored> stored);
    // Its answers disagree with its events: distrust it until a snapshot comes. Ask for one.
    void distrust(WorkerId worker);
    // It is gone: blocks, claims, epoch and numbers are forgotten.
    void drop_worker(WorkerId worker);
    // Its events are complete as far as we know (false: unknown, gap, or distrusted).
    [[nodiscard]] bool trusted(WorkerId worker) const;
    [[nodiscard]] std::size_t worker_blocks(WorkerId worker, KvTier tier) const;

    // --- pick and reserve are one operation: call right after the policy chose ---

    // The blocks of `chain` that `worker` lacks count for it at once, until an event confirms them,
    // `expiry` passes, or release(). Claims of several requests on one block add up.
    ReservationId reserve(WorkerId worker, std::span<const BlockHash> chain, TimePoint expiry);
    void release(ReservationId id);  // unknown or ended ids are fine
    // Ends what has expired. lookup and reserve do it too; call it when idle to free memory.
    void expire();

    [[nodiscard]] PrefixIndexStats stats() const;

private:
    friend class PrefixIndexIntegrity;

    static constexpr std::uint32_t kNoEntry = 0xFFFFFFFFu;
    static constexpr std::size_t kTiers = 3;

    // One known hash. Claims are a list: most blocks have none, and then for milliseconds.
    struct Entry {
        BlockHash hash;
        HolderSetId set = kEmptySet;    // kEmptySet: a free entry
        std::uint32_t claims : 31 = 0;  // index + 1 of the first Claim, 0 = none
        std::uint32_t used : 1 = 0;     // met by a lookup since the hand passed
    };
    static_assert(sizeof(Entry) == 16);

    struct Claim {  // one worker's pending block, shared by the reservations that cover it
        WorkerId worker;
        std::uint32_t entry = 0;
        std::uint32_t reservations = 0;
        std::uint32_t generation = 0;  // changes when the claim ends: older references are void
        std::uint32_t next = 0;        // index + 1 within the entry's list, or the free list
    };
    struct ClaimRef {
        std::uint32_t claim = 0;
        std::uint32_t generation = 0;
    };
    struct Reservation {
        std::uint32_t generation = 0;
        bool active = false;
        WorkerId worker;
        TimePoint expiry;
        std::vector<ClaimRef> claims;
    };
    struct WorkerState {
        bool known = false;
        bool awaiting_snapshot = false;
        std::uint64_t epoch = 0;
        std::uint64_t next_seq = 0;
        std::size_t tier_blocks[kTiers] = {0, 0, 0};
    };

    struct Run {  // consecutive blocks of a chain with one holder set
        HolderSetId set;
        std::uint32_t blocks = 0;
    };

    [[nodiscard]] std::size_t slot_of(BlockHash hash) const;
    void prefetch_slot(BlockHash hash) const { __builtin_prefetch(&table_[slot_of(hash)]); }
    void prefetch_entry(BlockHash hash) const {
        if (const std::uint32_t at = table_[slot_of(hash)]) __builtin_prefetch(&entries_[at - 1]);
    }
    [[nodiscard]] std::uint32_t find(BlockHash hash) const;  // entry index or kNoEntry
    std::uint32_t find_or_add(BlockHash hash);
    void make_room();
    void grow_table();
    void remove_entry(std::uint32_t entry);
    void set_holder(std::uint32_t entry, WorkerId worker, HolderPlane plane, bool holds);
    void apply_event(WorkerId worker, const KvEvent& event);
    void clear_worker_blocks(WorkerId worker);
    void drop_one_for_budget(std::uint32_t keep);
    void count_tiers(HolderSetId set, int change);
    void add_claim(Reservation& reservation, std::uint32_t entry);
    void end_claim(std::uint32_t entry, WorkerId worker);
    void end_reservation(std::uint32_t slot);
    [[nodiscard]] std::size_t claim_bytes() const;
    WorkerState& state(WorkerId worker);
    [[nodiscard]] const WorkerState* find_state(WorkerId worker) const;
    [[nodiscard]] std::size_t bytes() const;

    const Clock& clock_;
    PrefixIndexOptions options_;
    HolderSets sets_;
    std::vector<Entry> entries_;
    std::uint32_t free_entry_ = 0;      // index + 1; free entries chain through their hash
    std::vector<std::uint32_t> table_;  // open addressing: entry index + 1, 0 = empty
    std::size_t block_count_ = 0;
    std::uint32_t hand_ = 0;  // of the second-chance clock
    std::vector<Claim> claims_;
    std::uint32_t free_claim_ = 0;  // index + 1
    std::size_t claim_count_ = 0;
    std::vector<Reservation> reservations_;
    std::vector<std::uint32_t> free_reservations_;
    std::size_t active_reservations_ = 0;
    std::size_t claim_refs_ = 0;  // in all reservations
    std::set<std::pair<TimePoint, std::uint32_t>> by_expiry_;
    std::vector<WorkerState> workers_;  // by WorkerId
    std::vector<Run> runs_;             // scratch of lookup
    std::vector<std::uint64_t> alive_;  // scratch of lookup
    std::uint64_t dropped_for_budget_ = 0;
    std::uint64_t expired_ = 0;
};

}  // namespace taproot
