// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/trace_replay.h"

// Replays a trace of prompts through the prefix cache and its tiers: how much would be found again,
// and where. No model, no server.
namespace taproot::cli {
namespace {

struct TiersArguments {
    std::string trace;
    ReplaySizes sizes{3'000, 10'000};
    bool as_json = false;
};

double share(std::uint64_t hits, const ReplayCounts& counts) {
    return counts.blocks == 0 ? 0 : static_cast<double>(hits) / static_cast<double>(counts.blocks);
}

void print_json(const TiersArguments& arguments, std::size_t requests, const ReplayCounts& counts) {
    fmt::print(
        "{}\n",
        json_text({{"trace", arguments.trace},
                   {"requests", requests},
                   {"blocks", counts.blocks},
                   {"device_blocks", arguments.sizes.device_blocks},
                   {"ram_blocks", arguments.sizes.ram_blocks},
                   {"hit_share",
                    boost::json::object{
                        {"device", rounded(share(counts.device_hits, counts), 4)},
                        {"ram", rounded(share(counts.ram_hits, counts), 4)},
                        {"total", rounded(share(counts.device_hits + counts.ram_hits, counts), 4)},
                        {"ideal", rounded(share(counts.ideal_hits, counts), 4)}}},
                   {"written_to_ram", counts.written_to_ram},
                   {"wrong_blocks", counts.wrong_blocks}}));
}

void print_table(std::size_t requests, const ReplayCounts& counts) {
    fmt::print("{} requests, {} blocks; share of blocks found\n", requests, counts.blocks);
    auto line = [&](const char* name, std::uint64_t hits) {
        fmt::print("  {:<8} {:6.2f} %\n", name, 100 * share(hits, counts));
    };
    line("device", counts.device_hits);
    line("ram", counts.ram_hits);
    line("total", counts.device_hits + counts.ram_hits);
    line("ideal", counts.ideal_hits);
    fmt::print("{} blocks went down to RAM, {} hits with wrong bytes\n", counts.written_to_ram,
               counts.wrong_blocks);
}

int bench_tiers(const TiersArguments& arguments) {
    auto fail = [](const Error& error) {
        fmt::print(stderr, "taproot bench tiers: {}\n", error.describe());
        return 2;
    };
    Result<std::vector<TracePrompt>> prompts = read_trace(arguments.trace);
    if (!prompts) return fail(prompts.error());
    Result<ReplayCounts> counts = replay_trace(*prompts, arguments.sizes);
    if (!counts) return fail(counts.error());
    if (arguments.as_json)
        print_json(arguments, prompts->size(), *counts);
    else
        print_table(prompts->size(), *counts);
    return counts->wrong_blocks == 0 ? 0 : 1;
}

}  // namespace

void add_bench_tiers(CLI::App& bench, RunCommand& run) {
    auto arguments = std::make_shared<TiersArguments>();
    CLI::App* command = bench.add_subcommand(
        "tiers", "Share of a trace's blocks found again in each tier, without a model");
    command->add_option("--trace", arguments->trace, "JSON lines with hash_ids (Mooncake's format)")
        ->required();
    command
        ->add_option("--device-blocks", arguments->sizes.device_blocks,
                     "blocks of the trace that the KV pool holds (default 3000)")
        ->check(CLI::Range(1u, 100'000'000u));
    command
        ->add_option("--ram-blocks", arguments->sizes.ram_blocks,
                     "blocks that the RAM tier holds (default 10000; 0: none)")
        ->check(CLI::Range(0u, 100'000'000u));
    command->add_flag("--json", arguments->as_json, "one JSON object");
    command->callback([arguments, &run] { run = [arguments] { return bench_tiers(*arguments); }; });
}

}  // namespace taproot::cli
