// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/roofs_json.h"
#include "kernels/fork_join.h"

namespace taproot::cli {

boost::json::object roofs_json(const Roofs& roofs) {
    return {{"isa", roofs.isa},
            {"threads", roofs.threads},
            {"int8_ops_s", roofs.int8_ops_s},
            {"fp32_flops_s", roofs.fp32_flops_s},
            {"read_bytes_s", roofs.read_bytes_s},
            {"fork_join_us", roofs.fork_join_us}};
}

void add_bench_roofs(CLI::App& bench, RunCommand& run) {
    struct Arguments {
        int threads = 0;
        double seconds = 2;
        bool as_json = false;
    };
    auto arguments = std::make_shared<Arguments>();
    CLI::App* command = bench.add_subcommand(
        "roofs", "What this machine can do at most: int8, fp32, memory, fork-join");
    command->add_option("--threads", arguments->threads, "default: this machine's cores")
        ->check(CLI::Range(1, 1024));
    command->add_option("--seconds", arguments->seconds, "time to spend (default 2)")
        ->check(CLI::Range(0.1, 600.0));
    command->add_flag("--json", arguments->as_json, "one JSON object");
    command->callback([arguments, &run] {
        run = [arguments] {
            Roofs roofs =
                measure_roofs(arguments->threads > 0 ? arguments->threads : default_thread_count(),
                              arguments->seconds);
            if (arguments->as_json) {
                fmt::print("{}\n", boost::json::serialize(roofs_json(roofs)));
                return 0;
            }
            fmt::print(
                "isa {}, {} threads\n  int8 multiply-add  {:8.3f} Top/s\n  fp32 multiply-add  "
                "{:8.3f} TFLOP/s\n"
                "  memory read        {:8.1f} GB/s\n  fork and join      {:8.2f} us\n",
                roofs.isa, roofs.threads, roofs.int8_ops_s * 1e-12, roofs.fp32_flops_s * 1e-12,
                roofs.read_bytes_s * 1e-9, roofs.fork_join_us);
            return 0;
        };
    });
}

}  // namespace taproot::cli
