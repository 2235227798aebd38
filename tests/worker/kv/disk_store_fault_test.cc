// SPDX-License-Identifier: Apache-2.0
// What goes wrong on disks: full, failing, read-only, gone, damaged, another's. A get may always be
// a miss; it is never another payload (get() of the harness compares), and nothing crashes.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>
#include <functional>
#include <iterator>

#include "tests/support/failing_file_system.h"
#include "tests/support/fuzz_seed.h"
#include "tests/worker/kv/disk_store_harness.h"

namespace taproot::testing {
namespace {

class DiskStoreFaultTest : public ::testing::Test {
protected:
    DiskStoreFaultTest() {
        options_.path = directory_.path() / "kv";
        options_.max_bytes = 16_MiB;
        options_.env = disk_.env();
    }

    std::unique_ptr<DiskStore> open() {
        mirror_.clear();
        auto store = DiskStore::open(options_, kIdentity, kPageBytes, mirror_.watch());
        if (!store) {
            ADD_FAILURE() << store.error().describe();
            std::abort();
        }
        return std::move(*store);
    }
    DiskPut put(DiskStore& store, std::uint64_t n) {
        DiskPut out = testing::put(store, n);
        if (out == DiskPut::kStored) mirror_.add(test_block(n).hash);
        return out;
    }
    // Puts new blocks until one is not stored.
    DiskPut put_until_refused(DiskStore& store, std::uint64_t from) {
        for (std::uint64_t n = from; n < from + 500; ++n)
            if (DiskPut out = put(store, n); out != DiskPut::kStored) return out;
        return DiskPut::kStored;
    }
    void expect_off(DiskStore& store, const std::string& reason) {
        EXPECT_FALSE(store.on());
        EXPECT_EQ(mirror_.size(), 0u);  // everything was announced as removed
        EXPECT_NE(store.stats().off_reason.find(reason), std::string::npos)
            << store.stats().off_reason;
        EXPECT_EQ(put(store, 9000), DiskPut::kOff);
        EXPECT_EQ(get(store, 0).outcome, DiskGet::kOff);
        EXPECT_FALSE(store.flush(kLong));
        EXPECT_EQ(store.stats().failures, 1u);
    }
    // Comes back by itself once the cause is gone, and not before its time.
    void expect_back(DiskStore& store) {
        store.retry(clock_);
        EXPECT_FALSE(store.on());
        clock_.advance(from_ms(1001));
        store.retry(clock_);
        ASSERT_TRUE(store.on()) << store.stats().off_reason;
        EXPECT_EQ(mirror_.size(), store.stats().blocks);
        EXPECT_EQ(put(store, 9001), DiskPut::kStored);
        EXPECT_TRUE(store.flush(kLong));
        EXPECT_EQ(get(store, 9001).outcome, DiskGet::kHit);
    }

    FailingDisk disk_;
    TempDirectory directory_;
    DiskStoreOptions options_;
    Mirror mirror_;
    ManualClock clock_;
};

TEST_F(DiskStoreFaultTest, AFullDiskSwitchesItOffOnceAndItComesBackWithItsBlocks) {
    auto store = open();
    for (std::uint64_t n = 0; n < 30; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored);
    ASSERT_TRUE(store->flush(kLong));
    disk_.faults.room_bytes = 200'000;
    EXPECT_EQ(put_until_refused(*store, 100), DiskPut::kFailed);
    expect_off(*store, "No space left");
    disk_.faults.heal();
    expect_back(*store);
    for (std::uint64_t n = 0; n < 30; ++n) EXPECT_EQ(get(*store, n).outcome, DiskGet::kHit);
}

TEST_F(DiskStoreFaultTest, AWriteErrorSwitchesItOff) {
    auto store = open();
    disk_.faults.write_error = true;
    EXPECT_EQ(put_until_refused(*store, 100), DiskPut::kFailed);
    expect_off(*store, "Input/output error");
    disk_.faults.heal();
    expect_back(*store);
}

TEST_F(DiskStoreFaultTest, AReadErrorSwitchesItOff) {
    auto store = open();
    ASSERT_EQ(put(*store, 0), DiskPut::kStored);
    ASSERT_TRUE(store->flush(kLong));
    disk_.faults.read_error = true;
    EXPECT_EQ(get(*store, 0).outcome, DiskGet::kFailed);
    expect_off(*store, "Input/output error");
    disk_.faults.heal();
    expect_back(*store);
    EXPECT_EQ(get(*store, 0).outcome, DiskGet::kHit);
}

TEST_F(DiskStoreFaultTest, AReadOnlyDiskSwitchesItOff) {
    auto store = open();
    disk_.faults.read_only = true;
    EXPECT_EQ(put_until_refused(*store, 100), DiskPut::kFailed);
    expect_off(*store, "Read-only");
    disk_.faults.heal();
    expect_back(*store);
}

TEST_F(DiskStoreFaultTest, AVanishedDirectoryIsMadeAgain) {
    auto store = open();
    for (std::uint64_t n = 0; n < 30; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored);
    ASSERT_TRUE(store->flush(kLong));
    fs::remove_all(options_.path);
    EXPECT_EQ(put_until_refused(*store, 100), DiskPut::kFailed);
    expect_off(*store, "No such file");
    expect_back(*store);
    EXPECT_EQ(get(*store, 0).outcome, DiskGet::kAbsent);
}

TEST_F(DiskStoreFaultTest, WhileTheCauseLastsItIsTriedLessAndLessOften) {
    auto store = open();
    disk_.faults.write_error = true;
    EXPECT_EQ(put_until_refused(*store, 100), DiskPut::kFailed);
    for (int second = 0; second < 200; ++second) {
        clock_.advance(from_ms(1000));
        store->retry(clock_);
        EXPECT_FALSE(store->on());
    }
    disk_.faults.heal();
    for (int second = 0; second < 61 && !store->on(); ++second) {
        clock_.advance(from_ms(1000));
        store->retry(clock_);
    }
    EXPECT_TRUE(store->on());
    EXPECT_EQ(store->stats().failures, 1u);
}

TEST_F(DiskStoreFaultTest, ADiskThatFailsAtTheStartIsNoReasonNotToStart) {
    open().reset();
    disk_.faults.write_error = true;
    auto store = open();
    EXPECT_FALSE(store->on());
    expect_off(*store, "Input/output error");
    disk_.faults.heal();
    expect_back(*store);
}

TEST_F(DiskStoreFaultTest, MinFreeBytesAreLeftToOthers) {
    options_.min_free_bytes = 1ull << 60;
    auto store = open();
    EXPECT_EQ(put_until_refused(*store, 100), DiskPut::kFailed);
    expect_off(*store, "min_free_bytes");
    for (int second = 0; second < 100; ++second) {
        clock_.advance(from_ms(1000));
        store->retry(clock_);
    }
    EXPECT_FALSE(store->on());  // not on and off again and again
    EXPECT_EQ(store->stats().failures, 1u);
}

TEST_F(DiskStoreFaultTest, ClosingAStoreThatIsOffIsQuietAndForGood) {
    auto store = open();
    disk_.faults.write_error = true;
    EXPECT_EQ(put_until_refused(*store, 100), DiskPut::kFailed);
    EXPECT_TRUE(store->close(kLong));
    disk_.faults.heal();
    clock_.advance(from_ms(100'000));
    store->retry(clock_);
    store->retry(clock_);
    EXPECT_FALSE(store->on());
}

// A 64 MiB file system of its own, a cap far above it, and a file of others that grows.
TEST_F(DiskStoreFaultTest, ASmallFileSystemThatFillsUpIsNoProblem) {
    TempDirectory at;
    if (::mount("tmpfs", at.path().c_str(), "tmpfs", 0, "size=64m") != 0)
        GTEST_SKIP() << "may not mount a tmpfs here";
    {
        options_.path = at.path() / "kv";
        options_.max_bytes = 1_GiB;
        options_.generation_bytes = 2_MiB;
        options_.min_free_bytes = 4_MiB;
        options_.env = nullptr;
        auto store = open();
        for (std::uint64_t n = 0; n < 1500; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored) << n;
        EXPECT_GT(store->stats().dropped_generations, 10u);
        EXPECT_EQ(get(*store, 1499).outcome, DiskGet::kHit);
        // Others write more and more: the store gives way, until it has nothing to give.
        std::ofstream others(at.path() / "others");
        DiskPut last = DiskPut::kStored;
        std::uint64_t n = 2000;
        for (int step = 0; step < 80 && last == DiskPut::kStored; ++step) {
            others << std::string(1_MiB, 'x') << std::flush;
            for (int i = 0; i < 40 && last == DiskPut::kStored; ++i) last = put(*store, n++);
            EXPECT_TRUE(step < 30 || bytes_under(options_.path) < 34_MiB);
        }
        EXPECT_EQ(last, DiskPut::kFailed);
        EXPECT_GT(n, 4000u);
        expect_off(*store, "No space left");
        others.close();
        fs::remove(at.path() / "others");
        expect_back(*store);
    }
    ::umount(at.path().c_str());
}

// --- damage

void flip(const fs::path& file, std::uint64_t byte, int bit) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(byte));
    char value = 0;
    stream.get(value);
    stream.seekp(static_cast<std::streamoff>(byte));
    stream.put(static_cast<char>(value ^ (1 << bit)));
}

TEST_F(DiskStoreFaultTest, AFlippedBitInABlobCostsThatBlockAndItIsStoredAgain) {
    auto store = open();
    for (std::uint64_t n = 0; n < 7; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored);
    ASSERT_TRUE(store->close(kLong));
    store.reset();
    auto blobs = files_of(options_.path, ".blob");
    ASSERT_EQ(blobs.size(), 1u);
    const std::uint64_t record = fs::file_size(blobs[0]) / 7;
    flip(blobs[0], record * 3 + 20'000, 5);
    store = open();
    int faults = 0;
    for (std::uint64_t n = 0; n < 7; ++n) {
        DiskRead read = get(*store, n);
        if (read.outcome == DiskGet::kHit) continue;
        ++faults;
        EXPECT_EQ(read.outcome, DiskGet::kFault);
        EXPECT_EQ(read.fault, StoredBlockFault::kBadChecksum);
        EXPECT_FALSE(mirror_.holds(test_block(n).hash));
        EXPECT_EQ(put(*store, n), DiskPut::kStored);
        EXPECT_EQ(get(*store, n).outcome, DiskGet::kHit);
    }
    EXPECT_EQ(faults, 1);
    ASSERT_TRUE(store->close(kLong));
    store.reset();
    store = open();  // of the two that are stored now, the newer counts
    for (std::uint64_t n = 0; n < 7; ++n) EXPECT_EQ(get(*store, n).outcome, DiskGet::kHit) << n;
}

// Damages a closed store, opens it, and asks for everything.
class DiskStoreDamageTest : public DiskStoreFaultTest {
protected:
    static constexpr std::uint64_t kBlocks = 24;

    void make() {
        fs::remove_all(options_.path);
        auto store = open();
        for (std::uint64_t n = 0; n < kBlocks; ++n) ASSERT_EQ(put(*store, n), DiskPut::kStored);
        ASSERT_TRUE(store->close(kLong));
    }
    void check(const std::string& what) {
        SCOPED_TRACE(what);
        auto store = open();
        for (std::uint64_t n = 0; n < kBlocks && store->on(); ++n) get(*store, n);
        for (int second = 0; second < 3 && !store->on(); ++second) {
            clock_.advance(from_ms(2000));
            store->retry(clock_);
        }
        ASSERT_TRUE(store->on()) << store->stats().off_reason;
        EXPECT_EQ(mirror_.size(), store->stats().blocks);
        EXPECT_EQ(put(*store, 500), DiskPut::kStored);
        EXPECT_EQ(get(*store, 500).outcome, DiskGet::kHit);
        ASSERT_TRUE(store->close(kLong));
    }
    std::vector<fs::path> all_files() {
        std::vector<fs::path> out;
        for (const auto& entry : fs::directory_iterator(options_.path / "db"))
            if (entry.is_regular_file() && entry.path().filename() != "LOCK")
                out.push_back(entry.path());
        std::sort(out.begin(), out.end());
        return out;
    }
};

TEST_F(DiskStoreDamageTest, AnyFileMayBeCutOffEmptiedOrMissing) {
    make();
    const std::size_t files = all_files().size();
    ASSERT_GE(files, 6u);
    const std::pair<const char*, std::function<void(const fs::path&)>> damages[] = {
        {"halved", [](const fs::path& at) { fs::resize_file(at, fs::file_size(at) / 2); }},
        {"one byte short",
         [](const fs::path& at) {
             if (fs::file_size(at) > 0) fs::resize_file(at, fs::file_size(at) - 1);
         }},
        {"emptied", [](const fs::path& at) { fs::resize_file(at, 0); }},
        {"removed", [](const fs::path& at) { fs::remove(at); }},
    };
    for (std::size_t i = 0; i < files; ++i)
        for (const auto& [name, damage] : damages) {
            make();
            fs::path file = all_files().at(i);
            damage(file);
            check(file.filename().string() + " " + name);
        }
}

TEST_F(DiskStoreDamageTest, AnyBitOfAnyFileMayBeFlipped) {
    const std::uint64_t seed = fuzz_seed(7);
    SCOPED_TRACE("TAPROOT_FUZZ_SEED=" + std::to_string(seed));
    Random random(seed);
    for (int round = 0; round < fuzz_rounds(60); ++round) {
        make();
        auto files = all_files();
        // Small files are picked as often as large ones: they hold what everything hangs on.
        fs::path file = files[random.below(files.size())];
        if (fs::file_size(file) == 0) continue;
        std::uint64_t byte = random.below(fs::file_size(file));
        flip(file, byte, static_cast<int>(random.below(8)));
        check(file.filename().string() + " byte " + std::to_string(byte));
    }
}

}  // namespace
}  // namespace taproot::testing
