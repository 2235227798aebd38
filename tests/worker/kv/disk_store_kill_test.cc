// SPDX-License-Identifier: Apache-2.0
// A process that writes is killed at a random moment (SIGKILL), again and again in one directory.
// What it had flushed is there, everything is right, and the cap holds.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/support/fuzz_seed.h"
#include "tests/worker/kv/disk_store_harness.h"

extern char** environ;

namespace taproot::testing {
namespace {

// A disk_store_writer; `from` gives what it reports.
struct Writer {
    pid_t pid = -1;
    int from = -1;

    Writer(const fs::path& path, std::uint64_t first) {
        int ends[2];
        if (::pipe(ends) != 0) std::abort();
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_addclose(&actions, ends[0]);
        posix_spawn_file_actions_addclose(&actions, ends[1]);
        std::string program = TAPROOT_DISK_STORE_WRITER, place = path,
                    number = std::to_string(first);
        char* arguments[] = {program.data(), place.data(), number.data(), nullptr};
        if (::posix_spawn(&pid, program.c_str(), &actions, nullptr, arguments, environ) != 0)
            std::abort();
        posix_spawn_file_actions_destroy(&actions);
        ::close(ends[1]);
        from = ends[0];
    }
    ~Writer() {
        kill();
        ::close(from);
    }
    [[nodiscard]] bool next(std::uint64_t& flushed) const {
        return ::read(from, &flushed, sizeof flushed) == sizeof flushed;
    }
    void kill() {
        if (pid < 0) return;
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        pid = -1;
    }
};

TEST(DiskStoreKill, AfterSigkillAtAnyMomentWhatWasFlushedIsThere) {
    const std::uint64_t seed = fuzz_seed();
    SCOPED_TRACE("TAPROOT_FUZZ_SEED=" + std::to_string(seed));
    Random random(seed);
    TempDirectory directory;
    DiskStoreOptions options;
    options.path = directory.path() / "kv";
    options.max_bytes = 16_MiB;
    std::uint64_t next = 0;
    for (int round = 0; round < fuzz_rounds(5); ++round) {
        // Killed while it opens, or after some reports and a little work more.
        const std::uint64_t reports = random.below(60);
        std::uint64_t flushed = 0, reported = 0;
        {
            Writer writer(options.path, next);
            while (reported < reports) {
                ASSERT_TRUE(writer.next(flushed));
                ++reported;
            }
            volatile std::uint64_t spin = random.below(3'000'000);
            while (spin > 0) spin = spin - 1;
            writer.kill();
            while (writer.next(flushed)) ++reported;  // said before it died
        }
        auto store = DiskStore::open(options, kIdentity, kPageBytes);
        ASSERT_TRUE(store) << store.error().describe();
        ASSERT_TRUE((*store)->on());
        EXPECT_EQ((*store)->stats().wiped, 0u);
        EXPECT_LE(bytes_under(options.path), options.max_bytes);
        std::uint64_t hits = 0;
        for (std::uint64_t n = 0; n < flushed + 20; ++n) {
            DiskRead read = get(**store, n);  // compares the payload of a hit
            EXPECT_NE(read.outcome, DiskGet::kFault) << n;
            if (read.outcome == DiskGet::kHit) ++hits;
            // The cap holds more than 100 blocks; what is older may have been dropped.
            bool must_be_there = reported > 0 && n <= flushed && n + 100 > flushed && n >= next;
            EXPECT_TRUE(!must_be_there || read.outcome == DiskGet::kHit) << n << " of " << flushed;
        }
        EXPECT_EQ(hits, (*store)->stats().blocks);
        if (reported > 0) next = flushed + 1;
    }
    EXPECT_GT(next, 100u);
}

}  // namespace
}  // namespace taproot::testing
