// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/http_client.h"

namespace taproot::cli {
namespace {

struct ExplainArguments {
    std::string request_id;
    std::string url = "http://127.0.0.1:8080";
    std::string api_key;
};

int explain(const ExplainArguments& arguments) {
    Result<ServerUrl> url = parse_server_url(arguments.url);
    if (!url) {
        fmt::print(stderr, "taproot explain: {}\n", url.error().describe());
        return 2;
    }
    HttpClient client(std::move(*url), arguments.api_key);
    std::string encoded;
    for (char c : arguments.request_id)
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.')
            encoded += c;
        else
            encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    Result<ClientResponse> response = client.get("/debug/route?request_id=" + encoded);
    if (!response) {
        fmt::print(stderr, "taproot explain: {}\n", response.error().describe());
        return 1;
    }
    fmt::print("{}\n", response->body);
    return response->status == 200 ? 0 : 1;
}

}  // namespace

void add_explain(CLI::App& app, RunCommand& run) {
    auto arguments = std::make_shared<ExplainArguments>();
    CLI::App* command = app.add_subcommand(
        "explain", "Why a request went to its worker: candidates, costs, reason");
    command->add_option("request_id", arguments->request_id, "the x-request-id of the answer")
        ->required();
    command->add_option("--url", arguments->url, "server (default http://127.0.0.1:8080)");
    command->add_option("--api-key", arguments->api_key, "key, when the server asks for one")
        ->envname("TAPROOT_API_KEY");
    command->callback([arguments, &run] { run = [arguments] { return explain(*arguments); }; });
}

}  // namespace taproot::cli
