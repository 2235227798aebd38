// SPDX-License-Identifier: Apache-2.0
// Linear layers of SmolLM2-135M, alone and as the whole model reads them, against the roofs of the
// machine. Other load disturbs wall time, so rates count the CPU time of the calling thread (which
// works or spins throughout) in its fastest round.
//   linear_bench --benchmark_filter=Model
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cpu_features.h"
#include "kernels/dispatch.h"
#include "kernels/linear.h"
#include "kernels/ops.h"
#include "kernels/panel_layout.h"
#include "kernels/roof_ops.h"
#include "kernels/roofs.h"
#include "kernels/work_ranges.h"

namespace taproot {
namespace {

double thread_cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Runs `body` for the benchmark's iterations and keeps the fastest one.
template <typename Body>
double fastest_seconds(benchmark::State& state, Body&& body) {
    double fastest = 1e30;
    for (auto _ : state) {
        double begin = thread_cpu_seconds();
        body();
        fastest = std::min(fastest, thread_cpu_seconds() - begin);
    }
    return fastest;
}

PanelMatrix random_matrix(DType type, int columns, int rows, ForkJoin& pool) {
    DTypeInfo info = dtype_info(type);
    std::size_t bytes = static_cast<std::size_t>(rows) *
                        static_cast<std::size_t>(columns / info.block_elements * info.block_bytes);
    std::vector<std::byte> raw(bytes);
    Random random(1);
    for (std::byte& byte : raw) byte = static_cast<std::byte>(random.below(256));
    std::size_t scales = panel_format(type).offset ? 2 : 1;
    std::size_t first = type == DType::kQ2_K   ? 80  // the others have them in front
                        : type == DType::kQ3_K ? 108
                        : type == DType::kQ6_K ? 208
                                               : 0;
    for (std::size_t at = first; at < bytes; at += static_cast<std::size_t>(info.block_bytes)) {
        for (std::size_t s = 0; info.quantized && s < scales; ++s) {
            raw[at + 2 * s + 1] = std::byte{0x20};  // scales near 0.01
        }
        if (type == DType::kF16) raw[at + 1] = std::byte{0x20};
        if (type == DType::kBF16) raw[at + 1] = std::byte{0x3c};
        if (type == DType::kF32) raw[at + 3] = std::byte{0x3c};
    }
    PanelMatrix::Source source{raw.data(), rows};
    return PanelMatrix::pack(type, columns, {&source, 1}, pool).value();
}

auto read_op() {
    return cpu_features().avx512 ? avx512::roof_ops().read
           : cpu_features().avx2 ? avx2::roof_ops().read
                                 : ref::roof_ops().read;
}

struct Activations {
    std::vector<float> x, out;
    QuantizedRows quantized;
    int rows, columns;

    Activations(KernelContext& context, int rows_in, int columns_in, int outputs)
        : rows(rows_in), columns(columns_in) {
        Random random(2);
        x.resize(static_cast<std::size_t>(rows * columns));
        for (float& value : x) value = static_cast<float>(random.unit() - 0.5);
        out.resize(static_cast<std::size_t>(rows * outputs));
        if (columns % 32 == 0) quantize_rows(context, input(), &quantized);
    }
    [[nodiscard]] ConstRows input() const { return {x.data(), columns, rows, columns}; }
    void run(KernelContext& context, const PanelMatrix& w) {
        linear(context, w, {input(), &quantized}, {out.data(), w.rows(), rows, w.rows()});
    }
};

void report(benchmark::State& state, double seconds, double bytes, double operations) {
    state.counters["GB/s"] = bytes / seconds * 1e-9;
    state.counters["Gop/s"] = operations / seconds * 1e-9;
    state.counters["us"] = seconds * 1e6;
}

// The 30 layers of the model, Q4_1, and its Q8_0 head: what one step reads and computes.
class ModelLayers {
public:
    explicit ModelLayers(ForkJoin& pool) {
        for (int layer = 0; layer < 30; ++layer) {
            matrices_.push_back(random_matrix(DType::kQ4_1, 576, 960, pool));
            matrices_.push_back(random_matrix(DType::kQ4_1, 576, 576, pool));
            matrices_.push_back(random_matrix(DType::kQ4_1, 576, 3072, pool));
            matrices_.push_back(random_matrix(DType::kQ4_1, 1536, 576, pool));
        }
        head_ = random_matrix(DType::kQ8_0, 576, 49152, pool);
    }
    void step(KernelContext& context, Activations& narrow, Activations& wide, Activations* head) {
        for (const PanelMatrix& w : matrices_) {
            w.columns() == 576 ? narrow.run(context, w) : wide.run(context, w);
        }
        if (head != nullptr) head->run(context, head_);
    }
    // The same bytes, only read: what decoding one row could at best reach now.
    void read(ForkJoin& pool) const {
        for (std::size_t i = 0; i <= matrices_.size(); ++i) {
            const PanelMatrix& w = i < matrices_.size() ? matrices_[i] : head_;
            WorkRanges ranges(w.panels(), pool.threads(), 4);
            pool.share([&](int thread) {
                ranges.work_parts(thread, [&](int begin, int end) {
                    std::size_t bytes = static_cast<std::size_t>(end - begin) * w.panel_bytes();
                    float sink = read_op()(w.panel(begin), bytes / 1024 * 1024);
                    benchmark::DoNotOptimize(sink);
                });
            });
        }
    }
    [[nodiscard]] double bytes(bool with_head) const {
        double sum = with_head ? static_cast<double>(head_.bytes()) : 0.0;
        for (const PanelMatrix& w : matrices_) sum += static_cast<double>(w.bytes());
        return sum;
    }

private:
    std::vector<PanelMatrix> matrices_;
    PanelMatrix head_;
};

// Decode: all rows reach the head. Prefill: one row does, and it is left out.
void model(benchmark::State& state, Isa isa, bool with_head) {
    int rows = static_cast<int>(state.range(0));
    ForkJoin pool(static_cast<int>(state.range(1)));
    KernelContext context{ops_for(isa), pool};
    static ModelLayers& layers = *new ModelLayers(pool);
    Activations narrow(context, rows, 576, 3072);
    Activations wide(context, rows, 1536, 576);
    Activations head(context, with_head ? rows : 1, 576, 49152);
    double seconds = fastest_seconds(
        state, [&] { layers.step(context, narrow, wide, with_head ? &head : nullptr); });
    double products = 30.0 * (576.0 * 960 + 576.0 * 576 + 576.0 * 3072 + 1536.0 * 576);
    if (with_head) products += 576.0 * 49152;
    report(state, seconds, layers.bytes(with_head), 2.0 * products * rows);
    state.counters["tok/s"] = rows / seconds;
}

void model_read(benchmark::State& state) {
    ForkJoin pool(static_cast<int>(state.range(0)));
    ModelLayers layers(pool);
    double seconds = fastest_seconds(state, [&] { layers.read(pool); });
    report(state, seconds, layers.bytes(true), 0.0);
}

// One shape, over copies that together exceed the L2 cache.
void shape(benchmark::State& state, Isa isa, DType type, int columns, int outputs) {
    int rows = static_cast<int>(state.range(0));
    ForkJoin pool(static_cast<int>(state.range(1)));
    KernelContext context{ops_for(isa), pool};
    std::vector<PanelMatrix> copies;
    std::size_t bytes = 0;
    while (bytes < (std::size_t{32} << 20)) {
        copies.push_back(random_matrix(type, columns, outputs, pool));
        bytes += copies.back().bytes();
    }
    Activations x(context, rows, columns, outputs);
    std::size_t next = 0;  // one call per iteration: short enough to be undisturbed sometimes
    double seconds =
        fastest_seconds(state, [&] { x.run(context, copies[next++ % copies.size()]); });
    report(state, seconds, static_cast<double>(copies[0].bytes()), 2.0 * columns * outputs * rows);
}

void quantize(benchmark::State& state, Isa isa) {
    ForkJoin pool(1);
    KernelContext context{ops_for(isa), pool};
    Activations x(context, static_cast<int>(state.range(0)), 576, 1);
    double seconds =
        fastest_seconds(state, [&] { quantize_rows(context, x.input(), &x.quantized); });
    report(state, seconds, 4.0 * x.rows * x.columns, x.rows * x.columns);
}

void register_isa(Isa isa) {
    std::string suffix = "/" + std::string(to_string(isa));
    auto rows = [](benchmark::internal::Benchmark* b, std::vector<std::int64_t> counts) {
        b->UseRealTime()->MinTime(0.3);
        for (std::int64_t count : counts) {
            for (int threads : {1, 2}) b->Args({count, threads});
        }
    };
    rows(benchmark::RegisterBenchmark(("ModelDecode" + suffix).c_str(), model, isa, true),
         {1, 2, 4, 8, 16, 32});
    rows(benchmark::RegisterBenchmark(("ModelPrefill" + suffix).c_str(), model, isa, false),
         {64, 128, 512});
    struct Shape {
        const char* name;
        DType type;
        int columns, outputs;
    };
    for (const Shape& s : {Shape{"qkv", DType::kQ4_1, 576, 960},
                           {"o", DType::kQ4_1, 576, 576},
                           {"gate_up", DType::kQ4_1, 576, 3072},
                           {"down", DType::kQ4_1, 1536, 576},
                           {"head", DType::kQ8_0, 576, 49152},
                           {"q4_0", DType::kQ4_0, 576, 3072},
                           {"q5_0", DType::kQ5_0, 576, 3072},
                           {"q5_1", DType::kQ5_1, 576, 3072},
                           {"q8_0", DType::kQ8_0, 576, 3072},
                           {"q2_k", DType::kQ2_K, 768, 3072},
                           {"q3_k", DType::kQ3_K, 768, 3072},
                           {"q4_k", DType::kQ4_K, 768, 3072},
                           {"q5_k", DType::kQ5_K, 768, 3072},
                           {"q6_k", DType::kQ6_K, 768, 3072},
                           {"iq4_nl", DType::kIQ4_NL, 768, 3072},
                           {"iq4_xs", DType::kIQ4_XS, 768, 3072},
                           {"f16", DType::kF16, 576, 3072},
                           {"bf16", DType::kBF16, 576, 3072},
                           {"f32", DType::kF32, 576, 3072}}) {
        rows(benchmark::RegisterBenchmark((std::string("Shape/") + s.name + suffix).c_str(), shape,
                                          isa, s.type, s.columns, s.outputs),
             {1, 2, 4, 8, 16, 32, 128, 512});
    }
    benchmark::RegisterBenchmark(("Quantize" + suffix).c_str(), quantize, isa)->Arg(1)->Arg(512);
}

}  // namespace
}  // namespace taproot

int main(int argc, char** argv) {
    using namespace taproot;
    for (int threads : {1, 2}) {
        Roofs roofs =
            measure_roofs({.isa = available_isas().back(), .threads = threads, .seconds = 1.0})
                .value();
        fmt::print("{} threads at most: {:.0f} Gop/s int8, {:.0f} GFLOP/s, {:.1f} GB/s\n", threads,
                   roofs.int8_ops_per_s * 1e-9, roofs.fp32_flop_per_s * 1e-9,
                   roofs.read_bytes_per_s.back() * 1e-9);
        benchmark::RegisterBenchmark("ModelRead", model_read)->Arg(threads)->UseRealTime();
    }
    for (Isa isa : available_isas()) {
        if (isa != Isa::kRef) register_isa(isa);
    }
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}
