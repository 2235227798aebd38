// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cli/http_client.h"

namespace taproot::cli {

struct ChatTurn {
    std::string role;
    std::string content;
};

struct ChatOptions {
    std::string model;             // empty: the server's first
    std::uint32_t max_tokens = 0;  // 0 = not sent
    double temperature = 0;
    bool ignore_eos = false;
    bool return_token_ids = false;
    // When it becomes true the connection is closed after the next line: a client that left. The
    // reply then holds what had come.
    const std::atomic<bool>* stop = nullptr;
};

// One streamed answer with the times a user feels.
struct ChatReply {
    std::string text;
    std::uint32_t prompt_tokens = 0;
    std::uint32_t cached_tokens = 0;
    std::uint32_t completion_tokens = 0;
    std::vector<std::int32_t> token_ids;  // of the answer, when asked for
    double ttft_ms = 0;                   // request sent to first text
    double decode_ms = 0;                 // first text to end
    double itl_max_ms = 0;                // longest gap between texts
    std::vector<TimePoint> text_times;    // arrival of each text
    std::string worker;                   // x-taproot-worker
    std::string request_id;
};

// POST /v1/chat/completions, streamed. `on_text` (may be null) sees each delta. Errors carry the
// server's message.
Result<ChatReply> stream_chat(const HttpClient& client, const std::vector<ChatTurn>& turns,
                              const ChatOptions& options,
                              const std::function<void(std::string_view)>& on_text);

}  // namespace taproot::cli
