// SPDX-License-Identifier: Apache-2.0
#include "worker/memory_plan.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/units.h"

namespace taproot {
namespace {

MemoryAsk small_ask() {
    MemoryAsk ask;
    ask.weight_bytes = 100_MiB;
    ask.kv_bytes = 10_MiB;
    ask.kv_bytes_per_block = 300_KiB;
    ask.scratch_bytes = 5_MiB;
    ask.model_context = 2'048;
    return ask;
}

TEST(MemoryPlan, CountsWholeBlocksAndNamesEveryPart) {
    auto plan = plan_memory(small_ask(), 1_GiB);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->kv_blocks, 34u);
    EXPECT_EQ(plan->kv_bytes, 34 * 300_KiB);
    EXPECT_EQ(plan->kv_tokens, 34u * 16);
    EXPECT_EQ(plan->model_len_max, 34u * 16);  // the pool is smaller than the model's context
    EXPECT_EQ(plan->total_bytes, 100_MiB + 34 * 300_KiB + 5_MiB);
    EXPECT_NE(plan->describe().find("KV 10 MiB (f16, 34 blocks = 544 tokens)"), std::string::npos)
        << plan->describe();
    MemoryAsk ask = small_ask();
    ask.kv_dtype = "int8";
    EXPECT_NE(plan_memory(ask, 1_GiB)->describe().find("(int8, "), std::string::npos);
}

TEST(MemoryPlan, RefusesWithTheNumbersWhenMemoryIsShort) {
    auto plan = plan_memory(small_ask(), 110_MiB);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(plan.error().where, "kv_bytes");
    EXPECT_NE(plan.error().message.find("110 MiB are available"), std::string::npos);
    EXPECT_NE(plan.error().message.find("weights 100 MiB"), std::string::npos);
}

TEST(MemoryPlan, TheRamTierIsPartOfItAndIsNamedWhereItDoesNotFit) {
    MemoryAsk ask = small_ask();
    ask.kv_ram_bytes = 50_MiB;
    auto plan = plan_memory(ask, 1_GiB);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->kv_ram_blocks, 170u);  // 300 KiB each, and their index
    EXPECT_EQ(plan->total_bytes, 100_MiB + 34 * 300_KiB + 5_MiB + 50_MiB);
    EXPECT_NE(plan->describe().find("+ RAM tier 50 MiB (170 blocks) +"), std::string::npos)
        << plan->describe();
    auto refused = plan_memory(ask, 150_MiB);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("Lower kv_bytes or kv_ram_bytes"), std::string::npos);
    ask.kv_ram_bytes = 1;
    EXPECT_EQ(plan_memory(ask, 1_GiB).error().where, "kv_ram_bytes");
}

TEST(MemoryPlan, WeightsThatAnotherWorkerHoldsCostNothing) {
    MemoryAsk ask = small_ask();
    ask.weights_are_there = true;
    auto plan = plan_memory(ask, 20_MiB);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->total_bytes, 34 * 300_KiB + 5_MiB);
    EXPECT_NE(plan->describe().find("weights 100 MiB (shared, there already)"), std::string::npos);
    EXPECT_FALSE(plan_memory(ask, 10_MiB));
}

TEST(MemoryPlan, RefusesAModelLengthThatModelOrPoolCannotHold) {
    MemoryAsk ask = small_ask();
    ask.model_len_asked = 4'096;
    EXPECT_NE(plan_memory(ask, 1_GiB).error().message.find("context is 2048"), std::string::npos);
    ask.model_len_asked = 1'000;
    auto plan = plan_memory(ask, 1_GiB);
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().where, "model.max_model_len");
    EXPECT_NE(plan.error().message.find("holds 544"), std::string::npos);
    ask.model_len_asked = 500;
    EXPECT_EQ(plan_memory(ask, 1_GiB)->model_len_max, 500u);
}

TEST(MemoryPlan, RefusesABudgetBelowOneBlock) {
    MemoryAsk ask = small_ask();
    ask.kv_bytes = 1;
    EXPECT_EQ(plan_memory(ask, 1_GiB).error().where, "kv_bytes");
}

// A made-up /proc and /sys.
class FakeRoot : public ::testing::Test {
protected:
    void SetUp() override {
        root_ = std::filesystem::temp_directory_path() /
                ("taproot_memory_plan_" + std::to_string(::getpid()));
        std::filesystem::remove_all(root_);
    }
    void TearDown() override { std::filesystem::remove_all(root_); }
    void write(const std::string& path, const std::string& text) {
        std::filesystem::create_directories((root_ / path).parent_path());
        std::ofstream(root_ / path) << text;
    }
    std::filesystem::path root_;
};

TEST_F(FakeRoot, TakesMemAvailableWithoutCgroups) {
    write("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable:     512 kB\n");
    EXPECT_EQ(available_memory(root_), 512u * 1024);
}

TEST_F(FakeRoot, TakesTheTightestCgroupOfThePath) {
    write("proc/meminfo", "MemAvailable: 1048576 kB\n");
    write("proc/self/cgroup", "0::/a/b\n");
    write("sys/fs/cgroup/a/b/memory.max", "max\n");
    write("sys/fs/cgroup/a/b/memory.current", "1000\n");
    write("sys/fs/cgroup/a/memory.max", "100000\n");
    write("sys/fs/cgroup/a/memory.current", "60000\n");
    write("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 10000\n");
    EXPECT_EQ(available_memory(root_), 50'000u);
}

TEST_F(FakeRoot, ReadsVersionOneCgroups) {
    write("proc/meminfo", "MemAvailable: 1048576 kB\n");
    write("proc/self/cgroup", "5:cpu:/x\n4:memory:/x\n");
    write("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "5000\n");
    write("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "1000\n");
    EXPECT_EQ(available_memory(root_), 4'000u);
}

TEST_F(FakeRoot, UnknownIsUnlimited) {
    EXPECT_EQ(available_memory(root_), ~std::uint64_t{0});
}

TEST(MemoryPlan, ThisMachineHasSomeMemory) {
    EXPECT_GT(available_memory(), 1_MiB);
}

}  // namespace
}  // namespace taproot
