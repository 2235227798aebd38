// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cli/chat_client.h"
#include "cli/http_client.h"

namespace taproot::cli {

// One request of a workload, as the fleet saw it.
struct ServedRequest {
    std::vector<ChatTurn> turns;
    std::vector<std::int32_t> answer_ids;
    std::uint32_t cached_tokens = 0;
    double sent_at_ms = 0;  // on one clock for the whole workload
    double finished_at_ms = 0;
};

struct ReuseReport {
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;
    std::uint64_t possible_tokens = 0;  // see below
    [[nodiscard]] double share() const {
        return possible_tokens == 0
                   ? 1
                   : static_cast<double>(cached_tokens) / static_cast<double>(possible_tokens);
    }
};

// What could have been reused: of each prompt the longest beginning that an earlier request of the
// fleet had computed or was computing when this one was sent: its prompt, and its answer (less the
// last token, whose KV nobody needs) when it had finished. Capped at prompt - 1: one token must be
// computed to have logits. Asks the server to tokenise each prompt.
Result<ReuseReport> measure_reuse(const HttpClient& client, std::vector<ServedRequest> requests);

}  // namespace taproot::cli
