// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/openai/generate_spec.h"
#include "gateway/stream/choice_stream.h"

namespace taproot::gateway {

struct Usage {
    std::uint32_t prompt_tokens = 0;
    std::uint32_t completion_tokens = 0;
    std::uint32_t cached_tokens = 0;
};

// What all parts of one answer share.
struct AnswerIdentity {
    std::string id;            // "chatcmpl-..." or "cmpl-..."
    std::int64_t created = 0;  // unix seconds
    std::string model;
    std::string fingerprint;  // of build, model and KV layout: equal ones give equal bits
};

// One choice of a whole answer.
struct ChoiceAnswer {
    std::uint32_t index = 0;
    ChoiceStream::Delta all;  // text, logprobs, ids from first to last
    link::FinishReason finish = link::FinishReason::kNone;
    std::optional<std::string> stop_string;
    std::optional<TokenId> stop_token;
};

// Writes answers of both endpoints, whole or as server-sent events, straight into a reused buffer.
// Chunks follow the OpenAI sequence: role with the first text, deltas, finish, usage, [DONE]; each
// carries object, id, created and model. No data line is above kSseLineBytesMax.
// Owner: the I/O thread, one per request.
class AnswerWriter {
public:
    static constexpr std::size_t kSseLineBytesMax = 64 * 1024;

    AnswerWriter(const Vocab& vocab, const GenerateSpec& spec, AnswerIdentity identity);

    // The whole answer: application/json.
    void write_whole(std::string& out, const std::vector<ChoiceAnswer>& choices,
                     const Usage& usage) const;

    // Stream events. `usage` (when not null) rides on the chunk: continuous_usage_stats.
    void write_first(std::string& out, std::uint32_t choice,
                     const Usage* usage) const;  // chat: role; else nothing
    void write_delta(std::string& out, std::uint32_t choice, const ChoiceStream::Delta& delta,
                     const Usage* usage) const;
    void write_finish(std::string& out, std::uint32_t choice, link::FinishReason finish,
                      const std::optional<std::string>& stop_string,
                      std::optional<TokenId> stop_token, const Usage* usage) const;
    void write_usage(std::string& out, const Usage& usage) const;
    static void write_done(std::string& out);
    // data: {"error":{...}}: the stream failed after it began.
    static void write_error(std::string& out, std::string_view error_body);

    [[nodiscard]] const AnswerIdentity& identity() const { return identity_; }

private:
    void begin_chunk(std::string& out) const;
    void end_chunk(std::string& out, const Usage* usage) const;
    void append_logprobs(std::string& out, const std::vector<LogprobEntry>& entries) const;
    void append_chat_logprobs(std::string& out, const std::vector<LogprobEntry>& entries) const;
    void append_legacy_logprobs(std::string& out, const std::vector<LogprobEntry>& entries) const;
    void append_stop_reason(std::string& out, const std::optional<std::string>& stop_string,
                            std::optional<TokenId> stop_token) const;
    void append_delta_line(std::string& out, std::uint32_t choice, std::string_view text,
                           const ChoiceStream::Delta* extras, const Usage* usage) const;

    const Vocab& vocab_;
    bool chat_;
    bool logprobs_;
    bool return_token_ids_;
    bool usage_null_;  // include_usage: every chunk but the last says "usage":null
    AnswerIdentity identity_;
    std::string head_;  // {"id":...,"object":...,"created":...,"model":...,"choices":[ of a chunk
};

std::string_view finish_name(link::FinishReason reason);
void append_usage(std::string& out, const Usage& usage);

}  // namespace taproot::gateway
