// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>

#include "cli/commands.h"

namespace taproot::cli {

void add_bench(CLI::App& app, RunCommand& run) {
    CLI::App* bench =
        app.add_subcommand("bench", "Measure this machine, an engine, or a running server");
    bench->require_subcommand(1);
    add_bench_roofs(*bench, run);
    add_bench_kernels(*bench, run);
    add_bench_engine(*bench, run);
    add_bench_serve(*bench, run);
    add_bench_tiers(*bench, run);
}

}  // namespace taproot::cli
