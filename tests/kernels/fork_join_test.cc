// SPDX-License-Identifier: Apache-2.0
#include "kernels/fork_join.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "kernels/cpu_quota.h"
#include "kernels/work_ranges.h"
#include "tests/support/fuzz_seed.h"

namespace taproot {
namespace {

using testing::fuzz_rounds;
using testing::fuzz_seed;

// A region in which everybody takes part: thread 0 stays until all have come.
void share_with_all(ForkJoin& pool, const std::function<void(int)>& task) {
    std::atomic<int> missing{pool.threads()};
    pool.share([&](int thread) {
        task(thread);
        missing.fetch_sub(1);
        while (thread == 0 && missing.load() > 0) std::this_thread::yield();
    });
}

TEST(ForkJoin, CallsEveryThreadOnceAndSeesItsWritesAfterwards) {
    for (int threads : {1, 2, 3, 5}) {
        ForkJoin pool(threads);
        ASSERT_EQ(pool.threads(), threads);
        std::vector<int> calls(static_cast<std::size_t>(threads), 0);  // not atomic on purpose
        for (int round = 1; round <= 300; ++round) {
            share_with_all(pool, [&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
            for (int count : calls) ASSERT_EQ(count, round);
        }
    }
}

TEST(ForkJoin, CallerIsThreadZero) {
    ForkJoin pool(3);
    const auto caller = std::this_thread::get_id();
    std::atomic<int> matches{0};
    share_with_all(pool, [&](int thread) {
        if ((thread == 0) == (std::this_thread::get_id() == caller)) ++matches;
    });
    EXPECT_EQ(matches.load(), 3);
}

TEST(ForkJoin, NobodyEntersAfterTheCallerIsDone) {
    ForkJoin pool(4);
    for (int round = 0; round < 2000; ++round) {
        std::atomic<int> inside{0};
        std::atomic<bool> returned{false};
        pool.share([&](int) {
            inside.fetch_add(1);
            EXPECT_FALSE(returned.load());
            inside.fetch_sub(1);
        });
        returned.store(true);
        ASSERT_EQ(inside.load(), 0);
    }
}

// On one core nobody else runs while the caller does: it must not hand the core over and wait in
// every region.
TEST(ForkJoin, DoesNotWaitForThreadsThatDoNotStart) {
    constexpr int kRounds = 3000;
    std::atomic<int> items{0};
    std::atomic<int> helped{0};
    std::thread([&] {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);  // the workers inherit it
        ForkJoin pool(2);
        for (int round = 0; round < kRounds; ++round) {
            WorkRanges ranges(7, pool.threads(), 1);
            pool.share([&](int thread) {
                if (thread != 0) ++helped;
                ranges.work(thread, [&](int) { ++items; });
            });
        }
    }).join();
    EXPECT_EQ(items.load(), 7 * kRounds);
    EXPECT_LT(helped.load(), kRounds);
}

TEST(ForkJoin, WakesWorkersThatWentToSleep) {
    ForkJoin pool(2);
    std::atomic<int> total{0};
    for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than any spin
        share_with_all(pool, [&](int) { ++total; });
    }
    EXPECT_EQ(total.load(), 40);
}

TEST(ForkJoin, CallerSleepsThroughAWorkersLongTask) {
    ForkJoin pool(2);
    int done = 0;
    for (int round = 0; round < 5; ++round) {
        std::atomic<bool> entered{false};
        pool.share([&](int thread) {
            if (thread == 0) {
                while (!entered.load()) std::this_thread::yield();
                return;
            }
            entered.store(true);
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            ++done;
        });
        ASSERT_EQ(done, round + 1);
    }
}

// Where threads are held up: nowhere, inside items, before they look for work, between regions.
class Disturbance {
public:
    explicit Disturbance(std::uint64_t seed) : random_(seed) {}
    void maybe() {
        if (random_.chance(0.9)) return;
        if (random_.chance(0.7)) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(random_.below(150)));
        }
    }

private:
    Random random_;
};

// The whole contract under a hostile system: every item exactly once, its writes visible, nobody in
// a task that has ended. Plain ints and objects of the stack, so that a sanitizer sees a breach.
void run_disturbed_engine(std::uint64_t seed, int threads, int rounds) {
    ForkJoin pool(threads);
    Random random(seed);
    std::vector<Disturbance> disturbances;
    for (int i = 0; i < threads; ++i) {
        disturbances.emplace_back(seed * 64 + static_cast<std::uint64_t>(i));
    }
    for (int round = 0; round < rounds; ++round) {
        const auto items = static_cast<int>(random.below(20));
        std::vector<int> calls(static_cast<std::size_t>(items), 0);
        std::vector<int> visits(static_cast<std::size_t>(threads), 0);
        WorkRanges ranges(items, threads, static_cast<int>(1 + random.below(3)));
        pool.share([&](int thread) {
            Disturbance& disturbance = disturbances[static_cast<std::size_t>(thread)];
            disturbance.maybe();
            ranges.work(thread, [&](int item) {
                disturbance.maybe();
                ++calls[static_cast<std::size_t>(item)];
            });
            ++visits[static_cast<std::size_t>(thread)];
            disturbance.maybe();
        });
        for (int count : calls) ASSERT_EQ(count, 1);
        ASSERT_EQ(visits[0], 1);
        for (int count : visits) ASSERT_LE(count, 1);
        // Longer than the spin at times, so that every side also sleeps.
        if (random.chance(0.05)) std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
}

TEST(ForkJoin, EveryItemRunsOnceUnderDisturbance) {
    const std::uint64_t seed = fuzz_seed();
    for (int threads : {2, 3, 8}) run_disturbed_engine(seed, threads, fuzz_rounds(300));
}

TEST(ForkJoin, ManyEnginesOnFewCoresAllFinish) {
    const std::uint64_t seed = fuzz_seed();
    std::vector<std::thread> engines;
    for (std::uint64_t engine = 0; engine < 4; ++engine) {
        engines.emplace_back([=] { run_disturbed_engine(seed + engine, 3, fuzz_rounds(300)); });
    }
    for (auto& engine : engines) engine.join();
}

TEST(ForkJoin, AnEngineInsideATaskOfAnother) {
    ForkJoin outer(3);
    for (std::uint64_t round = 0; round < 20; ++round) {
        share_with_all(outer, [&](int thread) {
            run_disturbed_engine(round * 8 + static_cast<std::uint64_t>(thread), 2, 20);
        });
    }
}

TEST(ForkJoin, StartsAndStopsAtAnyMoment) {
    for (int i = 0; i < 50; ++i) ForkJoin pool(4);
    for (int i = 0; i < 200; ++i) {
        ForkJoin pool(4);
        for (int round = 0; round < i % 4; ++round) pool.share([](int) {});
    }
}

TEST(SplitRange, CoversEverythingInOrderWithSizesThatDifferByAtMostOne) {
    for (int count : {0, 1, 2, 7, 16, 100}) {
        for (int threads : {1, 2, 3, 8}) {
            int next = 0;
            for (int i = 0; i < threads; ++i) {
                Range part = split_range(count, threads, i);
                EXPECT_EQ(part.begin, next);
                EXPECT_GE(part.end - part.begin, count / threads);
                EXPECT_LE(part.end - part.begin, count / threads + 1);
                next = part.end;
            }
            EXPECT_EQ(next, count);
        }
    }
}

class CpuQuota : public ::testing::Test {
protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "quota-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }
    void write(const std::string& path, const std::string& text) const {
        std::filesystem::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    std::filesystem::path root_;
};

TEST_F(CpuQuota, IsAbsentWhenNothingLimits) {
    EXPECT_FALSE(cgroup_cpu_quota(root_));
    write("proc/self/cgroup", "0::/\n");
    EXPECT_FALSE(cgroup_cpu_quota(root_));
    write("sys/fs/cgroup/cpu.max", "max 100000\n");
    EXPECT_FALSE(cgroup_cpu_quota(root_));
}

TEST_F(CpuQuota, ReadsVersionTwoAndTakesTheSmallestAncestor) {
    write("proc/self/cgroup", "0::/pods/pod1/worker\n");
    write("sys/fs/cgroup/pods/pod1/worker/cpu.max", "max 100000\n");
    write("sys/fs/cgroup/pods/pod1/cpu.max", "765000 100000\n");
    write("sys/fs/cgroup/pods/cpu.max", "1600000 100000\n");
    ASSERT_TRUE(cgroup_cpu_quota(root_));
    EXPECT_DOUBLE_EQ(*cgroup_cpu_quota(root_), 7.65);
}

TEST_F(CpuQuota, FallsBackToTheMountWhenTheGroupPathIsTheHosts) {
    write("proc/self/cgroup", "0::/system.slice/docker-1234.scope\n");
    write("sys/fs/cgroup/cpu.max", "150000 100000\n");
    ASSERT_TRUE(cgroup_cpu_quota(root_));
    EXPECT_DOUBLE_EQ(*cgroup_cpu_quota(root_), 1.5);
}

TEST_F(CpuQuota, ReadsVersionOneOfTheCpuControllerOnly) {
    write("proc/self/cgroup", "5:cpuset:/a\n4:cpu,cpuacct:/box\n3:memory:/c\n");
    write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "400000\n");
    write("sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
    write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    ASSERT_TRUE(cgroup_cpu_quota(root_));
    EXPECT_DOUBLE_EQ(*cgroup_cpu_quota(root_), 4.0);
}

TEST_F(CpuQuota, IgnoresBrokenFiles) {
    write("proc/self/cgroup", "nonsense\n0::/x\n");
    write("sys/fs/cgroup/x/cpu.max", "abc 100000\n");
    write("sys/fs/cgroup/cpu.max", "200000 0\n");
    EXPECT_FALSE(cgroup_cpu_quota(root_));
}

TEST(ThreadCount, RoundsTheQuotaDownButNeverBelowOne) {
    EXPECT_EQ(thread_count_for(16, std::nullopt), 16);
    EXPECT_EQ(thread_count_for(16, 7.65), 7);
    EXPECT_EQ(thread_count_for(4, 8.0), 4);
    EXPECT_EQ(thread_count_for(4, 2.0), 2);
    EXPECT_EQ(thread_count_for(4, 0.5), 1);
    EXPECT_GE(default_thread_count(), 1);
}

}  // namespace
}  // namespace taproot
