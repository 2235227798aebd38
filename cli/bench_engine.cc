// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <numeric>

#include "base/random.h"
#include "cli/commands.h"
#include "cli/engine_rig.h"
#include "cli/roofs_json.h"

// Prefill and decode speed of one engine: the real scheduler, cache, kernels and sampler, no
// sockets.
namespace taproot::cli {
namespace {

struct EngineArguments {
    std::string model;
    std::uint32_t prompt = 512;
    std::uint32_t generated = 128;
    std::vector<std::uint32_t> streams = {1, 16};
    int threads = 0;
    int repeats = 3;
    bool as_json = false;
};

link::Generate make_request(std::uint64_t seed, std::uint32_t prompt, std::uint32_t generated,
                            int vocab) {
    link::Generate request;
    request.prompt = random_tokens(seed, prompt, vocab);
    request.max_tokens = generated;
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    return request;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

struct Measured {
    double prefill_tok_s = 0;
    std::vector<std::pair<std::uint32_t, double>> decode_tok_s;  // by streams
};

RigOptions rig_options(const EngineArguments& arguments) {
    std::uint32_t most = *std::max_element(arguments.streams.begin(), arguments.streams.end());
    RigOptions options;
    options.blocks = most * ((arguments.prompt + arguments.generated) / kBlockTokens + 2) + 16;
    options.seqs_max = std::max(64u, most);
    return options;
}

double measure_prefill(const LoadedModel& model, CpuExecutor& executor,
                       const EngineArguments& arguments) {
    std::vector<double> rates;
    for (int i = 0; i < arguments.repeats + 1; ++i) {  // the first warms up
        EngineRig rig(model, executor, rig_options(arguments));
        link::Generate request = make_request(static_cast<std::uint64_t>(i) + 1, arguments.prompt,
                                              1, static_cast<int>(model.text.tokens.size()));
        TimePoint begin = std::chrono::steady_clock::now();
        rig.run({std::move(request)});
        if (i > 0)
            rates.push_back(arguments.prompt /
                            to_seconds(std::chrono::steady_clock::now() - begin));
    }
    return median(std::move(rates));
}

// Tokens per second from the moment every stream has begun to the end of the first.
double measure_decode(const LoadedModel& model, CpuExecutor& executor,
                      const EngineArguments& arguments, std::uint32_t streams) {
    std::vector<double> rates;
    for (int i = 0; i < arguments.repeats; ++i) {
        EngineRig rig(model, executor, rig_options(arguments));
        std::vector<link::Generate> requests;
        for (std::uint32_t s = 0; s < streams; ++s)
            requests.push_back(make_request(1000 * static_cast<std::uint64_t>(i + 1) + s,
                                            arguments.prompt, arguments.generated,
                                            static_cast<int>(model.text.tokens.size())));
        std::vector<double> full_steps;
        TimePoint last = std::chrono::steady_clock::now();
        rig.run(std::move(requests), [&](std::size_t tokens) {
            TimePoint now = std::chrono::steady_clock::now();
            if (tokens == streams) full_steps.push_back(to_seconds(now - last));
            last = now;
        });
        if (full_steps.size() < 3) continue;
        full_steps.erase(full_steps.begin());  // may hold the last prompt's chunk
        double seconds = std::accumulate(full_steps.begin(), full_steps.end(), 0.0);
        rates.push_back(static_cast<double>(full_steps.size()) * streams / seconds);
    }
    return rates.empty() ? 0 : median(std::move(rates));
}

// Multiply-adds of the linear layers per token (attention comes on top), and bytes read per step.
double linear_ops_per_token(const ModelConfig& c) {
    double q = static_cast<double>(c.heads) * c.head_dim,
           kv = static_cast<double>(c.kv_heads) * c.head_dim, e = c.embedding;
    return 2.0 * c.layers * (e * (q + 2 * kv) + q * e + 3.0 * e * c.feed_forward);
}

int report(const EngineArguments& arguments, const Measured& measured, const LoadedModel& model,
           const CpuExecutor& executor, const Roofs& roofs, const RoofOptions& roof_options) {
    double prefill_share =
        measured.prefill_tok_s * linear_ops_per_token(model.config) / roofs.int8_ops_per_s;
    boost::json::object decode, decode_share;
    for (auto [streams, rate] : measured.decode_tok_s) {
        double bytes_s = rate / streams * static_cast<double>(executor.weight_bytes());
        decode[std::to_string(streams)] = std::round(rate * 10) / 10;
        decode_share[std::to_string(streams)] =
            std::round(1000 * bytes_s / roofs.read_bytes_per_s.back()) / 1000;
        if (!arguments.as_json)
            fmt::print(
                "decode  {:4} streams: {:8.1f} tok/s, weights read at {:.0f} % of the memory "
                "roof\n",
                streams, rate, 100 * bytes_s / roofs.read_bytes_per_s.back());
    }
    if (!arguments.as_json) {
        fmt::print(
            "prefill {:4} tokens:  {:8.1f} tok/s, linear layers at {:.0f} % of the int8 roof\n",
            arguments.prompt, measured.prefill_tok_s, 100 * prefill_share);
        return 0;
    }
    boost::json::object out{
        {"model", arguments.model},
        {"threads", roof_options.threads},
        {"prompt", arguments.prompt},
        {"gen", arguments.generated},
        {"prefill_tok_s", std::round(measured.prefill_tok_s * 10) / 10},
        {"decode_tok_s", std::move(decode)},
        {"roofs", roofs_json(roofs, roof_options)},
        {"share", boost::json::object{{"prefill_int8", std::round(1000 * prefill_share) / 1000},
                                      {"decode_read", std::move(decode_share)}}}};
    fmt::print("{}\n", boost::json::serialize(out));
    return 0;
}

int fail(const Error& error, int code) {
    fmt::print(stderr, "taproot bench engine: {}\n", error.describe());
    return code;
}

int bench_engine(const EngineArguments& arguments) {
    Result<LoadedModel> model = load_model(arguments.model);
    if (!model) return fail(model.error(), 2);
    Result<Isa> isa = choose_isa();
    if (!isa) return fail(isa.error(), 2);
    CpuExecutorOptions options;
    options.threads = arguments.threads > 0 ? arguments.threads : default_thread_count();
    options.isa = *isa;
    options.kv_blocks = rig_options(arguments).blocks;
    auto executor = CpuExecutor::create(*model, options);
    if (!executor) return fail(executor.error(), 1);
    if (static_cast<int>(arguments.prompt + arguments.generated) > (*executor)->max_positions())
        return fail(invalid_argument(fmt::format("--prompt plus --gen must be at most {}",
                                                 (*executor)->max_positions())),
                    2);
    Measured measured;
    measured.prefill_tok_s = measure_prefill(*model, **executor, arguments);
    for (std::uint32_t streams : arguments.streams)
        measured.decode_tok_s.emplace_back(streams,
                                           measure_decode(*model, **executor, arguments, streams));
    RoofOptions roof_options;
    roof_options.isa = *isa;
    roof_options.threads = options.threads;
    Result<Roofs> roofs = measure_roofs(roof_options);
    if (!roofs) return fail(roofs.error(), 1);
    return report(arguments, measured, *model, **executor, *roofs, roof_options);
}

}  // namespace

void add_bench_engine(CLI::App& bench, RunCommand& run) {
    auto arguments = std::make_shared<EngineArguments>();
    CLI::App* command =
        bench.add_subcommand("engine", "Prefill and decode speed of one engine on this machine");
    command->add_option("--model", arguments->model, "model file (GGUF)")->required();
    command->add_option("--prompt", arguments->prompt, "prompt tokens (default 512)")
        ->check(CLI::Range(1, 1'000'000));
    command->add_option("--gen", arguments->generated, "generated tokens (default 128)")
        ->check(CLI::Range(4, 1'000'000));
    command
        ->add_option("--streams", arguments->streams, "sequences decoding together (default 1,16)")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024));
    command->add_option("--threads", arguments->threads, "default: this machine's cores")
        ->check(CLI::Range(1, 1024));
    command
        ->add_option("--repeats", arguments->repeats, "the median of these is reported (default 3)")
        ->check(CLI::Range(1, 100));
    command->add_flag("--json", arguments->as_json, "one JSON object");
    command->callback(
        [arguments, &run] { run = [arguments] { return bench_engine(*arguments); }; });
}

}  // namespace taproot::cli
