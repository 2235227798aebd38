// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/roofs_json.h"
#include "kernels/fork_join.h"

namespace taproot::cli {

boost::json::object roofs_json(const Roofs& roofs, const RoofOptions& options) {
    boost::json::array read;
    for (double bytes_per_s : roofs.read_bytes_per_s) read.push_back(rounded(bytes_per_s, 0));
    boost::json::value bf16;  // null
    if (roofs.bf16_flop_per_s) bf16 = rounded(*roofs.bf16_flop_per_s, 0);
    return {{"isa", to_string(options.isa)},
            {"threads", options.threads},
            {"int8_ops_per_s", rounded(roofs.int8_ops_per_s, 0)},
            {"fp32_flop_per_s", rounded(roofs.fp32_flop_per_s, 0)},
            {"bf16_flop_per_s", std::move(bf16)},
            {"read_bytes_per_s", std::move(read)},
            {"memcpy_bytes_per_s", rounded(roofs.memcpy_bytes_per_s, 0)},
            {"fork_join_ns", rounded(roofs.fork_join_ns, 1)}};
}

namespace {

struct RoofArguments {
    int threads = 0;
    double seconds = 2;
    bool as_json = false;
};

int bench_roofs(const RoofArguments& arguments) {
    Result<Isa> isa = choose_isa();
    if (!isa) {
        fmt::print(stderr, "taproot bench roofs: {}\n", isa.error().describe());
        return 2;
    }
    RoofOptions options;
    options.isa = *isa;
    options.threads = arguments.threads > 0 ? arguments.threads : default_thread_count();
    options.seconds = arguments.seconds;
    Result<Roofs> roofs = measure_roofs(options);
    if (!roofs) {
        fmt::print(stderr, "taproot bench roofs: {}\n", roofs.error().describe());
        return 1;
    }
    if (arguments.as_json) {
        fmt::print("{}\n", json_text(roofs_json(*roofs, options)));
        return 0;
    }
    fmt::print(
        "isa {}, {} threads\n  int8 multiply-add  {:8.3f} Top/s\n  fp32 multiply-add  {:8.3f} "
        "TFLOP/s\n",
        to_string(*isa), options.threads, roofs->int8_ops_per_s * 1e-12,
        roofs->fp32_flop_per_s * 1e-12);
    if (roofs->bf16_flop_per_s)
        fmt::print("  bf16 multiply-add  {:8.3f} TFLOP/s\n", *roofs->bf16_flop_per_s * 1e-12);
    else
        fmt::print("  bf16 multiply-add  not available\n");
    for (std::size_t i = 0; i < roofs->read_bytes_per_s.size(); ++i)
        fmt::print("  memory read        {:8.1f} GB/s ({} threads)\n",
                   roofs->read_bytes_per_s[i] * 1e-9, i + 1);
    fmt::print("  memcpy             {:8.1f} GB/s copied ({} threads)\n",
               roofs->memcpy_bytes_per_s * 1e-9, options.threads);
    fmt::print("  fork and join      {:8.2f} us\n", roofs->fork_join_ns * 1e-3);
    return 0;
}

}  // namespace

void add_bench_roofs(CLI::App& bench, RunCommand& run) {
    auto arguments = std::make_shared<RoofArguments>();
    CLI::App* command = bench.add_subcommand(
        "roofs", "What this machine can do at most: int8, fp32, bf16, memory, fork-join");
    command->add_option("--threads", arguments->threads, "default: this machine's cores")
        ->check(CLI::Range(1, 1024));
    command->add_option("--seconds", arguments->seconds, "time to spend (default 2)")
        ->check(CLI::Range(0.1, 600.0));
    command->add_flag("--json", arguments->as_json, "one JSON object");
    command->callback([arguments, &run] { run = [arguments] { return bench_roofs(*arguments); }; });
}

}  // namespace taproot::cli
