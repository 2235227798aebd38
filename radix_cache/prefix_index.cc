// SPDX-License-Identifier: Apache-2.0
#include "radix_cache/prefix_index.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/assert.h"

// Lookup and what workers say. The table, its budget and the claims are in prefix_index_table.cc.
namespace taproot {

namespace {

constexpr std::uint64_t kBytesMin = 64 << 10;
// A block costs two cache misses, its slot and its entry. All of a chain's hashes are known, so
// both are asked for that many blocks ahead and overlap: 5 times quicker where the table is in no
// cache.
constexpr std::size_t kSlotsAhead = 16;
constexpr std::size_t kEntriesAhead = 8;

// Values come from the wire; an unknown tier must not become kPending.
bool known_tier(KvTier tier) {
    return tier <= KvTier::kDisk;
}
HolderPlane plane_of(KvTier tier) {
    return static_cast<HolderPlane>(tier);
}
static_assert(static_cast<int>(HolderPlane::kDevice) == static_cast<int>(KvTier::kDevice));
static_assert(static_cast<int>(HolderPlane::kRam) == static_cast<int>(KvTier::kRam));
static_assert(static_cast<int>(HolderPlane::kDisk) == static_cast<int>(KvTier::kDisk));

}  // namespace

PrefixIndex::PrefixIndex(const Clock& clock, PrefixIndexOptions options)
    : clock_(clock), options_(options) {
    options_.bytes_max = std::max(options_.bytes_max, kBytesMin);
    options_.reservations_max = std::max<std::uint32_t>(options_.reservations_max, 1);
    table_.assign(256, 0);
}

void PrefixIndex::lookup(std::span<const BlockHash> chain, std::vector<WorkerMatch>& out) {
    expire();
    out.clear();
    runs_.clear();
    const std::size_t stride = sets_.stride();
    for (const BlockHash hash : chain.first(std::min(kSlotsAhead, chain.size()))) {
        prefetch_slot(hash);
    }
    for (const BlockHash hash : chain.first(std::min(kEntriesAhead, chain.size()))) {
        prefetch_entry(hash);
    }
    // 1. Walk the chain while some worker has every block so far; note runs of equal holders.
    for (std::size_t i = 0; i < chain.size(); ++i) {
        if (i + kSlotsAhead < chain.size()) prefetch_slot(chain[i + kSlotsAhead]);
        if (i + kEntriesAhead < chain.size()) prefetch_entry(chain[i + kEntriesAhead]);
        const std::uint32_t found = find(chain[i]);
        if (found == kNoEntry) break;
        Entry& entry = entries_[found];
        if (!runs_.empty() && runs_.back().set == entry.set) {
            ++runs_.back().blocks;
        } else {
            std::uint64_t any = 0;
            if (runs_.empty()) alive_.assign(stride, ~0ull);
            for (std::size_t w = 0; w < stride; ++w) {
                alive_[w] &= sets_.any_word(entry.set, w);
                any |= alive_[w];
            }
            if (any == 0) break;
            runs_.push_back({entry.set, 1});
        }
        if (entry.used == 0) entry.used = 1;
    }
    if (runs_.empty()) return;
    // 2. Each worker of the first block: add up its runs until one it has no part in.
    for (std::size_t w = 0; w < stride; ++w) {
        for (std::uint64_t bits = sets_.any_word(runs_.front().set, w); bits != 0;
             bits &= bits - 1) {
            WorkerMatch match{.worker = WorkerId{static_cast<std::uint32_t>(
                                  w * 64 + static_cast<std::size_t>(std::countr_zero(bits)))}};
            const std::uint64_t bit = bits & (~bits + 1);
            std::uint32_t* const by_plane[kHolderPlanes] = {
                &match.device_blocks, &match.ram_blocks, &match.disk_blocks, &match.pending_blocks};
            for (const Run& run : runs_) {
                std::size_t plane = 0;
                while (plane < kHolderPlanes &&
                       (sets_.plane(run.set, static_cast<HolderPlane>(plane))[w] & bit) == 0) {
                    ++plane;
                }
                if (plane == kHolderPlanes) break;
                *by_plane[plane] += run.blocks;
                match.blocks += run.blocks;
            }
            out.push_back(match);
        }
    }
}

ApplyResult PrefixIndex::begin_epoch(WorkerId worker, std::uint64_t epoch) {
    WorkerState& s = state(worker);
    if (!s.known || s.epoch != epoch) {
        clear_worker_blocks(worker);
        s.known = true;
        s.epoch = epoch;
        s.next_seq = 0;
    }
    s.awaiting_snapshot = true;
    return ApplyResult::kNeedSnapshot;
}

ApplyResult PrefixIndex::apply(WorkerId worker, std::uint64_t epoch, std::uint64_t first_seq,
                               std::span<const KvEvent> events) {
    WorkerState& s = state(worker);
    if (!s.known || s.epoch != epoch) {
        begin_epoch(worker, epoch);
        // A history that starts at 0 is whole; one joined later is not.
        s.awaiting_snapshot = first_seq != 0;
        if (s.awaiting_snapshot) return ApplyResult::kNeedSnapshot;
    }
    if (s.awaiting_snapshot) return ApplyResult::kAwaiting;
    const bool overflows = first_seq > std::numeric_limits<std::uint64_t>::max() - events.size();
    if (first_seq > s.next_seq || overflows) {
        s.awaiting_snapshot = true;
        return ApplyResult::kNeedSnapshot;
    }
    const std::uint64_t seen = s.next_seq - first_seq;
    if (seen >= events.size()) {
        return events.empty() && seen == 0 ? ApplyResult::kApplied : ApplyResult::kDuplicate;
    }
    s.next_seq = first_seq + events.size();
    for (const KvEvent& event : events.subspan(static_cast<std::size_t>(seen))) {
        apply_event(worker, event);
    }
    return ApplyResult::kApplied;
}

void PrefixIndex::apply_event(WorkerId worker, const KvEvent& event) {
    if (const auto* stored = std::get_if<KvStored>(&event)) {
        if (!known_tier(stored->tier)) return;
        const std::uint32_t entry = find_or_add(stored->hash);
        set_holder(entry, worker, plane_of(stored->tier), true);
        end_claim(entry, worker);  // confirmed
    } else if (const auto* removed = std::get_if<KvRemoved>(&event)) {
        if (!known_tier(removed->tier)) return;
        const std::uint32_t entry = find(removed->hash);
        if (entry != kNoEntry) set_holder(entry, worker, plane_of(removed->tier), false);
    } else {
        clear_worker_blocks(worker);
    }
}

ApplyResult PrefixIndex::apply_snapshot(WorkerId worker, std::uint64_t epoch,
                                        std::uint64_t next_seq, std::span<const KvStored> stored) {
    WorkerState& s = state(worker);
    if (s.known && s.epoch != epoch) return ApplyResult::kStale;
    if (s.known && !s.awaiting_snapshot && next_seq < s.next_seq) return ApplyResult::kStale;
    clear_worker_blocks(worker);
    s.known = true;
    s.awaiting_snapshot = false;
    s.epoch = epoch;
    s.next_seq = next_seq;
    for (const KvStored& block : stored) apply_event(worker, block);
    return ApplyResult::kApplied;
}

void PrefixIndex::distrust(WorkerId worker) {
    if (WorkerState& s = state(worker); s.known) s.awaiting_snapshot = true;
}

void PrefixIndex::drop_worker(WorkerId worker) {
    for (std::uint32_t slot = 0; slot < reservations_.size(); ++slot) {
        if (reservations_[slot].active && reservations_[slot].worker == worker) {
            end_reservation(slot);
        }
    }
    clear_worker_blocks(worker);
    state(worker) = WorkerState{};
}

bool PrefixIndex::trusted(WorkerId worker) const {
    const WorkerState* s = find_state(worker);
    return s != nullptr && s->known && !s->awaiting_snapshot;
}

std::size_t PrefixIndex::worker_blocks(WorkerId worker, KvTier tier) const {
    const WorkerState* s = find_state(worker);
    return s == nullptr ? 0 : s->tier_blocks[static_cast<std::size_t>(tier)];
}

PrefixIndex::WorkerState& PrefixIndex::state(WorkerId worker) {
    TAPROOT_ASSERT(worker.value < kIndexWorkersMax);
    if (worker.value >= workers_.size()) workers_.resize(worker.value + std::size_t{1});
    return workers_[worker.value];
}

const PrefixIndex::WorkerState* PrefixIndex::find_state(WorkerId worker) const {
    return worker.value < workers_.size() ? &workers_[worker.value] : nullptr;
}

PrefixIndexStats PrefixIndex::stats() const {
    const std::size_t total = bytes();
    return {.blocks = block_count_,
            .bytes = total,
            .bytes_per_block = block_count_ == 0
                                   ? 0
                                   : static_cast<double>(total) / static_cast<double>(block_count_),
            .holder_sets = sets_.size(),
            .reservations = active_reservations_,
            .pending_claims = claim_count_,
            .dropped_for_budget = dropped_for_budget_,
            .expired_reservations = expired_};
}

}  // namespace taproot
