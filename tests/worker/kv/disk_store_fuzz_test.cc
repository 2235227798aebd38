// SPDX-License-Identifier: Apache-2.0
// Random use of a small disk store on a disk that fails now and then, against the simplest model:
// the set of blocks that it announced. Replay with TAPROOT_FUZZ_SEED, run longer with
// TAPROOT_FUZZ_ROUNDS.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/failing_file_system.h"
#include "tests/support/fuzz_seed.h"
#include "tests/worker/kv/disk_store_harness.h"

namespace taproot::testing {
namespace {

constexpr std::uint64_t kBlocks = 400;  // of which the cap holds about a third

class Fuzz {
public:
    explicit Fuzz(std::uint64_t seed) : random_(seed) {
        options_.path = directory_.path() / "kv";
        options_.max_bytes = 10_MiB;
        options_.generation_bytes = 1_MiB;
        options_.flush_bytes = 384_KiB;
        options_.env = disk_.env();
        options_.direct_io = random_.chance(0.3);
        open();
    }

    void step() {
        double draw = random_.unit();
        if (draw < 0.45) {
            put(random_.below(kBlocks));
        } else if (draw < 0.9) {
            // Mostly a few, so that some are hot.
            get(random_.chance(0.7) ? random_.below(kBlocks / 20) : random_.below(kBlocks));
        } else if (draw < 0.93) {
            store_->flush(kLong).ignore("the disk may be failing");
        } else if (draw < 0.94) {
            reopen();
        } else if (draw < 0.95) {
            fail();
        } else if (draw < 0.953) {
            flip_a_bit();
        } else if (!store_->on() || random_.chance(0.2)) {
            heal();
        }
        check();
    }

    [[nodiscard]] std::uint64_t hits() const { return hits_; }
    [[nodiscard]] std::uint64_t drops() const { return drops_; }
    [[nodiscard]] std::uint64_t failures() const { return failures_; }

private:
    void open() {
        mirror_.clear();
        auto store = DiskStore::open(options_, kIdentity, kPageBytes, mirror_.watch());
        ASSERT_TRUE(store) << store.error().describe();
        store_ = std::move(*store);
    }

    void put(std::uint64_t n) {
        const bool held = mirror_.holds(test_block(n).hash);
        switch (testing::put(*store_, n)) {
            case DiskPut::kStored:
                EXPECT_FALSE(held);
                mirror_.add(test_block(n).hash);
                break;
            case DiskPut::kAlreadyStored:
                EXPECT_TRUE(held);
                break;
            case DiskPut::kFailed:
                EXPECT_TRUE(failing_);
                EXPECT_FALSE(store_->on());
                break;
            case DiskPut::kOff:
                EXPECT_FALSE(store_->on());
                break;
        }
    }

    void get(std::uint64_t n) {
        const bool held = mirror_.holds(test_block(n).hash);
        DiskRead read = testing::get(*store_, n);  // compares the payload of a hit
        if (read.outcome == DiskGet::kHit) ++hits_;
        EXPECT_TRUE(held || read.outcome != DiskGet::kHit);
        EXPECT_TRUE(!held || read.outcome != DiskGet::kAbsent);
        EXPECT_TRUE(damaged_ || read.outcome != DiskGet::kFault);
        EXPECT_TRUE(failing_ || read.outcome != DiskGet::kFailed);
    }

    void reopen() {
        note();
        if (random_.chance(0.5)) store_->close(kLong).ignore("the disk may be failing");
        store_.reset();
        open();
    }

    void fail() {
        failing_ = true;
        switch (random_.below(4)) {
            case 0:
                disk_.faults.read_error = true;
                break;
            case 1:
                disk_.faults.write_error = true;
                break;
            case 2:
                disk_.faults.read_only = true;
                break;
            default:
                disk_.faults.room_bytes = random_.between(0, 2'000'000);
        }
    }

    // A failure that nobody has met yet may have left its mark: closed and opened, it is over.
    void heal() {
        disk_.faults.heal();
        if (store_->on()) {
            store_->flush(kLong).ignore("an earlier failure may surface here");
        }
        for (int second = 0; second < 130 && !store_->on(); ++second) {
            clock_.advance(from_ms(1000));
            store_->retry(clock_);
        }
        EXPECT_TRUE(store_->on()) << store_->stats().off_reason;
        failing_ = false;
    }

    void flip_a_bit() {
        auto blobs = files_of(options_.path, ".blob");
        if (blobs.empty()) return;
        fs::path file = blobs[random_.below(blobs.size())];
        if (fs::file_size(file) == 0) return;
        std::uint64_t at = random_.below(fs::file_size(file));
        std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
        stream.seekg(static_cast<std::streamoff>(at));
        auto value = static_cast<char>(stream.get());
        stream.seekp(static_cast<std::streamoff>(at));
        stream.put(static_cast<char>(value ^ (1 << random_.below(8))));
        damaged_ = true;
    }

    void check() {
        ASSERT_LE(bytes_under(options_.path), options_.max_bytes);
        ASSERT_EQ(mirror_.size(), store_->stats().blocks);
        std::uint64_t n = random_.below(kBlocks);
        ASSERT_EQ(mirror_.holds(test_block(n).hash), store_->contains(test_block(n).hash));
    }

    void note() {
        drops_ += store_->stats().dropped_generations;
        failures_ += store_->stats().failures;
    }

    Random random_;
    FailingDisk disk_;
    TempDirectory directory_;
    DiskStoreOptions options_;
    Mirror mirror_;
    ManualClock clock_;
    std::unique_ptr<DiskStore> store_;
    bool failing_ = false;
    bool damaged_ = false;
    std::uint64_t hits_ = 0, drops_ = 0, failures_ = 0;
};

TEST(DiskStoreFuzz, AGetIsRightOrAMissAndTheCapHoldsWhateverHappens) {
    const std::uint64_t seed = fuzz_seed();
    std::uint64_t hits = 0, drops = 0, failures = 0;
    for (int round = 0; round < fuzz_rounds(4); ++round) {
        SCOPED_TRACE("TAPROOT_FUZZ_SEED=" + std::to_string(seed + static_cast<unsigned>(round)));
        Fuzz fuzz(seed + static_cast<unsigned>(round));
        for (int step = 0; step < 2000 && !::testing::Test::HasFailure(); ++step) fuzz.step();
        ASSERT_FALSE(::testing::Test::HasFailure());
        hits += fuzz.hits();
        drops += fuzz.drops();
        failures += fuzz.failures();
    }
    // It was a test: everything happened.
    EXPECT_GT(hits, 500u);
    EXPECT_GT(drops, 10u);
    EXPECT_GT(failures, 10u);
}

}  // namespace
}  // namespace taproot::testing
