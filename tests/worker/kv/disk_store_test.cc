// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/disk_store.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/worker/kv/disk_store_harness.h"

namespace taproot::testing {
namespace {

class DiskStoreTest : public ::testing::Test {
protected:
    DiskStoreTest() {
        options_.path = directory_.path() / "kv";
        options_.max_bytes = 32_MiB;
    }

    std::unique_ptr<DiskStore> open(DiskStoreWatch watch = {}) {
        auto store = DiskStore::open(options_, kIdentity, kPageBytes, std::move(watch));
        if (!store) {
            ADD_FAILURE() << store.error().describe();
            std::abort();
        }
        return std::move(*store);
    }
    Error refused(const KvIdentity& identity = kIdentity) {
        auto store = DiskStore::open(options_, identity, kPageBytes);
        EXPECT_FALSE(store);
        return store ? Error{} : store.error();
    }

    TempDirectory directory_;
    DiskStoreOptions options_;
};

TEST_F(DiskStoreTest, GivesBackWhatWasPutBeforeAndAfterItIsFlushed) {
    auto store = open();
    for (std::uint64_t n = 0; n < 5; ++n) EXPECT_EQ(put(*store, n), DiskPut::kStored);
    for (std::uint64_t n = 0; n < 5; ++n) EXPECT_EQ(get(*store, n).outcome, DiskGet::kHit);
    ASSERT_TRUE(store->flush(kLong));
    EXPECT_EQ(store->stats().pending_bytes, 0u);
    for (std::uint64_t n = 0; n < 5; ++n) EXPECT_EQ(get(*store, n).outcome, DiskGet::kHit);
    EXPECT_EQ(get(*store, 5).outcome, DiskGet::kAbsent);
    EXPECT_EQ(put(*store, 3), DiskPut::kAlreadyStored);
    auto stats = store->stats();
    EXPECT_EQ(stats.hits, 10u);
    EXPECT_EQ(stats.misses_absent, 1u);
    EXPECT_EQ(stats.blocks, 5u);
    EXPECT_EQ(stats.put_bytes, 5 * kPageBytes);
}

TEST_F(DiskStoreTest, ABlockThatIsNotExactlyTheWantedOneIsAMissWithItsCause) {
    auto store = open();
    ASSERT_EQ(put(*store, 1), DiskPut::kStored);
    std::vector<std::byte> payload(kPageBytes, std::byte{0xEE});
    const auto untouched = payload;
    auto ask = [&](const StoredBlock& wanted) { return store->get(wanted, payload).fault; };
    StoredBlock wanted = test_block(1);
    wanted.salt = 9;
    EXPECT_EQ(ask(wanted), StoredBlockFault::kOtherSalt);
    wanted = test_block(1);
    wanted.tokens[0] += 1;
    EXPECT_EQ(ask(wanted), StoredBlockFault::kOtherTokens);
    wanted = test_block(1);
    wanted.parent.value += 1;
    EXPECT_EQ(ask(wanted), StoredBlockFault::kOtherParent);
    EXPECT_EQ(payload, untouched);
    // Asking for another block does not cost the one that is there.
    EXPECT_EQ(get(*store, 1).outcome, DiskGet::kHit);
    auto misses = store->stats().misses_fault;
    EXPECT_EQ(misses[static_cast<std::size_t>(StoredBlockFault::kOtherTokens)], 1u);
}

TEST_F(DiskStoreTest, AfterARestartTheIndexIsThereAgainFromTheKeysAlone) {
    auto store = open();
    for (std::uint64_t n = 0; n < 40; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored);
    ASSERT_TRUE(store->close(kLong));
    EXPECT_FALSE(store->on());
    EXPECT_EQ(put(*store, 50), DiskPut::kOff);
    store.reset();

    std::map<BlockHash, StoredBlock> found;
    DiskStoreWatch watch;
    watch.found = [&](const StoredBlock& block) {
        EXPECT_TRUE(found.emplace(block.hash, block).second);
    };
    store = open(watch);
    EXPECT_EQ(store->stats().found_blocks, 40u);
    ASSERT_EQ(found.size(), 40u);
    for (std::uint64_t n = 0; n < 40; ++n) {
        EXPECT_EQ(found.at(test_block(n).hash), test_block(n));
        EXPECT_EQ(get(*store, n).outcome, DiskGet::kHit);
    }
}

TEST_F(DiskStoreTest, WhatWasNotFlushedIsLostAndNothingElse) {
    auto store = open();
    ASSERT_EQ(put(*store, 1), DiskPut::kStored);
    ASSERT_TRUE(store->flush(kLong));
    ASSERT_EQ(put(*store, 2), DiskPut::kStored);
    store.reset();
    store = open();
    EXPECT_EQ(get(*store, 1).outcome, DiskGet::kHit);
    EXPECT_EQ(get(*store, 2).outcome, DiskGet::kAbsent);
}

TEST_F(DiskStoreTest, TheCapHoldsAtEveryMomentAndTheNewestBlocksStay) {
    Mirror mirror;
    auto store = open(mirror.watch());
    constexpr std::uint64_t kBlocks = 900;  // 56 MiB through 32 MiB
    std::uint64_t most = 0;
    for (std::uint64_t n = 0; n < kBlocks; ++n) {
        ASSERT_EQ(put(*store, n), DiskPut::kStored);
        mirror.add(test_block(n).hash);
        most = std::max(most, bytes_under(options_.path));
    }
    ASSERT_TRUE(store->flush(kLong));
    most = std::max(most, bytes_under(options_.path));
    auto stats = store->stats();
    EXPECT_LE(most, options_.max_bytes);
    EXPECT_GT(most, options_.max_bytes * 8 / 10);  // and the room is used
    EXPECT_GE(stats.used_bytes, bytes_under(options_.path));
    EXPECT_GT(stats.dropped_generations, 15u);
    EXPECT_EQ(mirror.size(), stats.blocks);
    std::uint64_t kept = 0;
    for (std::uint64_t n = 0; n < kBlocks; ++n) {
        bool there = get(*store, n).outcome == DiskGet::kHit;
        EXPECT_EQ(there, mirror.holds(test_block(n).hash));
        if (there) ++kept;
        EXPECT_TRUE(there || n + 300 < kBlocks) << n;
    }
    EXPECT_EQ(kept, stats.blocks);
}

// Above mostly in memory (tmpfs), here on whatever holds temporary files.
TEST_F(DiskStoreTest, TheCapHoldsOnARealDiskToo) {
    TempDirectory on_disk(fs::temp_directory_path());
    options_.path = on_disk.path() / "kv";
    options_.max_bytes = 12_MiB;
    for (bool direct : {false, true}) {
        options_.direct_io = direct;
        auto store = open();
        for (std::uint64_t n = 0; n < 250; ++n) {
            ASSERT_EQ(put(*store, n + (direct ? 1000 : 0)), DiskPut::kStored);
            ASSERT_LE(bytes_under(options_.path), options_.max_bytes) << n;
        }
        EXPECT_GT(store->stats().dropped_generations, 1u);
        EXPECT_EQ(get(*store, direct ? 1249 : 249).outcome, DiskGet::kHit);
    }
}

// Deleted files that are still open use space that no directory shows.
TEST_F(DiskStoreTest, DroppedGenerationsLeaveNoOpenFilesBehind) {
    auto store = open();
    for (std::uint64_t n = 0; n < 700; ++n) {
        ASSERT_EQ(put(*store, n), DiskPut::kStored);
        ASSERT_NE(get(*store, n / 2).outcome, DiskGet::kFault);
    }
    ASSERT_TRUE(store->flush(kLong));
    ASSERT_GT(store->stats().dropped_generations, 5u);
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        std::string target = fs::read_symlink(entry.path(), gone);
        bool deleted = target.find("(deleted)") != std::string::npos;
        EXPECT_FALSE(deleted && target.starts_with(options_.path.string())) << target;
    }
}

TEST_F(DiskStoreTest, NothingIsWrittenMuchMoreThanOnce) {
    options_.generation_bytes = 4_MiB;
    options_.flush_bytes = 1_MiB;
    auto store = open();
    // A third of all blocks is used again and again: as hot as it gets.
    for (std::uint64_t n = 0; n < 2000; ++n) {
        ASSERT_EQ(put(*store, n), DiskPut::kStored);
        for (std::uint64_t back = 1; back < 300 && back <= n; back += 29)
            if ((n - back) % 3 == 0) get(*store, n - back);
    }
    ASSERT_TRUE(store->flush(kLong));
    auto stats = store->stats();
    EXPECT_GT(stats.rewritten_blocks, 100u);
    EXPECT_GE(stats.write_amplification(), 1.0);
    EXPECT_LE(stats.write_amplification(), 1.3);
    EXPECT_LE(bytes_under(options_.path), options_.max_bytes);
}

TEST_F(DiskStoreTest, BlocksThatAreUsedOutliveTheirGeneration) {
    options_.generation_bytes = 4_MiB;
    options_.flush_bytes = 1_MiB;
    auto store = open();
    for (std::uint64_t n = 0; n < 2000; ++n) {
        ASSERT_EQ(put(*store, n), DiskPut::kStored);
        for (std::uint64_t hot = 0; hot < std::min<std::uint64_t>(n + 1, 3); ++hot)
            ASSERT_EQ(get(*store, hot).outcome, DiskGet::kHit) << n;
    }
    EXPECT_EQ(get(*store, 3).outcome, DiskGet::kAbsent);
    EXPECT_GT(store->stats().rewritten_blocks, 3u);
}

TEST_F(DiskStoreTest, ASmallerCapIsReachedByDroppingWhenItIsOpened) {
    auto store = open();
    for (std::uint64_t n = 0; n < 400; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored);
    ASSERT_TRUE(store->close(kLong));
    store.reset();
    options_.max_bytes = 8_MiB;
    store = open();
    EXPECT_LE(bytes_under(options_.path), 8_MiB);
    EXPECT_EQ(get(*store, 399).outcome, DiskGet::kHit);
    EXPECT_EQ(get(*store, 0).outcome, DiskGet::kAbsent);
}

TEST_F(DiskStoreTest, ManyRestartsContinueTheNewestGeneration) {
    for (std::uint64_t n = 0; n < 6; ++n) {
        auto store = open();
        ASSERT_EQ(put(*store, n), DiskPut::kStored);
        ASSERT_TRUE(store->close(kLong));
    }
    auto store = open();
    EXPECT_EQ(store->stats().generations, 1u);
    for (std::uint64_t n = 0; n < 6; ++n) EXPECT_EQ(get(*store, n).outcome, DiskGet::kHit);
}

TEST_F(DiskStoreTest, BlocksOfAnotherModelOrLayoutAreNeverSeenButStayForIt) {
    auto store = open();
    ASSERT_EQ(put(*store, 1), DiskPut::kStored);
    ASSERT_TRUE(store->close(kLong));
    store.reset();
    for (KvIdentity other : {KvIdentity{kIdentity.model_digest + 1, kIdentity.layout_digest},
                             KvIdentity{kIdentity.model_digest, kIdentity.layout_digest + 1}}) {
        auto foreign = DiskStore::open(options_, other, kPageBytes);
        ASSERT_TRUE(foreign);
        EXPECT_EQ((*foreign)->stats().blocks, 0u);
        StoredBlock wanted = test_block(1);
        wanted.identity = other;
        std::vector<std::byte> payload(kPageBytes);
        EXPECT_EQ((*foreign)->get(wanted, payload).outcome, DiskGet::kAbsent);
        EXPECT_EQ((*foreign)->put(wanted, payload), DiskPut::kStored);
        ASSERT_TRUE((*foreign)->close(kLong));
    }
    store = open();
    EXPECT_EQ(store->stats().blocks, 1u);
    EXPECT_EQ(get(*store, 1).outcome, DiskGet::kHit);
}

TEST_F(DiskStoreTest, ForeignGenerationsGiveWayToTheCap) {
    auto store = open();
    for (std::uint64_t n = 0; n < 300; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored);
    ASSERT_TRUE(store->close(kLong));
    store.reset();
    const KvIdentity other{1, 2};
    auto foreign = DiskStore::open(options_, other, kPageBytes);
    ASSERT_TRUE(foreign);
    for (std::uint64_t n = 0; n < 450; ++n) {
        StoredBlock block = test_block(n);
        block.identity = other;
        ASSERT_EQ((*foreign)->put(block, test_payload(n)), DiskPut::kStored);
        ASSERT_LE(bytes_under(options_.path), options_.max_bytes);
    }
    EXPECT_GT((*foreign)->stats().blocks, 350u);
}

TEST_F(DiskStoreTest, TheDirectoryIsPrivate) {
    fs::create_directory(options_.path);
    fs::permissions(options_.path, fs::perms(0755));
    auto store = open();
    EXPECT_EQ(fs::status(options_.path).permissions(), fs::perms(0700));
    EXPECT_EQ(fs::status(options_.path / "db").permissions(), fs::perms(0700));
}

TEST_F(DiskStoreTest, TwoStoresNeverShareADirectory) {
    auto store = open();
    Error error = refused();
    EXPECT_EQ(error.code, ErrorCode::kUnavailable);
    EXPECT_NE(error.describe().find("in use by another worker"), std::string::npos);
    store.reset();
    store = open();
    EXPECT_TRUE(store->on());
}

TEST_F(DiskStoreTest, FilesOfOthersAreNotTouched) {
    fs::create_directory(options_.path);
    std::ofstream(options_.path / "thesis.txt") << "years of work";
    EXPECT_EQ(refused().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(fs::exists(options_.path / "thesis.txt"));
    EXPECT_FALSE(fs::exists(options_.path / "db"));
    fs::remove(options_.path / "thesis.txt");
    std::ofstream(options_.path / "FORMAT") << "something else";
    EXPECT_EQ(refused().code, ErrorCode::kInvalidArgument);
}

TEST_F(DiskStoreTest, AnotherFormatIsEmptied) {
    auto store = open();
    ASSERT_EQ(put(*store, 1), DiskPut::kStored);
    ASSERT_TRUE(store->close(kLong));
    store.reset();
    std::ofstream(options_.path / "FORMAT") << "taproot kv 999\n";
    store = open();
    EXPECT_EQ(store->stats().blocks, 0u);
    EXPECT_EQ(put(*store, 1), DiskPut::kStored);
    ASSERT_TRUE(store->close(kLong));
    store.reset();
    EXPECT_EQ(open()->stats().blocks, 1u);
}

TEST_F(DiskStoreTest, OptionsOutOfRangeAreRefusedWithTheRange) {
    options_.max_bytes = 1_MiB;
    Error error = refused();
    EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
    EXPECT_NE(error.describe().find("at least"), std::string::npos);
    options_.max_bytes = 32_MiB;
    options_.generation_bytes = 16_MiB;
    EXPECT_EQ(refused().code, ErrorCode::kInvalidArgument);
    options_.generation_bytes = 0;
    options_.path = directory_.path() / "no" / "such" / "place";
    error = refused();
    EXPECT_EQ(error.code, ErrorCode::kIo);
    EXPECT_NE(error.describe().find("No such file"), std::string::npos);
}

TEST_F(DiskStoreTest, DirectIoIsUsedWhereItWorksAndLeftOutWhereNot) {
    TempDirectory on_disk(fs::temp_directory_path());
    options_.path = on_disk.path() / "kv";
    options_.direct_io = true;
    auto store = open();
    for (std::uint64_t n = 0; n < 100; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored);
    ASSERT_TRUE(store->flush(kLong));
    for (std::uint64_t n = 0; n < 100; ++n) ASSERT_EQ(get(*store, n).outcome, DiskGet::kHit);
    EXPECT_LE(bytes_under(options_.path), options_.max_bytes);
    store.reset();
    // /dev/shm is a tmpfs; kernels before 6.6 refuse O_DIRECT there.
    if (!fs::is_directory("/dev/shm")) return;
    TempDirectory memory("/dev/shm");
    options_.path = memory.path() / "kv";
    store = open();
    ASSERT_EQ(put(*store, 1), DiskPut::kStored);
    ASSERT_TRUE(store->flush(kLong));
    EXPECT_EQ(get(*store, 1).outcome, DiskGet::kHit);
}

}  // namespace
}  // namespace taproot::testing
