// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "config/load.h"
#include "config/print.h"

namespace taproot::cli {
namespace {

int config_check(const std::string& file, bool print) {
    Result<config::Config> loaded = config::load_file(file);
    if (!loaded) {
        fmt::print(stderr, "{}\n", loaded.error().describe());
        return 2;
    }
    if (print)
        fmt::print("{}", config::print(*loaded));
    else
        fmt::print("{}: fine ({} workers, gateway on {})\n", file, loaded->workers.size(),
                   loaded->gateway.listen);
    return 0;
}

}  // namespace

void add_config(CLI::App& app, RunCommand& run) {
    CLI::App* config = app.add_subcommand("config", "Work with configuration files");
    config->require_subcommand(1);
    auto file = std::make_shared<std::string>();
    auto print = std::make_shared<bool>(false);
    CLI::App* check = config->add_subcommand(
        "check", "Check a file without starting anything; exit 2 when it is wrong");
    check->add_option("file", *file, "YAML file")->required();
    check->add_flag("--print", *print, "print the effective configuration with all defaults");
    check->callback(
        [file, print, &run] { run = [file, print] { return config_check(*file, *print); }; });
}

}  // namespace taproot::cli
