// SPDX-License-Identifier: Apache-2.0
#include "cli/reuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/parse.hpp>

#include "cli/json_text.h"

namespace taproot::cli {
namespace {

namespace json = boost::json;

Result<std::vector<std::int32_t>> tokenize(const HttpClient& client,
                                           const std::vector<ChatTurn>& turns) {
    json::array messages;
    for (const ChatTurn& turn : turns)
        messages.push_back({{"role", turn.role}, {"content", turn.content}});
    TAPROOT_TRY(ClientResponse response,
                client.post("/tokenize", json_text(json::object{{"messages", std::move(messages)}}),
                            nullptr));
    boost::system::error_code code;
    json::value body = json::parse(response.body, code);
    const json::value* tokens = code ? nullptr : body.find_pointer("/tokens", code);
    if (response.status != 200 || tokens == nullptr || !tokens->is_array())
        return Error{ErrorCode::kUnavailable,
                     fmt::format("/tokenize answered HTTP {}", response.status)};
    std::vector<std::int32_t> out;
    for (const json::value& id : tokens->get_array())
        out.push_back(static_cast<std::int32_t>(id.to_number<std::int64_t>()));
    return out;
}

std::size_t common_prefix(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b,
                          std::size_t b_size) {
    std::size_t most = std::min(a.size(), b_size), i = 0;
    while (i < most && a[i] == b[i]) ++i;
    return i;
}

}  // namespace

Result<ReuseReport> measure_reuse(const HttpClient& client, std::vector<ServedRequest> requests) {
    std::sort(requests.begin(), requests.end(),
              [](const auto& a, const auto& b) { return a.sent_at_ms < b.sent_at_ms; });
    struct Known {
        std::vector<std::int32_t> ids;  // prompt, then answer
        std::size_t prompt = 0;
        double finished_at_ms = 0;
    };
    std::vector<Known> known;
    ReuseReport report;
    for (const ServedRequest& request : requests) {
        TAPROOT_TRY(std::vector<std::int32_t> ids, tokenize(client, request.turns));
        std::size_t possible = 0;
        for (const Known& earlier : known) {
            bool answered =
                earlier.finished_at_ms <= request.sent_at_ms && earlier.ids.size() > earlier.prompt;
            std::size_t computed = answered ? earlier.ids.size() - 1 : earlier.prompt;
            possible = std::max(possible, common_prefix(ids, earlier.ids, computed));
        }
        report.prompt_tokens += ids.size();
        report.possible_tokens += std::min(possible, ids.size() - 1);
        report.cached_tokens += request.cached_tokens;
        Known mine{std::move(ids), 0, request.finished_at_ms};
        mine.prompt = mine.ids.size();
        mine.ids.insert(mine.ids.end(), request.answer_ids.begin(), request.answer_ids.end());
        known.push_back(std::move(mine));
    }
    return report;
}

}  // namespace taproot::cli
