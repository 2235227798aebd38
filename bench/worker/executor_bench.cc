// SPDX-License-Identifier: Apache-2.0
// executor_bench MODEL.gguf [--threads N] [--isa NAME] [--prompt N] [--depth N] [--repeat N]
// Prefill of one prompt and decode of 1, 4, 16 and 32 streams at a given depth, straight on the
// executor: what the model costs without scheduler, sampler and network. Prints tokens per second
// twice: by wall clock, and by the CPU time of the calling thread (which other programs on the
// machine do not disturb; with one thread that is the whole cost).
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "worker/engine/executor_cpu.h"

namespace taproot {
namespace {

struct Settings {
    std::string model;
    int threads = 1;
    Isa isa = Isa::kRef;
    int prompt = 512;
    int depth = 512;
    int repeat = 5;
};

double seconds(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// The fastest of `repeat` calls, by each clock.
struct Times {
    double wall = 1e9;
    double cpu = 1e9;
};
template <typename Call>
Times fastest(int repeat, const Call& call) {
    Times best;
    for (int i = 0; i < repeat; ++i) {
        double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
        call();
        best.wall = std::min(best.wall, seconds(CLOCK_MONOTONIC) - wall);
        best.cpu = std::min(best.cpu, seconds(CLOCK_THREAD_CPUTIME_ID) - cpu);
    }
    return best;
}

void print(const char* what, int tokens, Times best, double bytes) {
    std::printf("%-24s %9.2f ms wall %9.2f ms cpu %9.0f tok/s wall %9.0f tok/s cpu %6.1f GB/s\n",
                what, best.wall * 1e3, best.cpu * 1e3, tokens / best.wall, tokens / best.cpu,
                bytes / best.cpu * 1e-9);
}

std::vector<TokenId> random_tokens(int count, int vocabulary) {
    Random random(1);
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i)
        out.push_back(static_cast<TokenId>(random.below(static_cast<std::uint64_t>(vocabulary))));
    return out;
}

int run(const Settings& settings) {
    constexpr int kStreamsMax = 32;
    auto model = load_model(settings.model);
    if (!model) return std::fprintf(stderr, "%s\n", model.error().describe().c_str()), 1;
    int blocks_each = std::max(settings.prompt, settings.depth + 1) / kBlockTokens + 1;
    CpuExecutorOptions options;
    options.threads = settings.threads;
    options.isa = settings.isa;
    options.kv_blocks = static_cast<std::uint32_t>(blocks_each * kStreamsMax);
    double start = seconds(CLOCK_MONOTONIC);
    auto created = CpuExecutor::create(*model, options);
    if (!created) return std::fprintf(stderr, "%s\n", created.error().describe().c_str()), 1;
    CpuExecutor& executor = **created;
    auto weights = static_cast<double>(executor.weight_bytes());
    std::printf("isa %s, %d threads, weights %.1f MB, packed in %.0f ms\n",
                std::string(to_string(settings.isa)).c_str(), settings.threads, weights * 1e-6,
                (seconds(CLOCK_MONOTONIC) - start) * 1e3);

    std::vector<std::vector<BlockId>> tables(kStreamsMax);
    for (std::uint32_t i = 0; i < kStreamsMax * static_cast<std::uint32_t>(blocks_each); ++i)
        tables[i / static_cast<std::uint32_t>(blocks_each)].push_back(BlockId{i});
    auto prompt = random_tokens(settings.prompt, executor.vocab_size());
    auto prefill = fastest(settings.repeat, [&] {
        StepSequence step{prompt, 0, tables[0], settings.prompt - 1};
        executor.run({&step, 1});
    });
    print("prefill", settings.prompt, prefill, weights);

    // Decode reads whatever lies at earlier positions; its cost does not depend on the values.
    for (int streams : {1, 4, 16, kStreamsMax}) {
        auto tokens = random_tokens(streams, executor.vocab_size());
        std::vector<StepSequence> step;
        for (std::size_t i = 0; i < static_cast<std::size_t>(streams); ++i)
            step.push_back({{&tokens[i], 1}, settings.depth, tables[i], 0});
        auto decode = fastest(settings.repeat * 4, [&] { executor.run(step); });
        std::string name =
            "decode " + std::to_string(streams) + " at " + std::to_string(settings.depth);
        print(name.c_str(), streams, decode, weights);
    }
    return 0;
}

}  // namespace
}  // namespace taproot

int main(int argc, char** argv) {
    using namespace taproot;
    Settings settings;
    settings.isa = available_isas().back();
    for (int i = 1; i < argc; ++i) {
        std::string_view name = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : "";
        if (name.substr(0, 2) != "--") {
            settings.model = name;
            continue;
        }
        ++i;
        if (name == "--threads") settings.threads = std::atoi(value);
        if (name == "--prompt") settings.prompt = std::atoi(value);
        if (name == "--depth") settings.depth = std::atoi(value);
        if (name == "--repeat") settings.repeat = std::atoi(value);
        if (name == "--isa")
            for (Isa isa : available_isas())
                if (to_string(isa) == value) settings.isa = isa;
    }
    if (settings.model.empty() || settings.prompt < 1 || settings.depth < 0)
        return std::fprintf(stderr, "usage: executor_bench MODEL.gguf [--threads N] ...\n"), 2;
    return run(settings);
}
