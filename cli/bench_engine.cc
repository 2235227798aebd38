// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/commands.h"
#include "cli/engine_measure.h"
#include "cli/json_text.h"
#include "cli/roofs_json.h"
#include "kernels/fork_join.h"

// Prefill and decode speed of one engine: the real scheduler, cache, kernels and sampler, no
// sockets.
namespace taproot::cli {
namespace {

namespace json = boost::json;

constexpr std::uint32_t kDepthDefault = 512;
constexpr std::uint32_t kTailTokens = 16;  // distinct tokens after a shared prefix

struct EngineArguments {
    std::string model;
    EngineLoad load;
    std::uint32_t depth = 0;  // 0: not given
    int threads = 0;
    bool profile = false;
    bool as_json = false;
};

// Everything measured, and what it is compared with.
struct Report {
    const EngineArguments& arguments;
    EngineResult result;
    RoofOptions roof_options;
    Roofs roofs;
    ModelWork work;
    double weight_bytes = 0;  // read by every step

    [[nodiscard]] double linear_s() const {  // of the profiled prefill
        const auto& ms = result.prefill_parts.part_ms;
        auto part = [&](StepPart p) { return ms[static_cast<std::size_t>(p)]; };
        return 1e-3 * (part(StepPart::kQkv) + part(StepPart::kOut) + part(StepPart::kGateUp) +
                       part(StepPart::kDown));
    }
    [[nodiscard]] double attention_s() const {
        return 1e-3 * result.prefill_parts.part_ms[static_cast<std::size_t>(StepPart::kAttention)];
    }
    // Seconds that the prompt's linear layers and its attention would take at their roofs.
    [[nodiscard]] double linear_ideal_s() const {
        return arguments.load.prompt *
               (work.int8_ops / roofs.int8_ops_per_s + work.float_flop / roofs.fp32_flop_per_s);
    }
    [[nodiscard]] double attention_ideal_s() const {
        return work.attention_flop / roofs.fp32_flop_per_s;
    }
    [[nodiscard]] double prefill_share() const {
        return (linear_ideal_s() + attention_ideal_s()) * result.prefill_tok_s.median /
               arguments.load.prompt;
    }
    // Bytes that a step must read, weights and pages, at the measured rate.
    [[nodiscard]] double read_share(const DecodeResult& decode) const {
        double bytes = weight_bytes + decode.kv_bytes_minimum;
        return bytes * decode.tok_s.median / decode.streams / roofs.read_bytes_per_s.back();
    }
};

json::object spread_json(const Spread& spread) {
    return {{"min", rounded(spread.min, 1)}, {"max", rounded(spread.max, 1)}};
}

json::object parts_json(const PartTimes& times) {
    json::object out{{"schedule", rounded(times.schedule_ms, 4)}};
    for (std::size_t i = 0; i < kStepParts; ++i)
        out[to_string(static_cast<StepPart>(i))] = rounded(times.part_ms[i], 4);
    out["sample"] = rounded(times.sample_ms, 4);
    out["step"] = rounded(times.step_ms, 4);
    return out;
}

json::object report_json(const Report& report) {
    const EngineLoad& load = report.arguments.load;
    json::object decode, decode_spread, read, minimum, read_share, profile;
    for (const DecodeResult& one : report.result.decode) {
        std::string streams = std::to_string(one.streams);
        decode[streams] = rounded(one.tok_s.median, 1);
        decode_spread[streams] = spread_json(one.tok_s);
        read[streams] = rounded(one.kv_bytes_read, 0);
        minimum[streams] = rounded(one.kv_bytes_minimum, 0);
        read_share[streams] = rounded(report.read_share(one), 3);
        profile[streams] = parts_json(one.parts);
    }
    // Float weights meet the fp32 roof, and a key that says so.
    bool quantized = report.work.int8_ops >= report.work.float_flop;
    json::object share{
        {quantized ? "linear_int8" : "linear_fp32",
         rounded(report.linear_ideal_s() / report.linear_s(), 3)},
        {"attention_fma", rounded(report.attention_ideal_s() / report.attention_s(), 3)},
        {"prefill", rounded(report.prefill_share(), 3)},
        {"decode_read", std::move(read_share)}};
    json::object out{{"model", report.arguments.model},
                     {"threads", report.roof_options.threads},
                     {"prompt", load.prompt},
                     {"gen", load.generated},
                     {"depth", load.depth},
                     {"shared_prefix", load.shared},
                     {"repeats", load.repeats},
                     {"prefill_tok_s", rounded(report.result.prefill_tok_s.median, 1)},
                     {"prefill_spread", spread_json(report.result.prefill_tok_s)},
                     {"decode_tok_s", std::move(decode)},
                     {"decode_spread", std::move(decode_spread)},
                     {"kv_bytes_read", std::move(read)},
                     {"kv_bytes_minimum", std::move(minimum)},
                     {"share", std::move(share)},
                     {"roofs", roofs_json(report.roofs, report.roof_options)}};
    if (report.arguments.profile)
        out["profile_ms"] = json::object{{"prefill", parts_json(report.result.prefill_parts)},
                                         {"decode", std::move(profile)}};
    return out;
}

void print_parts(const std::string& title, const PartTimes& times) {
    fmt::print("\n{}: {:.3f} ms\n", title, times.step_ms);
    auto line = [&](std::string_view name, double ms) {
        fmt::print("  {:<14} {:9.3f} ms {:5.1f} %\n", name, ms, 100 * ms / times.step_ms);
    };
    line("schedule", times.schedule_ms);
    for (std::size_t i = 0; i < kStepParts; ++i)
        line(to_string(static_cast<StepPart>(i)), times.part_ms[i]);
    line("sample", times.sample_ms);
}

void print_report(const Report& report) {
    const EngineLoad& load = report.arguments.load;
    const Spread& prefill = report.result.prefill_tok_s;
    fmt::print(
        "prefill {:4} tokens:  {:8.1f} tok/s ({:.1f} to {:.1f}), {:.0f} % of the roofs "
        "(linear layers {:.0f} %, attention {:.0f} %)\n",
        load.prompt, prefill.median, prefill.min, prefill.max, 100 * report.prefill_share(),
        100 * report.linear_ideal_s() / report.linear_s(),
        100 * report.attention_ideal_s() / report.attention_s());
    for (const DecodeResult& one : report.result.decode)
        fmt::print(
            "decode  {:4} streams: {:8.1f} tok/s ({:.1f} to {:.1f}) from {} tokens on, {:.0f} % of "
            "the read roof, K and V read {:.2f} times\n",
            one.streams, one.tok_s.median, one.tok_s.min, one.tok_s.max, load.depth,
            100 * report.read_share(one), one.kv_bytes_read / one.kv_bytes_minimum);
    if (!report.arguments.profile) return;
    print_parts(fmt::format("prefill of {} tokens", load.prompt), report.result.prefill_parts);
    for (const DecodeResult& one : report.result.decode)
        print_parts(fmt::format("a step of {} streams", one.streams), one.parts);
}

int fail(const Error& error, int code) {
    fmt::print(stderr, "taproot bench engine: {}\n", error.describe());
    return code;
}

// Fills in what was not given, and checks what only makes sense together.
Result<void> complete(EngineArguments& arguments) {
    EngineLoad& load = arguments.load;
    if (load.shared > 0) {
        load.depth = load.shared + kTailTokens;
        if (arguments.depth > 0 && arguments.depth <= load.shared)
            return invalid_argument(
                fmt::format("--depth is {} and must be more than --shared-prefix, {}",
                            arguments.depth, load.shared));
    } else {
        load.depth = std::min(kDepthDefault, load.prompt);
    }
    if (arguments.depth > 0) load.depth = arguments.depth;
    return {};
}

int bench_engine(EngineArguments arguments) {
    if (Result<void> usable = complete(arguments); !usable) return fail(usable.error(), 2);
    Result<LoadedModel> model = load_model(arguments.model);
    if (!model) return fail(model.error(), 2);
    Result<Isa> isa = choose_isa();
    if (!isa) return fail(isa.error(), 2);
    const EngineLoad& load = arguments.load;
    auto longest = static_cast<std::uint64_t>(model->config.context);
    if (load.prompt + 1ull > longest || load.depth + std::uint64_t{load.generated} > longest)
        return fail(invalid_argument(fmt::format(
                        "--prompt must be less than {} and --depth plus --gen (here {} + {}) at "
                        "most that: the model's context",
                        longest, load.depth, load.generated)),
                    2);
    CpuExecutorOptions options;
    options.threads = arguments.threads > 0 ? arguments.threads : default_thread_count();
    options.isa = *isa;
    options.kv_blocks = load.blocks();
    auto executor = CpuExecutor::create(*model, options);
    if (!executor) return fail(executor.error(), 1);
    RoofOptions roof_options;
    roof_options.isa = *isa;
    roof_options.threads = options.threads;
    EngineResult result = measure_engine(*model, **executor, load);
    Result<Roofs> roofs = measure_roofs(roof_options);
    if (!roofs) return fail(roofs.error(), 1);
    Report report{arguments,
                  std::move(result),
                  roof_options,
                  std::move(*roofs),
                  prefill_work(*model, load.prompt),
                  static_cast<double>((*executor)->weight_bytes())};
    if (arguments.as_json)
        fmt::print("{}\n", json_text(report_json(report)));
    else
        print_report(report);
    return 0;
}

}  // namespace

void add_bench_engine(CLI::App& bench, RunCommand& run) {
    auto arguments = std::make_shared<EngineArguments>();
    EngineLoad& load = arguments->load;
    CLI::App* command =
        bench.add_subcommand("engine", "Prefill and decode speed of one engine on this machine");
    command->add_option("--model", arguments->model, "model file (GGUF)")->required();
    command->add_option("--prompt", load.prompt, "tokens of the prefill measurement (default 512)")
        ->check(CLI::Range(1, 1'000'000));
    command->add_option("--gen", load.generated, "generated tokens per stream (default 128)")
        ->check(CLI::Range(4, 1'000'000));
    command
        ->add_option("--depth", arguments->depth,
                     "tokens of context when decoding begins (default 512, at most --prompt)")
        ->check(CLI::Range(1, 1'000'000));
    command
        ->add_option("--shared-prefix", load.shared,
                     "all streams share this many first tokens of their context; their depth is "
                     "then 16 more, unless --depth says otherwise")
        ->check(CLI::Range(1, 1'000'000));
    command->add_option("--streams", load.streams, "sequences decoding together (default 1,16)")
        ->delimiter(',')
        ->check(CLI::Range(1, 1024));
    command->add_option("--threads", arguments->threads, "default: this machine's cores")
        ->check(CLI::Range(1, 1024));
    command
        ->add_option("--repeats", load.repeats,
                     "rounds; median, least and most are reported (default 5)")
        ->check(CLI::Range(1, 100));
    command->add_flag("--profile", arguments->profile, "also where the time of a step goes");
    command->add_flag("--json", arguments->as_json, "one JSON object");
    command->callback(
        [arguments, &run] { run = [arguments] { return bench_engine(*arguments); }; });
}

}  // namespace taproot::cli
