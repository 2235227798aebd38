// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gateway/openai/generate_spec.h"
#include "gateway/stream/stop_matcher.h"
#include "link/messages.h"
#include "text/detokenizer.h"

namespace taproot::gateway {

// One token as the API's logprobs report it.
struct LogprobEntry {
    TokenId token = 0;
    float logprob = 0;
    std::vector<link::TokenLogprob> top;
    std::uint32_t text_offset =
        0;  // characters of the choice's text before this token (completions)
};

// One choice of one request on its way to the client: tokens in, certain text out. The text of a
// stream and of a whole answer are the same bytes, because both come from here.
// Owner: the I/O thread. O(bytes) per token.
class ChoiceStream {
public:
    ChoiceStream(const Vocab& vocab, const GenerateSpec& spec);

    struct Step {
        bool stop_string_matched = false;  // the worker must be told to end this choice
    };
    // After finished() tokens are ignored: the worker may be a step ahead of a stop string.
    Step push(const link::TokenOutput& output);

    [[nodiscard]] bool finished() const { return finish_ != link::FinishReason::kNone; }
    [[nodiscard]] link::FinishReason finish() const { return finish_; }
    // "stop_reason" of vLLM: the matched string, or the id of a stop token the client named.
    [[nodiscard]] const std::optional<std::string>& stop_string() const { return stop_string_; }
    [[nodiscard]] std::optional<TokenId> stop_token() const { return stop_token_; }
    [[nodiscard]] std::uint32_t completion_tokens() const { return completion_tokens_; }

    // What became certain since the last take: text, logprob entries (one per token, even where its
    // text is still held back), ids.
    struct Delta {
        std::string text;
        std::vector<LogprobEntry> logprobs;
        std::vector<TokenId> tokens;
        [[nodiscard]] bool empty() const {
            return text.empty() && logprobs.empty() && tokens.empty();
        }
    };
    [[nodiscard]] const Delta& pending() const { return pending_; }
    Delta take() { return std::exchange(pending_, {}); }

    // Completions with echo: the prompt's text and scores come first.
    void prepend(std::string text, std::vector<LogprobEntry> logprobs);

private:
    void end(link::FinishReason reason);

    Detokenizer detokenizer_;
    StopMatcher stops_;
    std::uint32_t min_tokens_;
    bool keep_logprobs_;
    bool keep_tokens_;
    std::vector<TokenId> client_stop_tokens_;
    Delta pending_;
    std::string piece_;  // reused
    std::uint32_t completion_tokens_ = 0;
    std::uint32_t text_characters_ = 0;
    link::FinishReason finish_ = link::FinishReason::kNone;
    std::optional<std::string> stop_string_;
    std::optional<TokenId> stop_token_;
};

// Unicode characters in valid UTF-8.
std::uint32_t count_characters(std::string_view text);

}  // namespace taproot::gateway
