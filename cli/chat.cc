// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/chat_client.h"
#include "cli/commands.h"

namespace taproot::cli {
namespace {

struct ChatArguments {
    std::string url = "http://127.0.0.1:8080";
    std::string model;
    std::string system;
    std::string api_key;
    std::uint32_t max_tokens = 512;
    double temperature = 0.7;
};

void print_numbers(const ChatReply& reply) {
    double rate = reply.decode_ms > 0 && reply.completion_tokens > 1
                      ? (reply.completion_tokens - 1) / (reply.decode_ms / 1000)
                      : 0;
    fmt::print(
        "\n\033[2m[{} prompt tokens, {} cached | first token {:.0f} ms | {} tokens, {:.0f} tok/s | "
        "{}]\033[0m\n",
        reply.prompt_tokens, reply.cached_tokens, reply.ttft_ms, reply.completion_tokens, rate,
        reply.worker);
}

int chat(const ChatArguments& arguments) {
    Result<ServerUrl> url = parse_server_url(arguments.url);
    if (!url) {
        fmt::print(stderr, "taproot chat: {}\n", url.error().describe());
        return 2;
    }
    HttpClient client(std::move(*url), arguments.api_key);
    std::vector<ChatTurn> turns;
    if (!arguments.system.empty()) turns.push_back({"system", arguments.system});
    ChatOptions options;
    options.model = arguments.model;
    options.max_tokens = arguments.max_tokens;
    options.temperature = arguments.temperature;
    fmt::print("Talking to {}. An empty line or Ctrl-D ends.\n", arguments.url);
    std::string line;
    while (fmt::print("\n> "), std::fflush(stdout), std::getline(std::cin, line)) {
        if (line.empty()) break;
        turns.push_back({"user", line});
        Result<ChatReply> reply = stream_chat(client, turns, options, [](std::string_view text) {
            fmt::print("{}", text);
            std::fflush(stdout);
        });
        if (!reply) {
            fmt::print(stderr, "\ntaproot chat: {}\n", reply.error().describe());
            turns.pop_back();  // the next line tries again from here
            continue;
        }
        turns.push_back({"assistant", reply->text});
        print_numbers(*reply);
    }
    return 0;
}

}  // namespace

void add_chat(CLI::App& app, RunCommand& run) {
    auto arguments = std::make_shared<ChatArguments>();
    CLI::App* command =
        app.add_subcommand("chat", "Talk to a server; shows cached tokens and speed of each turn");
    command->add_option("url", arguments->url, "server (default http://127.0.0.1:8080)");
    command->add_option("--model", arguments->model, "model name (default: the server's first)");
    command->add_option("--system", arguments->system, "system message");
    command->add_option("--api-key", arguments->api_key, "key, when the server asks for one")
        ->envname("TAPROOT_API_KEY");
    command->add_option("--max-tokens", arguments->max_tokens, "longest answer (default 512)");
    command
        ->add_option("--temperature", arguments->temperature,
                     "0 = always the likeliest token (default 0.7)")
        ->check(CLI::Range(0.0, 2.0));
    command->callback([arguments, &run] { run = [arguments] { return chat(*arguments); }; });
}

}  // namespace taproot::cli
