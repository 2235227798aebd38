// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <csignal>

#include "base/log.h"
#include "base/version.h"
#include "config/load.h"
#include "gateway/app.h"

// taproot-gateway --config FILE: the HTTP side of a deployment. Runs until SIGTERM or SIGINT.
int main(int argc, char** argv) {
    CLI::App cli("Taproot gateway: OpenAI API in front of workers, exact prefix routing",
                 "taproot-gateway");
    std::string file;
    std::string listen;
    cli.add_option("--config", file, "configuration file (see config/reference.yaml)")->required();
    cli.add_option("--listen", listen, "host:port instead of gateway.listen");
    cli.set_version_flag("--version", std::string(taproot::kVersion));
    CLI11_PARSE(cli, argc, argv);

    auto loaded = taproot::config::load_file(file);
    if (!loaded) {
        std::fprintf(stderr, "%s\n", loaded.error().describe().c_str());
        return 2;
    }
    taproot::config::Config config = std::move(*loaded);
    if (!listen.empty()) config.gateway.listen = listen;
    taproot::LogLevel level;
    taproot::parse_log_level(config.log.level, &level);
    taproot::init_log(level, "gateway");

    // Blocked before threads start, so that only sigwait below sees them.
    sigset_t signals;
    sigemptyset(&signals);
    for (int signal : {SIGTERM, SIGINT}) sigaddset(&signals, signal);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);

    taproot::gateway::GatewayApp app(std::move(config));
    if (auto started = app.start(); !started) {
        taproot::log_error("cannot start: {}", started.error().describe());
        return 1;
    }
    int received = 0;
    sigwait(&signals, &received);
    taproot::log_info("signal {}: stopping", received);
    app.stop();
    return 0;
}
