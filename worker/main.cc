// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "base/log.h"
#include "base/version.h"
#include "config/load.h"
#include "worker/worker_app.h"

// taproot-worker --config FILE --name w0: one engine of a deployment. Runs until SIGTERM or SIGINT.
int main(int argc, char** argv) {
    CLI::App cli("Taproot worker: one engine that serves a model's tokens to gateways",
                 "taproot-worker");
    std::string file;
    std::string name;
    cli.add_option("--config", file, "configuration file (see config/reference.yaml)")->required();
    cli.add_option("--name", name, "which of its workers to be; may be left out if there is one");
    int shared_weights = -1;
    cli.add_option("--shared-weights", shared_weights,
                   "file descriptor of memory that all workers of this host keep the weights in");
    cli.set_version_flag("--version", std::string(taproot::kVersion));
    CLI11_PARSE(cli, argc, argv);

    auto config = taproot::config::load_file(file);
    if (!config) {
        std::fprintf(stderr, "%s\n", config.error().describe().c_str());
        return 2;
    }
    if (name.empty() && config->workers.size() == 1) name = config->workers.front().name;
    taproot::LogLevel level;
    taproot::parse_log_level(config->log.level, &level);
    taproot::init_log(level, name.empty() ? "worker" : name);

    // Blocked before threads start, so that only sigwait below sees them.
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);

    auto app = taproot::WorkerApp::create(*config, name, shared_weights);
    if (!app) {
        taproot::log_error("cannot start: {}", app.error().describe());
        return 1;
    }
    if (auto started = (*app)->start(); !started) {
        taproot::log_error("cannot start: {}", started.error().describe());
        return 1;
    }
    int received = 0;
    sigwait(&signals, &received);
    taproot::log_info("signal {}: stopping", received);
    (*app)->stop();
    return 0;
}
