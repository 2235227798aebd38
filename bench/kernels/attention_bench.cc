// SPDX-License-Identifier: Apache-2.0
// Attention of one layer of SmolLM2-135M (9 query heads, 3 kv heads, head_dim 64, pages in shuffled
// order, by KV type: 0 f16, 1 f32, 2 bf16, 3 int8), against the roofs of the machine. Other load
// disturbs wall time, so rates of one thread count its CPU time, and the fastest round is reported.
//   attention_bench [--benchmark_filter=Prefill]
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/dispatch.h"
#include "kernels/elementwise.h"
#include "kernels/ops.h"
#include "kernels/roofs.h"

namespace taproot {
namespace {

constexpr int kHeads = 9;
constexpr int kKvHeads = 3;
constexpr int kDim = 64;
constexpr int kLayers = 30;

const Roofs& roofs() {
    static const Roofs kRoofs =
        measure_roofs({.isa = available_isas().back(), .threads = 1, .seconds = 1.0}).value();
    return kRoofs;
}

double seconds_now(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The fastest of the benchmark's iterations: CPU time of this thread, or wall time with a pool.
template <typename Body>
double fastest_seconds(benchmark::State& state, int threads, Body&& body) {
    const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    double fastest = 1e30;
    for (auto _ : state) {
        const double begin = seconds_now(clock);
        body();
        fastest = std::min(fastest, seconds_now(clock) - begin);
    }
    return fastest;
}

// Small numbers of both signs in every element, whatever the type.
void fill_pages(const KvGeometry& geometry, AlignedBuffer& memory) {
    const bool int8 = geometry.dtype == KvDType::kInt8;
    const bool f32 = geometry.dtype == KvDType::kF32;
    const std::uint32_t small = f32                               ? 0x3e000000u
                                : geometry.dtype == KvDType::kF16 ? 0x3000u
                                                                  : 0x3e00u;
    const std::size_t count = memory.bytes() / static_cast<std::size_t>(geometry.element_bytes());
    for (std::size_t i = 0; i < count; ++i) {
        const auto random = static_cast<std::uint32_t>(i * 0x9E3779B97F4A7C15ull >> 40);
        if (int8) memory.as<std::int8_t>()[i] = static_cast<std::int8_t>(random % 255 - 127);
        if (f32) memory.as<std::uint32_t>()[i] = small + (random & 0x7fffffu);
        if (!int8 && !f32) {
            memory.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(small + (random & 0x80ffu));
        }
    }
    if (!int8) return;
    const auto plane = static_cast<std::size_t>(geometry.plane_bytes());
    for (std::size_t at = plane; at <= memory.bytes(); at += plane) {
        auto* scales = reinterpret_cast<float*>(memory.data() + at) - kBlockTokens;
        std::fill_n(scales, kBlockTokens, 0.001f);
    }
}

// `streams` sequences of `tokens` tokens, the first `shared` of which lie in common blocks.
struct Pool {
    Pool(int streams, int tokens, int shared, KvDType dtype)
        : geometry{kLayers, kKvHeads, kDim, dtype} {
        const int per_stream = (tokens + kBlockTokens - 1) / kBlockTokens;
        const int common = shared / kBlockTokens;
        const int blocks = common + streams * (per_stream - common);
        memory = AlignedBuffer(static_cast<std::size_t>(geometry.block_bytes()) * blocks);
        fill_pages(geometry, memory);
        Random random(1);
        std::vector<std::uint32_t> order(static_cast<std::size_t>(blocks));
        std::iota(order.begin(), order.end(), 0u);
        for (std::size_t i = order.size(); i > 1; --i) {
            std::swap(order[i - 1], order[static_cast<std::size_t>(random.below(i))]);
        }
        std::size_t used = static_cast<std::size_t>(common);
        tables.resize(static_cast<std::size_t>(streams));
        for (auto& table : tables) {
            for (int b = 0; b < per_stream; ++b) {
                const auto at = b < common ? static_cast<std::size_t>(b) : used++;
                table.push_back(BlockId{order[at]});
            }
        }
    }
    KvView view() { return {memory.data(), geometry}; }

    KvGeometry geometry;
    AlignedBuffer memory;
    std::vector<std::vector<BlockId>> tables;
};

struct Matrix {
    Matrix(int rows, int columns)
        : buffer(static_cast<std::size_t>(rows) * columns * sizeof(float)),
          rows_(rows),
          columns_(columns) {
        Random random(2);
        for (int i = 0; i < rows * columns; ++i) {
            buffer.as<float>()[i] = static_cast<float>(random.unit() - 0.5);
        }
    }
    Rows view() { return {buffer.as<float>(), columns_, rows_, columns_}; }
    AlignedBuffer buffer;
    int rows_;
    int columns_;
};

// A chunk of 512 new tokens at the end of a context of range(0) tokens; range(1) threads, range(2)
// the KV type.
void prefill(benchmark::State& state) {
    const int context_tokens = static_cast<int>(state.range(0));
    const int threads = static_cast<int>(state.range(1));
    const int count = 512;
    Pool pages(1, context_tokens, 0, static_cast<KvDType>(state.range(2)));
    Matrix q(count, kHeads * kDim);
    Matrix out(count, kHeads * kDim);
    ForkJoin pool(threads);
    KernelContext context{ops_for(*choose_isa()), pool};
    const AttentionSequence sequence = {0, count, context_tokens - count, pages.tables[0]};
    int layer = 0;
    const double seconds = fastest_seconds(state, threads, [&] {
        attention(context, pages.view(), layer, kHeads, 0.125f, q.view(), out.view(),
                  {&sequence, 1});
        layer = (layer + 1) % kLayers;
    });
    const double seen =
        static_cast<double>(count) * (context_tokens - count) + 0.5 * count * (count + 1);
    const double flop = 4.0 * seen * kDim * kHeads;
    state.counters["us"] = seconds * 1e6;
    state.counters["GFLOP/s"] = flop / seconds * 1e-9;
    state.counters["of_roof_%"] = 100 * flop / seconds / roofs().fp32_flop_per_s / threads;
}
BENCHMARK(prefill)
    ->ArgsProduct({{512, 2048, 8000}, {1, 2}, {0}})
    ->ArgsProduct({{512, 2048}, {1}, {1, 2, 3}})
    ->MinTime(0.3);

// One new token of range(0) streams at depth range(1); range(2) of the tokens are shared; range(3)
// threads, range(4) the KV type.
void decode(benchmark::State& state) {
    const int streams = static_cast<int>(state.range(0));
    const int tokens = static_cast<int>(state.range(1));
    const int shared = static_cast<int>(state.range(2));
    const int threads = static_cast<int>(state.range(3));
    Pool pages(streams, tokens, shared, static_cast<KvDType>(state.range(4)));
    Matrix q(streams, kHeads * kDim);
    Matrix out(streams, kHeads * kDim);
    ForkJoin pool(threads);
    KernelContext context{ops_for(*choose_isa()), pool};
    std::vector<AttentionSequence> sequences;
    for (int i = 0; i < streams; ++i) {
        sequences.push_back({i, 1, tokens - 1, pages.tables[static_cast<std::size_t>(i)]});
    }
    // All layers, so that pages come from memory as they do in the model.
    const double seconds = fastest_seconds(state, threads, [&] {
        for (int layer = 0; layer < kLayers; ++layer) {
            attention(context, pages.view(), layer, kHeads, 0.125f, q.view(), out.view(),
                      sequences);
        }
    });
    const double distinct = shared + static_cast<double>(streams) * (tokens - shared);
    const double bytes =
        distinct * static_cast<double>(pages.geometry.block_bytes()) / kBlockTokens;
    const double flop = 4.0 * streams * tokens * kDim * kHeads * kLayers;
    state.counters["us"] = seconds * 1e6;
    state.counters["GB/s"] = bytes / seconds * 1e-9;
    state.counters["of_read_%"] = 100 * bytes / seconds / roofs().read_bytes_per_s[0];
    state.counters["of_fma_%"] = 100 * flop / seconds / roofs().fp32_flop_per_s / threads;
}
BENCHMARK(decode)
    ->Args({1, 100, 0, 1, 0})
    ->Args({1, 1024, 0, 1, 0})
    ->Args({1, 4096, 0, 1, 0})
    ->Args({1, 4096, 0, 2, 0})
    ->Args({16, 1100, 0, 1, 0})
    ->Args({16, 1100, 0, 2, 0})
    ->Args({16, 1100, 1024, 1, 0})
    ->Args({16, 1100, 1024, 2, 0})
    ->ArgsProduct({{1}, {4096}, {0}, {1, 2}, {1, 2, 3}})
    ->ArgsProduct({{16}, {1100}, {0, 1024}, {1}, {1, 2, 3}})
    ->MinTime(0.3);

void append(benchmark::State& state) {
    const int count = static_cast<int>(state.range(0));
    Pool pages(1, count, 0, static_cast<KvDType>(state.range(1)));
    Matrix k(count, kKvHeads * kDim);
    Matrix v(count, kKvHeads * kDim);
    ForkJoin pool(1);
    KernelContext context{ops_for(*choose_isa()), pool};
    const AttentionSequence sequence = {0, count, 0, pages.tables[0]};
    const double seconds = fastest_seconds(state, 1, [&] {
        kv_append(context, pages.view(), 0, k.view(), v.view(), {&sequence, 1});
    });
    state.counters["ns_per_token"] = seconds * 1e9 / count;
}
BENCHMARK(append)->ArgsProduct({{1, 15, 512}, {0, 1, 2, 3}})->MinTime(0.1);

void elementwise(benchmark::State& state) {
    const int rows = static_cast<int>(state.range(0));
    Matrix x(rows, 576);
    Matrix out(rows, 576);
    Matrix gate(rows, 2 * 1536);
    Matrix qkv(rows, 12 * kDim);
    std::vector<float> weight(576, 1.5f);
    const RopeTable table(kDim, 1e5, {}, {}, rows + 1);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
    std::iota(positions.begin(), positions.end(), 0);
    ForkJoin pool(1);
    KernelContext context{ops_for(*choose_isa()), pool};
    const Rows both = gate.view();
    const Rows left = {both.data, both.stride, rows, 1536};
    const Rows right = {both.data + 1536, both.stride, rows, 1536};
    Matrix product(rows, 1536);
    const int which = static_cast<int>(state.range(1));
    const double seconds = fastest_seconds(state, 1, [&] {
        for (int i = 0; i < 100; ++i) {
            if (which == 0) rmsnorm(context, x.view(), weight.data(), 1e-5f, out.view());
            if (which == 1) swiglu(context, left, right, product.view());
            if (which == 2) {
                rope(context, table, RopePairs::kInterleaved, qkv.view(), 12, kDim, positions);
            }
        }
    });
    state.SetLabel(which == 0 ? "rmsnorm 576" : which == 1 ? "swiglu 1536" : "rope 12 x 64");
    state.counters["ns_per_row"] = seconds * 1e9 / 100 / rows;
}
BENCHMARK(elementwise)->ArgsProduct({{1, 64}, {0, 1, 2}})->MinTime(0.05);

}  // namespace
}  // namespace taproot

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (!taproot::choose_isa()) return 1;
    const taproot::Roofs& roofs = taproot::roofs();
    std::printf("one thread: %.0f GFLOP/s fp32, %.0f Gop/s int8, %.1f GB/s read\n",
                roofs.fp32_flop_per_s * 1e-9, roofs.int8_ops_per_s * 1e-9,
                roofs.read_bytes_per_s[0] * 1e-9);
    benchmark::RunSpecifiedBenchmarks();
}
