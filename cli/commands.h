// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace taproot::cli {

// Each adds its subcommand to `app` and, when that was chosen, sets `run` to what main() then calls
// for the exit code: 0 fine, 1 it failed, 2 the command line or a file is wrong.
using RunCommand = std::function<int()>;

void add_serve(CLI::App& app, RunCommand& run);
void add_up(CLI::App& app, RunCommand& run);
void add_chat(CLI::App& app, RunCommand& run);
void add_config(CLI::App& app, RunCommand& run);
void add_explain(CLI::App& app, RunCommand& run);
void add_bench(CLI::App& app, RunCommand& run);  // roofs, kernels, engine, serve, tiers
void add_check(CLI::App& app, RunCommand& run);  // determinism

// Parts of bench.
void add_bench_roofs(CLI::App& bench, RunCommand& run);
void add_bench_engine(CLI::App& bench, RunCommand& run);
void add_bench_kernels(CLI::App& bench, RunCommand& run);
void add_bench_serve(CLI::App& bench, RunCommand& run);
void add_bench_tiers(CLI::App& bench, RunCommand& run);

}  // namespace taproot::cli
