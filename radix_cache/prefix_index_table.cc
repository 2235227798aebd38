// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "base/assert.h"
#include "radix_cache/prefix_index.h"

// The table of known hashes, its byte budget, and the claims of routed requests.
//
//   table_   [ 0 | 3 | 0 | 1 | 2 ... ]     open addressing, linear probing, at most 3/4 full;
//                  |       |   |           removal shifts back, so there are no tombstones
//   entries_ [ e0 | e1 | e2 ... ]          16 bytes each, reused through a free list
//
// Shares of bytes_max: 5/8 table and entries, 1/4 holder sets, 1/8 claims (half of it live, the
// rest growth). Each grows only within its share; beyond it the second-chance hand makes room, or
// the reservation that expires first goes.
namespace taproot {

namespace {

constexpr std::size_t kEntryBytes = 16;
constexpr std::size_t kSlotBytes = sizeof(std::uint32_t);
constexpr std::size_t kSetNodeBytes = 64;  // one std::set node with allocation overhead

}  // namespace

std::size_t PrefixIndex::slot_of(BlockHash hash) const {
    // Fibonacci hashing: spreads also the small numbers that tests use as hashes.
    const int bits = std::countr_zero(table_.size());
    return static_cast<std::size_t>((hash.value * 0x9E3779B97F4A7C15ull) >> (64 - bits));
}

std::uint32_t PrefixIndex::find(BlockHash hash) const {
    const std::size_t mask = table_.size() - 1;
    for (std::size_t slot = slot_of(hash); table_[slot] != 0; slot = (slot + 1) & mask) {
        const std::uint32_t entry = table_[slot] - 1;
        if (entries_[entry].hash == hash) return entry;
    }
    return kNoEntry;
}

// A new entry has the empty set and must get a holder at once (set_holder).
std::uint32_t PrefixIndex::find_or_add(BlockHash hash) {
    const std::uint32_t found = find(hash);
    if (found != kNoEntry) return found;
    make_room();
    std::uint32_t entry = free_entry_ - 1;
    if (free_entry_ != 0) {
        free_entry_ = static_cast<std::uint32_t>(entries_[entry].hash.value);
        entries_[entry] = Entry{.hash = hash};
    } else {
        entry = static_cast<std::uint32_t>(entries_.size());
        entries_.push_back(Entry{.hash = hash});
    }
    sets_.acquire(kEmptySet);
    const std::size_t mask = table_.size() - 1;
    std::size_t slot = slot_of(hash);
    while (table_[slot] != 0) slot = (slot + 1) & mask;
    table_[slot] = entry + 1;
    ++block_count_;
    return entry;
}

// Afterwards there is a place for one more entry and one more slot.
void PrefixIndex::make_room() {
    const std::size_t share = options_.bytes_max / 8 * 5;
    if ((block_count_ + 1) * 4 > table_.size() * 3) {
        const std::size_t grown =
            2 * table_.size() * kSlotBytes + entries_.capacity() * kEntryBytes;
        if (grown <= share) {
            grow_table();
        } else {
            drop_one_for_budget(kNoEntry);
        }
    }
    if (free_entry_ != 0 || entries_.size() < entries_.capacity()) return;
    const std::size_t wanted = std::max<std::size_t>(64, entries_.size() + entries_.size() / 4);
    const std::size_t room = share - std::min(share, table_.size() * kSlotBytes);
    const std::size_t most = std::min(wanted, room / kEntryBytes);
    if (most > entries_.size()) {
        entries_.reserve(most);
    } else {
        drop_one_for_budget(kNoEntry);
    }
}

void PrefixIndex::grow_table() {
    table_.assign(table_.size() * 2, 0);
    const std::size_t mask = table_.size() - 1;
    for (std::uint32_t entry = 0; entry < entries_.size(); ++entry) {
        if (entries_[entry].set == kEmptySet) continue;
        std::size_t slot = slot_of(entries_[entry].hash);
        while (table_[slot] != 0) slot = (slot + 1) & mask;
        table_[slot] = entry + 1;
    }
}

// The entry has no holder and no claim left.
void PrefixIndex::remove_entry(std::uint32_t entry) {
    const std::size_t mask = table_.size() - 1;
    std::size_t hole = slot_of(entries_[entry].hash);
    while (table_[hole] != entry + 1) hole = (hole + 1) & mask;
    // Shift back what probed past the hole, so that every probe chain stays unbroken.
    for (std::size_t slot = (hole + 1) & mask; table_[slot] != 0; slot = (slot + 1) & mask) {
        const std::size_t home = slot_of(entries_[table_[slot] - 1].hash);
        if (((slot - home) & mask) < ((slot - hole) & mask)) continue;
        table_[hole] = table_[slot];
        hole = slot;
    }
    table_[hole] = 0;
    sets_.release(kEmptySet);
    entries_[entry] = Entry{.hash = BlockHash{free_entry_}};
    free_entry_ = entry + 1;
    --block_count_;
}

void PrefixIndex::set_holder(std::uint32_t entry, WorkerId worker, HolderPlane plane, bool holds) {
    const HolderSetId old = entries_[entry].set;
    if (sets_.holds(old, plane, worker) != holds) {
        while (sets_.size() * sets_.bytes_per_set() > options_.bytes_max / 4 && block_count_ > 1) {
            drop_one_for_budget(entry);
        }
        const HolderSetId next =
            holds ? sets_.with(old, plane, worker) : sets_.without(old, plane, worker);
        sets_.acquire(next);
        sets_.release(old);
        entries_[entry].set = next;
        if (plane != HolderPlane::kPending) {
            std::size_t& count = state(worker).tier_blocks[static_cast<std::size_t>(plane)];
            count = holds ? count + 1 : count - 1;
        }
    }
    if (entries_[entry].set == kEmptySet) remove_entry(entry);
}

// Adds `change` for every holder of a tier in the set.
void PrefixIndex::count_tiers(HolderSetId set, int change) {
    for (std::size_t tier = 0; tier < kTiers; ++tier) {
        const auto words = sets_.plane(set, static_cast<HolderPlane>(tier));
        for (std::size_t w = 0; w < words.size(); ++w) {
            for (std::uint64_t bits = words[w]; bits != 0; bits &= bits - 1) {
                const std::size_t worker =
                    w * 64 + static_cast<std::size_t>(std::countr_zero(bits));
                workers_[worker].tier_blocks[tier] += static_cast<std::size_t>(change);
            }
        }
    }
}

void PrefixIndex::clear_worker_blocks(WorkerId worker) {
    WorkerState& s = state(worker);
    if (s.tier_blocks[0] + s.tier_blocks[1] + s.tier_blocks[2] == 0) return;
    // Entries come in runs of one set. The remembered pair is held, so that its ids stay theirs.
    HolderSetId from = kEmptySet;
    HolderSetId to = kEmptySet;
    sets_.acquire(from);
    sets_.acquire(to);
    for (std::uint32_t entry = 0; entry < entries_.size(); ++entry) {
        const HolderSetId set = entries_[entry].set;
        if (set == kEmptySet) continue;
        if (set != from) {
            const HolderSetId next = sets_.without_tiers(set, worker);
            sets_.acquire(set);
            sets_.acquire(next);
            sets_.release(from);
            sets_.release(to);
            from = set;
            to = next;
        }
        if (to == from) continue;
        sets_.acquire(to);
        sets_.release(from);
        entries_[entry].set = to;
        if (to == kEmptySet) remove_entry(entry);
    }
    sets_.release(from);
    sets_.release(to);
    for (std::size_t& count : s.tier_blocks) count = 0;
}

// Second chance: the hand passes over entries a lookup has met since, once.
void PrefixIndex::drop_one_for_budget(std::uint32_t keep) {
    TAPROOT_ASSERT(block_count_ > (keep == kNoEntry ? 0u : 1u));
    for (;; ++hand_) {
        if (hand_ >= entries_.size()) hand_ = 0;
        Entry& entry = entries_[hand_];
        if (entry.set == kEmptySet || hand_ == keep) continue;
        if (entry.used == 0) break;
        entry.used = 0;
    }
    const std::uint32_t victim = hand_++;
    ++dropped_for_budget_;
    count_tiers(entries_[victim].set, -1);
    while (entries_[victim].claims != 0) {
        Claim& claim = claims_[entries_[victim].claims - 1];
        const std::uint32_t index = entries_[victim].claims;
        entries_[victim].claims = claim.next & 0x7FFFFFFFu;
        ++claim.generation;
        claim.reservations = 0;
        claim.next = free_claim_;
        free_claim_ = index;
        --claim_count_;
    }
    sets_.acquire(kEmptySet);
    sets_.release(entries_[victim].set);
    entries_[victim].set = kEmptySet;
    remove_entry(victim);
}

ReservationId PrefixIndex::reserve(WorkerId worker, std::span<const BlockHash> chain,
                                   TimePoint expiry) {
    expire();
    static_cast<void>(state(worker));
    while (active_reservations_ >= options_.reservations_max ||
           (active_reservations_ > 0 && claim_bytes() > options_.bytes_max / 16)) {
        ++expired_;
        end_reservation(by_expiry_.begin()->second);
    }
    std::uint32_t slot = static_cast<std::uint32_t>(reservations_.size());
    if (free_reservations_.empty()) {
        reservations_.emplace_back();
    } else {
        slot = free_reservations_.back();
        free_reservations_.pop_back();
    }
    Reservation& reservation = reservations_[slot];
    reservation.active = true;
    reservation.worker = worker;
    reservation.expiry = expiry;
    ++reservation.generation;
    ++active_reservations_;
    by_expiry_.emplace(expiry, slot);
    for (const BlockHash hash : chain) {
        // A chain too long for the share keeps its beginning, which is what can be shared.
        if (claim_bytes() > options_.bytes_max / 16) break;
        const std::uint32_t entry = find_or_add(hash);
        entries_[entry].used = 1;
        const HolderSetId set = entries_[entry].set;
        if (sets_.holds(set, HolderPlane::kDevice, worker) ||
            sets_.holds(set, HolderPlane::kRam, worker) ||
            sets_.holds(set, HolderPlane::kDisk, worker)) {
            continue;
        }
        add_claim(reservation, entry);
    }
    return ReservationId{(std::uint64_t{reservation.generation} << 32) | (slot + 1)};
}

void PrefixIndex::add_claim(Reservation& reservation, std::uint32_t entry) {
    std::uint32_t index = entries_[entry].claims;
    while (index != 0 && claims_[index - 1].worker != reservation.worker) {
        index = claims_[index - 1].next;
    }
    if (index == 0) {
        if (free_claim_ == 0) {
            claims_.emplace_back();
            free_claim_ = static_cast<std::uint32_t>(claims_.size());
        }
        index = free_claim_;
        Claim& claim = claims_[index - 1];
        free_claim_ = claim.next;
        claim.worker = reservation.worker;
        claim.entry = entry;
        claim.reservations = 0;
        claim.next = entries_[entry].claims;
        entries_[entry].claims = index & 0x7FFFFFFFu;
        ++claim_count_;
        set_holder(entry, reservation.worker, HolderPlane::kPending, true);
    }
    ++claims_[index - 1].reservations;
    reservation.claims.push_back({index - 1, claims_[index - 1].generation});
    ++claim_refs_;
}

// Ends the worker's claim on an entry, if there is one, whoever made it.
void PrefixIndex::end_claim(std::uint32_t entry, WorkerId worker) {
    std::uint32_t before = 0;
    std::uint32_t index = entries_[entry].claims;
    while (index != 0 && claims_[index - 1].worker != worker) {
        before = index;
        index = claims_[index - 1].next;
    }
    if (index == 0) return;
    Claim& claim = claims_[index - 1];
    if (before == 0) {
        entries_[entry].claims = claim.next & 0x7FFFFFFFu;
    } else {
        claims_[before - 1].next = claim.next;
    }
    ++claim.generation;
    claim.reservations = 0;
    claim.next = free_claim_;
    free_claim_ = index;
    --claim_count_;
    set_holder(entry, worker, HolderPlane::kPending, false);
}

void PrefixIndex::end_reservation(std::uint32_t slot) {
    Reservation& reservation = reservations_[slot];
    TAPROOT_DASSERT(reservation.active);
    by_expiry_.erase({reservation.expiry, slot});
    for (const ClaimRef& ref : reservation.claims) {
        Claim& claim = claims_[ref.claim];
        if (claim.generation != ref.generation) continue;  // confirmed or dropped meanwhile
        if (--claim.reservations == 0) end_claim(claim.entry, claim.worker);
    }
    claim_refs_ -= reservation.claims.size();
    reservation.claims = {};
    reservation.active = false;
    --active_reservations_;
    free_reservations_.push_back(slot);
}

void PrefixIndex::release(ReservationId id) {
    const auto slot = static_cast<std::uint32_t>(id.value & 0xFFFFFFFFu) - 1;
    if (id.value == 0 || slot >= reservations_.size()) return;
    const Reservation& reservation = reservations_[slot];
    if (reservation.active && reservation.generation == id.value >> 32) end_reservation(slot);
}

void PrefixIndex::expire() {
    if (by_expiry_.empty()) return;
    const TimePoint now = clock_.now();
    while (!by_expiry_.empty() && by_expiry_.begin()->first <= now) {
        ++expired_;
        end_reservation(by_expiry_.begin()->second);
    }
}

std::size_t PrefixIndex::claim_bytes() const {
    return claim_count_ * sizeof(Claim) + claim_refs_ * sizeof(ClaimRef) +
           active_reservations_ * (sizeof(Reservation) + kSetNodeBytes);
}

std::size_t PrefixIndex::bytes() const {
    return entries_.capacity() * kEntryBytes + table_.size() * kSlotBytes + sets_.bytes() +
           claims_.capacity() * sizeof(Claim) + claim_refs_ * sizeof(ClaimRef) +
           reservations_.capacity() * sizeof(Reservation) +
           free_reservations_.capacity() * sizeof(std::uint32_t) +
           by_expiry_.size() * kSetNodeBytes + workers_.capacity() * sizeof(WorkerState);
}

}  // namespace taproot
