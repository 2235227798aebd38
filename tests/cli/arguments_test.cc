// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace taproot::cli {
namespace {

// Parses a command line as main() does; "" when it is taken, else what is said. Runs nothing.
std::string refusal(std::vector<std::string> words) {
    CLI::App app("test", "taproot");
    app.require_subcommand(1);
    RunCommand run;
    add_bench(app, run);
    add_check(app, run);
    std::vector<const char*> argv = {"taproot"};
    for (const std::string& word : words) argv.push_back(word.c_str());
    try {
        app.parse(static_cast<int>(argv.size()), argv.data());
    } catch (const CLI::ParseError& error) {
        return error.what();
    }
    return run ? "" : "nothing to run";
}

TEST(Arguments, TheAcceptanceCommandsAreTaken) {
    EXPECT_EQ(refusal({"bench", "roofs", "--json"}), "");
    EXPECT_EQ(refusal({"bench", "kernels", "--json", "--filter", "linear/Q4"}), "");
    const std::vector<std::vector<std::string>> variants = {{"--depth", "4096"},
                                                            {"--shared-prefix", "1024"},
                                                            {"--prompt", "8000"},
                                                            {"--profile"},
                                                            {"--repeats", "7"}};
    for (const std::vector<std::string>& more : variants) {
        std::vector<std::string> words = {"bench",     "engine",    "--model", "m.gguf",
                                          "--streams", "1,4,16,32", "--json"};
        words.insert(words.end(), more.begin(), more.end());
        EXPECT_EQ(refusal(words), "") << more[0];
    }
    for (const char* workload : {"single", "shared", "turns", "interference", "shared,turns"})
        EXPECT_EQ(refusal({"bench", "serve", "--workload", workload}), "") << workload;
    EXPECT_EQ(refusal({"check", "determinism", "--model", "m.gguf", "--short"}), "");
}

TEST(Arguments, WhatIsOutOfRangeIsRefusedWithTheOptionsName) {
    auto expect_named = [](std::vector<std::string> words, const char* option) {
        EXPECT_NE(refusal(words).find(option), std::string::npos) << refusal(words);
    };
    std::vector<std::string> engine = {"bench", "engine", "--model", "m.gguf"};
    for (const char* option :
         {"--depth", "--shared-prefix", "--prompt", "--repeats", "--streams"}) {
        std::vector<std::string> words = engine;
        words.push_back(option);
        words.push_back("0");
        expect_named(words, option);
    }
    expect_named({"bench", "serve", "--workload", "nothing"}, "--workload");
    expect_named({"bench", "serve", "--long-prompt", "5"}, "--long-prompt");
    expect_named({"bench", "kernels", "--threads", "0"}, "--threads");
    expect_named({"bench", "engine"}, "--model");
}

}  // namespace
}  // namespace taproot::cli
