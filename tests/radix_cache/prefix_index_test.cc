// SPDX-License-Identifier: Apache-2.0
#include "radix_cache/prefix_index.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "radix_cache/block_hash.h"
#include "radix_cache/integrity.h"

namespace taproot {
namespace {

constexpr WorkerId kA{0};
constexpr WorkerId kB{1};

std::vector<BlockHash> chain_of(std::size_t blocks, std::uint64_t salt = 0) {
    std::vector<TokenId> tokens(blocks * 16, 5);
    std::vector<BlockHash> chain;
    hash_blocks(salt, tokens, 16, chain);
    return chain;
}

class PrefixIndexTest : public ::testing::Test {
protected:
    void TearDown() override { EXPECT_TRUE(check_integrity(index_).empty()); }

    // Stores hashes as the next events of the worker's epoch 1.
    ApplyResult store(WorkerId worker, std::span<const BlockHash> hashes,
                      KvTier tier = KvTier::kDevice) {
        std::vector<KvEvent> events;
        for (const BlockHash hash : hashes) events.push_back(KvStored{hash, BlockHash{}, tier});
        const ApplyResult result = index_.apply(worker, 1, seq_[worker.value], events);
        seq_[worker.value] += events.size();
        return result;
    }
    ApplyResult remove(WorkerId worker, BlockHash hash, KvTier tier = KvTier::kDevice) {
        const KvEvent event = KvRemoved{hash, tier};
        return index_.apply(worker, 1, seq_[worker.value]++, std::span(&event, 1));
    }
    std::vector<WorkerMatch> lookup(std::span<const BlockHash> chain) {
        std::vector<WorkerMatch> out;
        index_.lookup(chain, out);
        return out;
    }
    std::uint32_t matched(WorkerId worker, std::span<const BlockHash> chain) {
        for (const WorkerMatch& m : lookup(chain)) {
            if (m.worker == worker) return m.blocks;
        }
        return 0;
    }

    ManualClock clock_;
    PrefixIndex index_{clock_};
    std::uint64_t seq_[4] = {0, 0, 0, 0};
    const std::vector<BlockHash> chain_ = chain_of(8);
};

TEST_F(PrefixIndexTest, LookupGivesEachWorkersLongestPrefix) {
    store(kA, std::span(chain_).first(5));
    store(kB, std::span(chain_).first(2));
    EXPECT_EQ(lookup(chain_), (std::vector<WorkerMatch>{
                                  {.worker = kA, .blocks = 5, .device_blocks = 5},
                                  {.worker = kB, .blocks = 2, .device_blocks = 2},
                              }));
    EXPECT_EQ(lookup(std::span(chain_).first(1)).size(), 2u);
    EXPECT_TRUE(lookup({}).empty());
    EXPECT_TRUE(lookup(chain_of(3, 99)).empty());
}

TEST_F(PrefixIndexTest, AMissingMiddleBlockEndsTheMatch) {
    store(kA, chain_);
    remove(kA, chain_[3]);
    EXPECT_EQ(matched(kA, chain_), 3u);
    EXPECT_EQ(matched(kA, std::span(chain_).subspan(3)), 0u);
    store(kA, std::span(chain_).subspan(3, 1));
    EXPECT_EQ(matched(kA, chain_), 8u);
}

TEST_F(PrefixIndexTest, EachBlockCountsOnceInItsQuickestTier) {
    store(kA, std::span(chain_).first(6), KvTier::kDisk);
    store(kA, std::span(chain_).first(4), KvTier::kRam);
    store(kA, std::span(chain_).first(1), KvTier::kDevice);
    const auto id = index_.reserve(kA, chain_, clock_.now() + from_ms(5));
    EXPECT_EQ(lookup(chain_), (std::vector<WorkerMatch>{{.worker = kA,
                                                         .blocks = 8,
                                                         .device_blocks = 1,
                                                         .ram_blocks = 3,
                                                         .disk_blocks = 2,
                                                         .pending_blocks = 2}}));
    remove(kA, chain_[0], KvTier::kDevice);
    EXPECT_EQ(lookup(std::span(chain_).first(1))[0].ram_blocks, 1u);
    index_.release(id);
}

TEST_F(PrefixIndexTest, AReservationCountsAtOnceAndOnlyForItsWorker) {
    index_.reserve(kA, std::span(chain_).first(4), clock_.now() + from_ms(5));
    EXPECT_EQ(lookup(chain_),
              (std::vector<WorkerMatch>{{.worker = kA, .blocks = 4, .pending_blocks = 4}}));
}

TEST_F(PrefixIndexTest, AReservationEndsByItsExpiry) {
    index_.reserve(kA, chain_, clock_.now() + from_ms(10));
    clock_.advance(from_ms(9.9));
    EXPECT_EQ(matched(kA, chain_), 8u);
    clock_.advance(from_ms(0.2));
    EXPECT_EQ(matched(kA, chain_), 0u);
    EXPECT_EQ(index_.stats().expired_reservations, 1u);
    EXPECT_EQ(index_.stats().blocks, 0u);
}

TEST_F(PrefixIndexTest, AnEventConfirmsAReservedBlockForGood) {
    index_.reserve(kA, chain_, clock_.now() + from_ms(10));
    store(kA, std::span(chain_).first(3));
    EXPECT_EQ(lookup(chain_)[0].device_blocks, 3u);
    EXPECT_EQ(lookup(chain_)[0].pending_blocks, 5u);
    clock_.advance(from_ms(20));
    EXPECT_EQ(matched(kA, chain_), 3u);
}

TEST_F(PrefixIndexTest, AConfirmedBlockThatIsRemovedIsNotPendingAgain) {
    index_.reserve(kA, chain_, clock_.now() + from_ms(10));
    store(kA, chain_);
    remove(kA, chain_[0]);
    EXPECT_EQ(matched(kA, chain_), 0u);
}

TEST_F(PrefixIndexTest, OverlappingReservationsAddUp) {
    const auto first = index_.reserve(kA, chain_, clock_.now() + from_ms(10));
    const auto second = index_.reserve(kA, std::span(chain_).first(2), clock_.now() + from_ms(50));
    EXPECT_EQ(index_.stats().pending_claims, 8u);
    index_.release(first);
    EXPECT_EQ(matched(kA, chain_), 2u);
    index_.release(first);  // ended ids are fine
    index_.release(ReservationId{0});
    index_.release(ReservationId{12345});
    EXPECT_EQ(matched(kA, chain_), 2u);
    index_.release(second);
    EXPECT_EQ(index_.stats().blocks, 0u);
}

TEST_F(PrefixIndexTest, AReleasedSlotDoesNotAnswerToItsOldId) {
    const auto old = index_.reserve(kA, chain_, clock_.now() + from_ms(10));
    index_.release(old);
    index_.reserve(kB, chain_, clock_.now() + from_ms(10));
    index_.release(old);
    EXPECT_EQ(matched(kB, chain_), 8u);
}

TEST_F(PrefixIndexTest, AGapAsksForOneSnapshotAndDropsEventsUntilItComes) {
    const KvEvent event = KvStored{chain_[0], BlockHash{}, KvTier::kDevice};
    const std::span one(&event, 1);
    EXPECT_EQ(index_.apply(kA, 1, 0, one), ApplyResult::kApplied);
    EXPECT_EQ(index_.apply(kA, 1, 2, one), ApplyResult::kNeedSnapshot);
    EXPECT_FALSE(index_.trusted(kA));
    EXPECT_EQ(index_.apply(kA, 1, 3, one), ApplyResult::kAwaiting);
    const std::vector<KvStored> stored{{chain_[0], BlockHash{}}, {chain_[1], chain_[0]}};
    EXPECT_EQ(index_.apply_snapshot(kA, 1, 4, stored), ApplyResult::kApplied);
    EXPECT_TRUE(index_.trusted(kA));
    EXPECT_EQ(matched(kA, chain_), 2u);
}

TEST_F(PrefixIndexTest, AfterRecoveryTheCursorIsTheSnapshotsAndDuplicatesAreIgnored) {
    const KvEvent event = KvStored{chain_[5], BlockHash{}, KvTier::kDevice};
    const std::span one(&event, 1);
    index_.apply(kA, 1, 0, one);
    index_.apply(kA, 1, 1, one);
    EXPECT_EQ(index_.apply(kA, 1, 4, one), ApplyResult::kNeedSnapshot);
    const std::vector<KvStored> stored{{chain_[0], BlockHash{}}};
    EXPECT_EQ(index_.apply_snapshot(kA, 1, 6, stored), ApplyResult::kApplied);
    EXPECT_EQ(index_.apply(kA, 1, 6, one), ApplyResult::kApplied);
    EXPECT_EQ(index_.apply(kA, 1, 7, one), ApplyResult::kApplied);
    EXPECT_EQ(index_.apply(kA, 1, 6, one), ApplyResult::kDuplicate);
    EXPECT_EQ(index_.apply(kA, 1, 4, one), ApplyResult::kDuplicate);
    EXPECT_TRUE(index_.trusted(kA));
    EXPECT_EQ(index_.worker_blocks(kA, KvTier::kDevice), 2u);
}

TEST_F(PrefixIndexTest, ABatchThatOverlapsIsAppliedFromWhereItIsNew) {
    store(kA, std::span(chain_).first(2));
    const std::vector<KvEvent> batch{KvRemoved{chain_[1], KvTier::kDevice},  // seq 1, seen
                                     KvStored{chain_[2], BlockHash{}, KvTier::kDevice}};
    EXPECT_EQ(index_.apply(kA, 1, 1, batch), ApplyResult::kApplied);
    EXPECT_EQ(matched(kA, chain_), 3u);
}

TEST_F(PrefixIndexTest, ANewEpochForgetsTheOldBlocks) {
    store(kA, chain_);
    const KvEvent event = KvStored{chain_[0], BlockHash{}, KvTier::kDevice};
    EXPECT_EQ(index_.apply(kA, 2, 0, std::span(&event, 1)), ApplyResult::kApplied);
    EXPECT_EQ(matched(kA, chain_), 1u);
    EXPECT_EQ(index_.apply(kA, 3, 17, std::span(&event, 1)), ApplyResult::kNeedSnapshot);
    EXPECT_EQ(matched(kA, chain_), 0u);
    EXPECT_EQ(index_.apply_snapshot(kA, 2, 99, {}), ApplyResult::kStale);
}

TEST_F(PrefixIndexTest, AGatewayYoungerThanItsWorkerLearnsFromTheSnapshot) {
    EXPECT_EQ(index_.begin_epoch(kA, 77), ApplyResult::kNeedSnapshot);
    const KvEvent event = KvStored{chain_[7], chain_[6], KvTier::kDevice};
    EXPECT_EQ(index_.apply(kA, 77, 5000, std::span(&event, 1)), ApplyResult::kAwaiting);
    std::vector<KvStored> stored;
    for (const BlockHash hash : chain_) stored.push_back({hash, BlockHash{}});
    EXPECT_EQ(index_.apply_snapshot(kA, 77, 5001, stored), ApplyResult::kApplied);
    EXPECT_EQ(matched(kA, chain_), 8u);
    EXPECT_TRUE(index_.trusted(kA));
}

TEST_F(PrefixIndexTest, ASnapshotReplacesAndAnOldOneIsIgnored) {
    store(kA, chain_);
    EXPECT_EQ(index_.apply_snapshot(kA, 1, 3, {}), ApplyResult::kStale);
    EXPECT_EQ(matched(kA, chain_), 8u);
    const std::vector<KvStored> stored{{chain_[0], BlockHash{}, KvTier::kRam}};
    EXPECT_EQ(index_.apply_snapshot(kA, 1, 8, stored), ApplyResult::kApplied);
    EXPECT_EQ(lookup(chain_),
              (std::vector<WorkerMatch>{{.worker = kA, .blocks = 1, .ram_blocks = 1}}));
}

TEST_F(PrefixIndexTest, ADeadWorkerLeavesNothingBehind) {
    store(kA, chain_);
    store(kB, std::span(chain_).first(2));
    index_.reserve(kA, chain_of(5, 3), clock_.now() + from_ms(1000));
    index_.drop_worker(kA);
    EXPECT_EQ(lookup(chain_).size(), 1u);
    EXPECT_EQ(index_.stats().blocks, 2u);
    EXPECT_EQ(index_.stats().reservations, 0u);
    EXPECT_FALSE(index_.trusted(kA));
    index_.drop_worker(kA);
    index_.drop_worker(WorkerId{3});
}

TEST_F(PrefixIndexTest, ClearedMeansEveryTierOfThatWorker) {
    store(kA, chain_);
    store(kA, chain_, KvTier::kRam);
    store(kB, chain_);
    const KvEvent event = KvCleared{};
    index_.apply(kA, 1, seq_[0], std::span(&event, 1));
    EXPECT_EQ(lookup(chain_).size(), 1u);
    EXPECT_EQ(index_.worker_blocks(kA, KvTier::kRam), 0u);
}

TEST_F(PrefixIndexTest, HundredsOfWorkersNeedNoMoreThanABitEach) {
    std::vector<KvEvent> events;
    for (const BlockHash hash : chain_) events.push_back(KvStored{hash, BlockHash{}});
    for (std::uint32_t w = 0; w < 300; ++w) index_.apply(WorkerId{w}, 1, 0, events);
    const auto all = lookup(chain_);
    ASSERT_EQ(all.size(), 300u);
    EXPECT_EQ(all[299], (WorkerMatch{.worker = WorkerId{299}, .blocks = 8, .device_blocks = 8}));
    EXPECT_EQ(index_.stats().blocks, 8u);
    EXPECT_EQ(index_.stats().holder_sets, 1u);
}

TEST_F(PrefixIndexTest, AnUnknownTierFromTheWireIsNobodysBlock) {
    const std::vector<KvEvent> events{KvStored{chain_[0], BlockHash{}, static_cast<KvTier>(3)},
                                      KvRemoved{chain_[0], static_cast<KvTier>(200)}};
    EXPECT_EQ(index_.apply(kA, 1, 0, events), ApplyResult::kApplied);
    EXPECT_TRUE(lookup(chain_).empty());
}

TEST(PrefixIndexBudget, StaysBelowItsBytesAndKeepsWhatLookupsMeet) {
    ManualClock clock;
    PrefixIndex index(clock, {.bytes_max = 256 << 10});
    const std::vector<BlockHash> hot = chain_of(20);
    std::vector<KvEvent> events;
    for (const BlockHash hash : hot) events.push_back(KvStored{hash, BlockHash{}});
    ASSERT_EQ(index.apply(kA, 1, 0, events), ApplyResult::kApplied);
    std::vector<WorkerMatch> out;
    std::uint64_t seq = events.size();
    Random random(4);
    for (int i = 0; i < 400; ++i) {
        events.clear();
        for (int k = 0; k < 100; ++k) {
            events.push_back(KvStored{BlockHash{random.next()}, BlockHash{}});
        }
        ASSERT_EQ(index.apply(kA, 1, seq, events), ApplyResult::kApplied);
        seq += events.size();
        ASSERT_LE(index.stats().bytes, 256u << 10);
        index.lookup(hot, out);
        ASSERT_EQ(out.at(0).blocks, 20u) << i;
    }
    const PrefixIndexStats stats = index.stats();
    EXPECT_GT(stats.dropped_for_budget, 30'000u);
    EXPECT_GT(stats.blocks, 5'000u);
    EXPECT_EQ(index.worker_blocks(kA, KvTier::kDevice), stats.blocks);
    EXPECT_TRUE(check_integrity(index).empty());
}

TEST(PrefixIndexBudget, ReservationsAreBoundedToo) {
    ManualClock clock;
    PrefixIndex index(clock, {.bytes_max = 1 << 20, .reservations_max = 10});
    for (std::uint64_t i = 0; i < 100; ++i) {
        index.reserve(kA, chain_of(3, i), clock.now() + from_ms(1000 + static_cast<double>(i)));
    }
    EXPECT_EQ(index.stats().reservations, 10u);
    EXPECT_EQ(index.stats().pending_claims, 30u);
    std::vector<WorkerMatch> out;
    index.lookup(chain_of(3, 99), out);
    EXPECT_EQ(out.size(), 1u);
    index.reserve(kA, chain_of(200'000, 7), clock.now() + from_ms(5000));  // one endless prompt
    EXPECT_LE(index.stats().bytes, 1u << 20);
    EXPECT_TRUE(check_integrity(index).empty());
}

TEST(PrefixIndexBudget, ABlockCostsAboutThirtyBytes) {
    ManualClock clock;
    PrefixIndex index(clock);
    Random random(4);
    std::vector<KvEvent> events;
    for (int k = 0; k < 200'000; ++k) {
        events.push_back(KvStored{BlockHash{random.next()}, BlockHash{}});
    }
    index.apply(kA, 1, 0, events);
    EXPECT_EQ(index.stats().blocks, 200'000u);
    EXPECT_LT(index.stats().bytes_per_block, 33);
}

}  // namespace
}  // namespace taproot
