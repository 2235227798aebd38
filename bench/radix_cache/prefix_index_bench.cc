// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include <string>

#include "base/random.h"
#include "policies/route/policy.h"
#include "radix_cache/prefix_index.h"

namespace taproot {
namespace {

// `chains` conversations of 64 blocks; each on one of `workers`, every fourth on a second one.
struct Filled {
    Filled(std::size_t count, std::uint32_t workers)
        : index(clock, {.bytes_max = 1ull << 30}), seq(workers, 0) {
        Random random(1);
        for (std::size_t c = 0; c < count; ++c) {
            std::vector<BlockHash> chain;
            for (int i = 0; i < 64; ++i) chain.push_back(BlockHash{random.next()});
            const auto worker = static_cast<std::uint32_t>(c % workers);
            store(worker, chain);
            if (c % 4 == 0) store((worker + 1) % workers, chain);
            chains.push_back(std::move(chain));
        }
    }
    void store(std::uint32_t worker, std::span<const BlockHash> chain) {
        std::vector<KvEvent> events;
        for (const BlockHash hash : chain) events.push_back(KvStored{hash, BlockHash{}});
        index.apply(WorkerId{worker}, 1, seq[worker], events);
        seq[worker] += events.size();
    }
    RealClock clock;
    PrefixIndex index;
    std::vector<std::uint64_t> seq;
    std::vector<std::vector<BlockHash>> chains;
};

// Arguments: blocks asked for, conversations known, workers.
void BM_lookup(benchmark::State& state) {
    const auto blocks = static_cast<std::size_t>(state.range(0));
    Filled filled(static_cast<std::size_t>(state.range(1)),
                  static_cast<std::uint32_t>(state.range(2)));
    std::vector<WorkerMatch> out;
    std::size_t i = 0;
    for (auto _ : state) {
        i = (i + 7919) % filled.chains.size();
        filled.index.lookup(std::span(filled.chains[i]).first(blocks), out);
        benchmark::DoNotOptimize(out.data());
    }
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(blocks));
    state.counters["bytes_per_block"] = filled.index.stats().bytes_per_block;
}
BENCHMARK(BM_lookup)
    ->Args({8, 100, 2})
    ->Args({8, 16'000, 2})
    ->Args({8, 16'000, 64})
    ->Args({64, 100, 2})
    ->Args({64, 16'000, 2})
    ->Args({64, 16'000, 256});

void BM_apply_stored_and_removed(benchmark::State& state) {
    Filled filled(4'000, 4);
    std::vector<KvEvent> events;
    for (std::uint64_t i = 0; i < 64; ++i) events.push_back(KvStored{BlockHash{i + 1}, {}});
    for (std::uint64_t i = 0; i < 64; ++i) events.push_back(KvRemoved{BlockHash{i + 1}});
    for (auto _ : state) {
        filled.index.apply(WorkerId{0}, 1, filled.seq[0], events);
        filled.seq[0] += events.size();
    }
    state.SetItemsProcessed(state.iterations() * 128);
}
BENCHMARK(BM_apply_stored_and_removed);

void BM_reserve_and_release_16_of_64(benchmark::State& state) {
    Filled filled(4'000, 4);
    std::vector<BlockHash> chain = filled.chains[0];
    for (std::uint64_t i = 48; i < 64; ++i) chain[i] = BlockHash{i + 1};
    for (auto _ : state) {
        const auto id =
            filled.index.reserve(WorkerId{0}, chain, filled.clock.now() + std::chrono::seconds(10));
        filled.index.release(id);
    }
    state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(BM_reserve_and_release_16_of_64);

void BM_drop_worker_of_a_million_blocks(benchmark::State& state) {
    for (auto _ : state) {
        state.PauseTiming();
        Filled filled(16'000, 4);
        state.ResumeTiming();
        filled.index.drop_worker(WorkerId{1});
    }
}
BENCHMARK(BM_drop_worker_of_a_million_blocks)->Iterations(1)->Unit(benchmark::kMillisecond);

void BM_route_cost(benchmark::State& state) {
    std::vector<WorkerView> workers(static_cast<std::size_t>(state.range(0)));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < workers.size(); ++i) names.push_back("w" + std::to_string(i));
    for (std::size_t i = 0; i < workers.size(); ++i) {
        workers[i].id = WorkerId{static_cast<std::uint32_t>(i)};
        workers[i].name = names[i];
        workers[i].running = static_cast<std::uint32_t>(i % 5);
        workers[i].prefill_ms_per_token = 0.5;
    }
    const WorkerMatch match{.worker = WorkerId{1}, .blocks = 50, .device_blocks = 50};
    for (auto _ : state) {
        auto decision = route_cost({.prompt_tokens = 900, .matches = {&match, 1}}, workers);
        benchmark::DoNotOptimize(decision);
    }
}
BENCHMARK(BM_route_cost)->Arg(2)->Arg(16)->Arg(64)->Arg(500);

}  // namespace
}  // namespace taproot
