// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "op_source.h"
#include "radix_cache/integrity.h"
#include "radix_cache/prefix_index.h"

// The index and a naive twin hear the same events and reservations; every lookup must agree. The
// twin is one map per worker. With a small byte budget the index may forget, so it must then claim
// a subset of what the twin knows.
namespace taproot::testing {

class PrefixIndexTwin {
public:
    struct Setup {
        std::vector<std::uint32_t> workers = {0, 1, 2, 63, 64, 130};  // one, two and three words
        std::uint32_t hashes = 40;
        std::uint32_t batch_max = 5;  // events at once
        std::uint64_t bytes_max = 64ull << 20;
        std::uint32_t reservations_max = 65'536;
        bool exact = true;  // nothing is dropped: answers are equal, not only contained
    };

    PrefixIndexTwin(OpSource& source, Setup setup)
        : source_(source),
          setup_(std::move(setup)),
          index_(clock_,
                 {.bytes_max = setup_.bytes_max, .reservations_max = setup_.reservations_max}) {}

    std::string run() {
        while (!source_.done() && failure_.empty()) {
            step();
            if (operations_ % 8 == 0) check_whole();
        }
        check_whole();
        return failure_;
    }

    [[nodiscard]] PrefixIndexStats stats() const { return index_.stats(); }
    [[nodiscard]] std::uint64_t matches() const { return matches_; }

private:
    struct Worker {
        bool known = false;
        bool awaiting = false;
        std::uint64_t epoch = 0;
        std::uint64_t next_seq = 0;
        std::map<std::uint64_t, std::set<int>> tiers = {};  // by hash
    };
    struct Reservation {
        ReservationId id = {};
        std::uint32_t worker = 0;
        TimePoint expiry;
        std::set<std::uint64_t> pending = {};
    };

    void step() {
        ++operations_;
        switch (source_.below(12)) {
            case 0:
            case 1:
            case 2:
                return op_events();
            case 3:
            case 4:
            case 5:
                return op_lookup();
            case 6:
            case 7:
                return op_reserve();
            case 8:
                return op_release();
            case 9:
                if (setup_.exact || source_.below(20) == 0) op_snapshot();
                return;
            case 10:
                return op_time();
            default:
                if (setup_.exact || source_.below(20) == 0) op_rare();
        }
    }

    void fail(const std::string& what) {
        if (!failure_.empty()) return;
        std::ostringstream out;
        out << "operation " << operations_ << ": " << what;
        failure_ = out.str();
    }

    WorkerId pick_worker() {
        return WorkerId{
            setup_.workers[source_.below(static_cast<std::uint32_t>(setup_.workers.size()))]};
    }
    BlockHash pick_hash() { return BlockHash{1 + source_.below(setup_.hashes)}; }
    // Mostly ascending, so that different operations share prefixes.
    std::vector<BlockHash> pick_chain() {
        std::vector<BlockHash> chain(source_.below(8));
        std::uint32_t at = source_.below(setup_.hashes);
        for (BlockHash& hash : chain) {
            hash = BlockHash{1 + at++ % setup_.hashes};
            if (source_.below(6) == 0) hash = pick_hash();
        }
        return chain;
    }

    // --- events ---

    void model_event(std::uint32_t worker, const KvEvent& event) {
        Worker& w = workers_[worker];
        if (const auto* stored = std::get_if<KvStored>(&event)) {
            w.tiers[stored->hash.value].insert(static_cast<int>(stored->tier));
            for (Reservation& r : reservations_) {
                if (r.worker == worker) r.pending.erase(stored->hash.value);
            }
        } else if (const auto* removed = std::get_if<KvRemoved>(&event)) {
            auto& tiers = w.tiers[removed->hash.value];
            tiers.erase(static_cast<int>(removed->tier));
            if (tiers.empty()) w.tiers.erase(removed->hash.value);
        } else {
            w.tiers.clear();
        }
    }

    KvEvent random_event() {
        const auto tier = static_cast<KvTier>(source_.below(3));
        const std::uint32_t kind = source_.below(24);
        if (kind == 0 && source_.below(setup_.batch_max) == 0) return KvCleared{};
        if (kind < 8) return KvRemoved{pick_hash(), tier};
        return KvStored{pick_hash(), BlockHash{0}, tier};
    }

    void op_events() {
        const WorkerId id = pick_worker();
        Worker& w = workers_[id.value];
        std::vector<KvEvent> events;
        for (std::uint32_t n = source_.below(setup_.batch_max + 1); n > 0; --n) {
            events.push_back(random_event());
        }
        std::uint64_t epoch = w.known ? w.epoch : 1;
        std::uint64_t first = w.next_seq;
        const std::uint32_t twist = source_.below(16);
        if (twist == 0) first += 1 + source_.below(3);                              // gap
        if (twist == 1) first -= std::min<std::uint64_t>(first, source_.below(4));  // overlap
        if (twist == 2) {
            epoch += 1;
            first = source_.below(2);
        }
        const ApplyResult got = index_.apply(id, epoch, first, events);
        const ApplyResult want = model_apply(id.value, epoch, first, events);
        if (got != want) {
            fail("apply answered " + std::to_string(static_cast<int>(got)) + ", not " +
                 std::to_string(static_cast<int>(want)));
        }
    }

    ApplyResult model_apply(std::uint32_t worker, std::uint64_t epoch, std::uint64_t first,
                            const std::vector<KvEvent>& events) {
        Worker& w = workers_[worker];
        if (!w.known || w.epoch != epoch) {
            w = Worker{.known = true, .awaiting = first != 0, .epoch = epoch};
            if (w.awaiting) return ApplyResult::kNeedSnapshot;
        }
        if (w.awaiting) return ApplyResult::kAwaiting;
        if (first > w.next_seq) {
            w.awaiting = true;
            return ApplyResult::kNeedSnapshot;
        }
        bool fresh = events.empty() && first == w.next_seq;
        for (std::size_t i = 0; i < events.size(); ++i) {
            if (first + i < w.next_seq) continue;
            model_event(worker, events[i]);
            w.next_seq = first + i + 1;
            fresh = true;
        }
        return fresh ? ApplyResult::kApplied : ApplyResult::kDuplicate;
    }

    void op_snapshot() {
        const WorkerId id = pick_worker();
        Worker& w = workers_[id.value];
        std::vector<KvStored> stored;
        for (std::uint32_t n = source_.below(12); n > 0; --n) {
            stored.push_back({pick_hash(), BlockHash{0}, static_cast<KvTier>(source_.below(3))});
        }
        std::uint64_t epoch = w.known ? w.epoch : 1 + source_.below(2);
        std::uint64_t next = w.next_seq + source_.below(3);
        const std::uint32_t twist = source_.below(8);
        if (twist == 0) epoch += 1;
        if (twist == 1) next -= std::min<std::uint64_t>(next, 4);
        const ApplyResult got = index_.apply_snapshot(id, epoch, next, stored);
        ApplyResult want = ApplyResult::kApplied;
        if (w.known && (w.epoch != epoch || (!w.awaiting && next < w.next_seq))) {
            want = ApplyResult::kStale;
        } else {
            w = Worker{.known = true, .epoch = epoch, .next_seq = next};
            for (const KvStored& s : stored) model_event(id.value, s);
        }
        if (got != want) fail("apply_snapshot answered otherwise");
    }

    void op_rare() {
        const WorkerId id = pick_worker();
        Worker& w = workers_[id.value];
        switch (source_.below(4)) {
            case 0:
                index_.drop_worker(id);
                w = Worker{};
                std::erase_if(reservations_,
                              [&](const Reservation& r) { return r.worker == id.value; });
                return;
            case 1: {
                const std::uint64_t epoch = w.epoch + source_.below(2);
                index_.begin_epoch(id, epoch);
                if (!w.known || w.epoch != epoch) w = Worker{.epoch = epoch};
                w.known = true;
                w.awaiting = true;
                return;
            }
            case 2:
                index_.distrust(id);
                w.awaiting = w.known;
                return;
            default:
                index_.expire();
                return model_expire();
        }
    }

    // --- reservations ---

    void model_expire() {
        std::erase_if(reservations_,
                      [&](const Reservation& r) { return r.expiry <= clock_.now(); });
    }

    void op_reserve() {
        const WorkerId id = pick_worker();
        const std::vector<BlockHash> chain = pick_chain();
        model_expire();
        const TimePoint expiry = clock_.now() + from_ms(source_.below(20));
        Reservation r{.worker = id.value, .expiry = expiry};
        r.id = index_.reserve(id, chain, expiry);
        for (const BlockHash hash : chain) {
            if (!workers_[id.value].tiers.contains(hash.value)) r.pending.insert(hash.value);
        }
        reservations_.push_back(std::move(r));
    }

    void op_release() {
        if (reservations_.empty()) return index_.release(ReservationId{source_.below(300)});
        const std::size_t i = source_.below(static_cast<std::uint32_t>(reservations_.size()));
        index_.release(reservations_[i].id);
        index_.release(reservations_[i].id);  // twice is fine
        reservations_.erase(reservations_.begin() + static_cast<std::ptrdiff_t>(i));
    }

    void op_time() { clock_.advance(from_ms(source_.below(12))); }

    // --- asking ---

    // -1: not there; otherwise the plane that counts.
    int model_plane(std::uint32_t worker, BlockHash hash) {
        const auto& tiers = workers_[worker].tiers;
        if (const auto it = tiers.find(hash.value); it != tiers.end()) return *it->second.begin();
        for (const Reservation& r : reservations_) {
            if (r.worker == worker && r.pending.contains(hash.value)) return 3;
        }
        return -1;
    }

    void op_lookup() {
        const std::vector<BlockHash> chain = pick_chain();
        model_expire();
        std::vector<WorkerMatch> got{WorkerMatch{}};
        index_.lookup(chain, got);
        std::vector<WorkerMatch> want;
        for (const std::uint32_t worker : setup_.workers) {
            WorkerMatch m{.worker = WorkerId{worker}};
            std::uint32_t* const planes[] = {&m.device_blocks, &m.ram_blocks, &m.disk_blocks,
                                             &m.pending_blocks};
            for (const BlockHash hash : chain) {
                const int plane = model_plane(worker, hash);
                if (plane < 0) break;
                ++m.blocks;
                ++*planes[plane];
            }
            if (m.blocks > 0) want.push_back(m);
        }
        matches_ += got.size();
        if (setup_.exact) {
            if (got != want) fail("lookup differs");
            return;
        }
        for (const WorkerMatch& m : got) {
            bool contained = false;
            for (const WorkerMatch& w : want) {
                contained |= w.worker == m.worker && w.blocks >= m.blocks;
            }
            if (!contained) fail("lookup claims more than events said");
        }
    }

    void check_whole() {
        for (const std::string& violation : check_integrity(index_)) fail(violation);
        for (const std::uint32_t worker : setup_.workers) {
            const Worker& w = workers_[worker];
            if (index_.trusted(WorkerId{worker}) != (w.known && !w.awaiting)) fail("trust differs");
            if (!setup_.exact) continue;
            std::size_t tiers[3] = {0, 0, 0};
            for (const auto& [hash, set] : w.tiers) {
                for (const int tier : set) ++tiers[tier];
            }
            for (int tier = 0; tier < 3; ++tier) {
                if (index_.worker_blocks(WorkerId{worker}, static_cast<KvTier>(tier)) !=
                    tiers[tier]) {
                    fail("blocks per worker differ");
                }
            }
        }
    }

    OpSource& source_;
    Setup setup_;
    ManualClock clock_;
    PrefixIndex index_;
    std::map<std::uint32_t, Worker> workers_;
    std::vector<Reservation> reservations_;
    std::uint64_t operations_ = 0;
    std::uint64_t matches_ = 0;
    std::string failure_;
};

}  // namespace taproot::testing
