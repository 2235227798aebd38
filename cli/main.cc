// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <csignal>

#include "base/version.h"
#include "cli/commands.h"

// taproot: the person's tool. It joins gateway and worker and holds no logic of its own.
int main(int argc, char** argv) {
    std::signal(SIGPIPE, SIG_IGN);
    CLI::App app("Taproot serves language models and computes each prompt prefix once.", "taproot");
    app.set_version_flag("--version", std::string(taproot::kVersion));
    app.require_subcommand(1);
    app.footer("Start here: taproot serve models/MODEL.gguf, then taproot chat");

    taproot::cli::RunCommand run;
    taproot::cli::add_serve(app, run);
    taproot::cli::add_up(app, run);
    taproot::cli::add_chat(app, run);
    taproot::cli::add_explain(app, run);
    taproot::cli::add_config(app, run);
    taproot::cli::add_bench(app, run);
    taproot::cli::add_check(app, run);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        int code = app.exit(error);
        return code == 0 ? 0 : 2;  // --help and --version are no failure
    }
    return run ? run() : 2;
}
