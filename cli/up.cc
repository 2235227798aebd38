// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/log.h"
#include "cli/commands.h"
#include "cli/supervisor.h"
#include "cli/temporary_folder.h"
#include "config/load.h"
#include "config/print.h"
#include "kernels/fork_join.h"

namespace taproot::cli {
namespace {

struct UpArguments {
    std::string file;
    std::string model;
    int port = -1;
};

// The file with command-line overrides, and with everything filled in that all programs must agree
// on: run_dir (worker links without an address lie in it) and threads.
Result<config::Config> effective_config(const UpArguments& arguments, const std::string& run_dir) {
    TAPROOT_TRY(config::Config config, config::load_file(arguments.file));
    if (!arguments.model.empty()) config.model.path = arguments.model;
    if (arguments.port >= 0) {
        std::size_t colon = config.gateway.listen.rfind(':');
        config.gateway.listen =
            fmt::format("{}:{}", config.gateway.listen.substr(0, colon), arguments.port);
    }
    if (config.run_dir.empty()) config.run_dir = run_dir;
    int cores = default_thread_count();
    int share = std::max(1, cores / static_cast<int>(config.workers.size()));
    for (config::Worker& worker : config.workers) {
        if (worker.threads == 0) worker.threads = static_cast<std::uint32_t>(share);
    }
    return config;
}

// Memory for one copy of the weights that all workers read; empty until the first worker fills it,
// and here still when a worker ends and is started again. -1: not worth it, or not possible.
int make_shared_weights(const config::Config& config) {
    if (config.workers.size() < 2) return -1;
    int memory = ::memfd_create("taproot-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        log_warn("no shared memory, so every worker keeps its own copy of the weights: {}",
                 std::strerror(errno));
    return memory;
}

int up(const UpArguments& arguments) {
    init_log(LogLevel::kInfo, "up");
    TemporaryFolder folder("taproot-up");
    Result<config::Config> config = effective_config(arguments, folder.path());
    if (!config) {
        fmt::print(stderr, "{}\n", config.error().describe());
        return 2;
    }
    std::string file = folder.path() + "/effective.yaml";
    std::ofstream(file) << config::print(*config, {.show_secrets = true});  // the folder is private
    Result<std::string> programs = program_folder();
    if (!programs) {
        log_error("{}", programs.error().describe());
        return 1;
    }
    Supervisor supervisor;
    int weights = make_shared_weights(*config);
    for (const config::Worker& worker : config->workers) {
        std::vector<std::string> command{*programs + "/taproot-worker", "--config", file, "--name",
                                         worker.name};
        if (weights >= 0)
            command.insert(command.end(), {"--shared-weights", std::to_string(weights)});
        supervisor.add(worker.name, std::move(command), weights);
    }
    supervisor.add("gateway", {*programs + "/taproot-gateway", "--config", file});
    return supervisor.run();
}

}  // namespace

void add_up(CLI::App& app, RunCommand& run) {
    auto arguments = std::make_shared<UpArguments>();
    CLI::App* command = app.add_subcommand(
        "up", "Start a gateway and its workers from one YAML file and keep them running");
    command->add_option("file", arguments->file, "configuration (see config/examples/)")
        ->required();
    command->add_option("--model", arguments->model, "model file instead of model.path");
    command
        ->add_option("--port", arguments->port, "gateway port instead of the one in gateway.listen")
        ->check(CLI::Range(0, 65535));
    command->callback([arguments, &run] { run = [arguments] { return up(*arguments); }; });
}

}  // namespace taproot::cli
