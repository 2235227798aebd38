// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/worker_metrics.h"

#include <gtest/gtest.h>

#include "tests/gateway/fleet/fleet_fixture.h"

namespace taproot::gateway {
namespace {

// The value of a series in the text format; -1 when absent.
double value_of(const Metrics& metrics, const std::string& series) {
    std::string text = "\n" + metrics.render();
    std::size_t at = text.find("\n" + series + " ");
    return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size() + 2));
}

TEST(WorkerMetrics, LoadBecomesOurNamesAndTheNamesOfVllm) {
    Metrics metrics;
    WorkerMetrics worker(metrics, "w0", "m");
    worker.on_ready(1);
    link::Load load;
    load.running = 3;
    load.waiting = 2;
    load.preempted = 1;
    load.blocks_total = 200;
    load.blocks_active = 50;
    load.prompt_tokens_total = 1'000;
    load.cached_tokens_total = 900;
    load.generation_tokens_total = 70;
    load.preemptions_total = 4;
    worker.on_load(load);
    const std::string vllm = R"({engine="w0",model_name="m"})";
    EXPECT_EQ(value_of(metrics, "vllm:num_requests_running" + vllm), 3);
    EXPECT_EQ(value_of(metrics, "vllm:num_requests_waiting" + vllm), 3);
    EXPECT_EQ(value_of(metrics, "vllm:kv_cache_usage_perc" + vllm), 0.25);
    EXPECT_EQ(value_of(metrics, "vllm:prefix_cache_queries_total" + vllm), 1'000);
    EXPECT_EQ(value_of(metrics, "vllm:prefix_cache_hits_total" + vllm), 900);
    EXPECT_EQ(value_of(metrics, "vllm:prompt_tokens_total" + vllm), 1'000);
    EXPECT_EQ(value_of(metrics, "vllm:generation_tokens_total" + vllm), 70);
    EXPECT_EQ(value_of(metrics, "vllm:num_preemptions_total" + vllm), 4);
    const std::string ours = R"({model="m",worker="w0"})";
    EXPECT_EQ(value_of(metrics, "taproot_worker_up" + ours), 1);
    EXPECT_EQ(value_of(metrics, "taproot_worker_kv_blocks" + ours), 200);
}

TEST(WorkerMetrics, CountersAddDifferencesAndSurviveARestart) {
    Metrics metrics;
    link::Load load;
    {
        WorkerMetrics worker(metrics, "w0", "m");
        worker.on_ready(1);
        load.generation_tokens_total = 10;
        worker.on_load(load);
        load.generation_tokens_total = 25;
        worker.on_load(load);
        worker.on_lost(2);
    }
    const std::string ours = R"({model="m",worker="w0"})";
    EXPECT_EQ(value_of(metrics, "taproot_worker_generation_tokens_total" + ours), 25);
    EXPECT_EQ(value_of(metrics, "taproot_worker_up" + ours), 0);
    EXPECT_EQ(value_of(metrics, "taproot_worker_lost_requests_total" + ours), 2);
    WorkerMetrics again(metrics, "w0", "m");
    again.on_ready(2);
    load.generation_tokens_total = 5;
    again.on_load(load);
    EXPECT_EQ(value_of(metrics, "taproot_worker_generation_tokens_total" + ours), 30);
}

TEST(WorkerMetrics, TheRamTierIsCountedInBytesAndMissesByCause) {
    Metrics metrics;
    WorkerMetrics worker(metrics, "w0", "m");
    worker.on_ready(1);
    link::Load load;
    load.block_bytes = 1'000;
    load.ram_blocks_total = 50;
    load.ram_blocks_used = 20;
    load.ram_restore_ms_per_block = 0.25;
    load.ram_stored_blocks_total = 30;
    load.ram_restored_blocks_total = 4;
    load.ram_dropped_blocks_total = 6;
    load.ram_refused_blocks_total = 1;
    load.ram_corrupt_blocks_total = 2;
    load.ram_collisions_total = 3;
    worker.on_load(load);
    const std::string ours = R"({model="m",worker="w0"})";
    EXPECT_EQ(value_of(metrics, "taproot_kv_ram_bytes" + ours), 50'000);
    EXPECT_EQ(value_of(metrics, "taproot_kv_ram_used_bytes" + ours), 20'000);
    EXPECT_EQ(value_of(metrics, "taproot_kv_ram_restore_seconds_per_block" + ours), 0.25e-3);
    EXPECT_EQ(value_of(metrics, "taproot_kv_ram_stored_bytes_total" + ours), 30'000);
    EXPECT_EQ(value_of(metrics, "taproot_kv_ram_restored_bytes_total" + ours), 4'000);
    EXPECT_EQ(value_of(metrics, "taproot_kv_ram_dropped_bytes_total" + ours), 6'000);
    EXPECT_EQ(value_of(metrics, "taproot_kv_ram_refused_bytes_total" + ours), 1'000);
    const std::string misses = "taproot_kv_ram_misses_total";
    EXPECT_EQ(value_of(metrics, misses + R"({cause="checksum",model="m",worker="w0"})"), 2);
    EXPECT_EQ(value_of(metrics, misses + R"({cause="other_tokens",model="m",worker="w0"})"), 3);
}

TEST_F(FleetTest, ExpectedMinusRealTokensIsAMetricPerWorker) {
    taproot::testing::FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 10));
    ASSERT_TRUE(settle(worker, 0));
    RecordingSink sink;
    ASSERT_TRUE(submit(sink, 165, chain(1, 10)));
    ASSERT_TRUE(until([&] { return worker.generates.size() == 1; }));
    worker.send_started(worker.generates[0], 164);
    ASSERT_TRUE(until([&] { return sink.heard("started"); }));
    const std::string ours = R"({model="m",worker="w0"})";
    EXPECT_EQ(value_of(metrics_, "taproot_route_requests_total" + ours), 1);
    EXPECT_EQ(value_of(metrics_, "taproot_route_expected_cached_tokens_total" + ours), 160);
    EXPECT_EQ(value_of(metrics_, "taproot_route_real_cached_tokens_total" + ours), 164);
    EXPECT_EQ(value_of(metrics_, "taproot_route_expected_minus_real_tokens_sum" + ours), -4);
    EXPECT_EQ(value_of(metrics_, "taproot_fleet_requests_in_flight"), 1);
}

// A worker that comes back in the same epoch goes on counting from where it was.
TEST_F(FleetTest, TotalsAreNotCountedTwiceAfterANetworkFault) {
    taproot::testing::FakeWorker& worker = add_worker();
    start_and_wait();
    link::Load load;
    load.blocks_total = 10;
    load.steps_total = 100;
    worker.send(load);
    ASSERT_TRUE(settle(worker, 0));
    const std::string steps = R"(taproot_worker_steps_total{model="m",worker="w0"})";
    // settle() itself sent a Load with no steps: the total went back, which counts as a restart.
    EXPECT_EQ(value_of(metrics_, steps), 100);
    worker.send(load);
    ASSERT_TRUE(until([&] { return value_of(metrics_, steps) == 200; }));
    worker.drop_connections();
    ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    load.steps_total = 150;
    worker.send(load);
    ASSERT_TRUE(until([&] { return value_of(metrics_, steps) == 250; }));
}

}  // namespace
}  // namespace taproot::gateway
