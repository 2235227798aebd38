// SPDX-License-Identifier: Apache-2.0
#include "kernels/fork_join.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu_quota.h"

namespace taproot {
namespace {

TEST(ForkJoin, RunsEveryThreadIndexExactlyOnceAndSeesItsWritesAfterwards) {
    for (int threads : {1, 2, 3, 5}) {
        ForkJoin pool(threads);
        ASSERT_EQ(pool.threads(), threads);
        std::vector<int> calls(static_cast<std::size_t>(threads), 0);  // not atomic on purpose
        for (int round = 1; round <= 300; ++round) {
            pool.run([&](int thread) { ++calls[static_cast<std::size_t>(thread)]; });
            for (int count : calls) ASSERT_EQ(count, round);
        }
    }
}

TEST(ForkJoin, CallerIsThreadZero) {
    ForkJoin pool(3);
    const auto caller = std::this_thread::get_id();
    std::atomic<int> matches{0};
    pool.run([&](int thread) {
        if ((thread == 0) == (std::this_thread::get_id() == caller)) ++matches;
    });
    EXPECT_EQ(matches.load(), 3);
}

TEST(ForkJoin, WakesWorkersThatWentToSleep) {
    ForkJoin pool(2);
    std::atomic<int> total{0};
    for (int round = 0; round < 20; ++round) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than any spin
        pool.run([&](int) { ++total; });
    }
    EXPECT_EQ(total.load(), 40);
}

TEST(ForkJoin, CallerSleepsThroughAWorkersLongTask) {
    ForkJoin pool(2);
    int done = 0;
    for (int round = 0; round < 5; ++round) {
        pool.run([&](int thread) {
            if (thread == 0) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            ++done;
        });
        ASSERT_EQ(done, round + 1);
    }
}

TEST(ForkJoin, ManyEnginesOnFewCoresAllFinish) {
    constexpr int kEngines = 4;
    constexpr int kRounds = 300;
    std::vector<std::thread> engines;
    std::atomic<int> total{0};
    for (int engine = 0; engine < kEngines; ++engine) {
        engines.emplace_back([&] {
            ForkJoin pool(3);
            for (int round = 0; round < kRounds; ++round) {
                pool.run([&](int) { total.fetch_add(1, std::memory_order_relaxed); });
            }
        });
    }
    for (auto& engine : engines) engine.join();
    EXPECT_EQ(total.load(), kEngines * kRounds * 3);
}

TEST(ForkJoin, StartsAndStopsWithoutEverRunning) {
    for (int i = 0; i < 50; ++i) ForkJoin pool(4);
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
