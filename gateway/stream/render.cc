// SPDX-License-Identifier: Apache-2.0
#include "gateway/stream/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/openai/json_writer.h"

namespace taproot::gateway {
namespace {

// The text of one token on its own: bytes that are no character show as U+FFFD, `bytes` tells them.
std::string token_text(const Vocab& vocab, TokenId token) {
    std::string out;
    Utf8Assembler assembler;
    assembler.push(vocab.token_bytes(token), &out);
    assembler.flush(&out);
    return out;
}

void append_token_and_bytes(std::string& out, const Vocab& vocab, TokenId token, float logprob) {
    out += "\"token\":";
    append_json_string(out, token_text(vocab, token));
    out += ",\"logprob\":";
    append_json_number(out, static_cast<double>(logprob));
    out += ",\"bytes\":[";
    bool first = true;
    for (char byte : vocab.token_bytes(token)) {
        if (!first) out += ',';
        first = false;
        append_json_number(out, static_cast<std::int64_t>(static_cast<unsigned char>(byte)));
    }
    out += ']';
}

void append_ids(std::string& out, const std::vector<TokenId>& ids) {
    out += ",\"token_ids\":[";
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (i > 0) out += ',';
        append_json_number(out, static_cast<std::int64_t>(ids[i]));
    }
    out += ']';
}

}  // namespace

std::string_view finish_name(link::FinishReason reason) {
    return reason == link::FinishReason::kLength ? "length" : "stop";
}

void append_usage(std::string& out, const Usage& usage) {
    fmt::format_to(std::back_inserter(out),
                   "{{\"prompt_tokens\":{},\"completion_tokens\":{},\"total_tokens\":{},"
                   "\"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
                   usage.prompt_tokens, usage.completion_tokens,
                   std::uint64_t{usage.prompt_tokens} + usage.completion_tokens,
                   usage.cached_tokens);
}

AnswerWriter::AnswerWriter(const Vocab& vocab, const GenerateSpec& spec, AnswerIdentity identity)
    : vocab_(vocab),
      chat_(spec.endpoint == Endpoint::kChat),
      logprobs_(spec.sampling.logprobs.has_value()),
      return_token_ids_(spec.return_token_ids),
      usage_null_(spec.include_usage),
      identity_(std::move(identity)) {
    std::string_view object = spec.stream ? (chat_ ? "chat.completion.chunk" : "text_completion")
                                          : (chat_ ? "chat.completion" : "text_completion");
    head_ = "{\"id\":";
    append_json_string(head_, identity_.id);
    fmt::format_to(std::back_inserter(head_),
                   ",\"object\":\"{}\",\"created\":{},\"model\":", object, identity_.created);
    append_json_string(head_, identity_.model);
    head_ += ",\"system_fingerprint\":";
    append_json_string(head_, identity_.fingerprint);
    head_ += ",\"choices\":[";
}

// --- logprobs
// ---------------------------------------------------------------------------------------

void AnswerWriter::append_logprobs(std::string& out,
                                   const std::vector<LogprobEntry>& entries) const {
    out += ",\"logprobs\":";
    if (!logprobs_)
        out += "null";
    else if (chat_)
        append_chat_logprobs(out, entries);
    else
        append_legacy_logprobs(out, entries);
}

void AnswerWriter::append_chat_logprobs(std::string& out,
                                        const std::vector<LogprobEntry>& entries) const {
    out += "{\"content\":[";
    for (std::size_t i = 0; i < entries.size(); ++i) {
        out += i > 0 ? ",{" : "{";
        append_token_and_bytes(out, vocab_, entries[i].token, entries[i].logprob);
        out += ",\"top_logprobs\":[";
        for (std::size_t k = 0; k < entries[i].top.size(); ++k) {
            out += k > 0 ? ",{" : "{";
            append_token_and_bytes(out, vocab_, entries[i].top[k].token, entries[i].top[k].logprob);
            out += '}';
        }
        out += "]}";
    }
    out += "],\"refusal\":null}";
}

void AnswerWriter::append_legacy_logprobs(std::string& out,
                                          const std::vector<LogprobEntry>& entries) const {
    auto list = [&](std::string_view name, auto append_one) {
        out += name;
        for (std::size_t i = 0; i < entries.size(); ++i) {
            if (i > 0) out += ',';
            append_one(entries[i]);
        }
        out += ']';
    };
    list("{\"tokens\":[",
         [&](const LogprobEntry& e) { append_json_string(out, token_text(vocab_, e.token)); });
    // The first token of an echoed prompt has no score: NaN marks it.
    list(",\"token_logprobs\":[", [&](const LogprobEntry& e) {
        if (e.logprob != e.logprob)
            out += "null";
        else
            append_json_number(out, static_cast<double>(e.logprob));
    });
    list(",\"top_logprobs\":[", [&](const LogprobEntry& e) {
        if (e.logprob != e.logprob) {
            out += "null";
            return;
        }
        out += '{';
        std::vector<std::string> names;  // tokens that read alike would be one key twice
        for (const link::TokenLogprob& top : e.top) {
            std::string name = token_text(vocab_, top.token);
            if (std::find(names.begin(), names.end(), name) != names.end()) continue;
            if (!names.empty()) out += ',';
            append_json_string(out, name);
            out += ':';
            append_json_number(out, static_cast<double>(top.logprob));
            names.push_back(std::move(name));
        }
        out += '}';
    });
    list(",\"text_offset\":[", [&](const LogprobEntry& e) {
        append_json_number(out, static_cast<std::int64_t>(e.text_offset));
    });
    out += '}';
}

void AnswerWriter::append_stop_reason(std::string& out,
                                      const std::optional<std::string>& stop_string,
                                      std::optional<TokenId> stop_token) const {
    out += ",\"stop_reason\":";
    if (stop_string)
        append_json_string(out, *stop_string);
    else if (stop_token)
        append_json_number(out, static_cast<std::int64_t>(*stop_token));
    else
        out += "null";
}

// --- whole answers
// ----------------------------------------------------------------------------------

void AnswerWriter::write_whole(std::string& out, const std::vector<ChoiceAnswer>& choices,
                               const Usage& usage) const {
    out += head_;
    for (std::size_t i = 0; i < choices.size(); ++i) {
        const ChoiceAnswer& choice = choices[i];
        if (i > 0) out += ',';
        fmt::format_to(std::back_inserter(out), "{{\"index\":{}", choice.index);
        out += chat_ ? ",\"message\":{\"role\":\"assistant\",\"content\":" : ",\"text\":";
        append_json_string(out, choice.all.text);
        if (chat_) out += ",\"refusal\":null}";
        append_logprobs(out, choice.all.logprobs);
        fmt::format_to(std::back_inserter(out), ",\"finish_reason\":\"{}\"",
                       finish_name(choice.finish));
        append_stop_reason(out, choice.stop_string, choice.stop_token);
        if (return_token_ids_) append_ids(out, choice.all.tokens);
        out += '}';
    }
    out += "],\"usage\":";
    append_usage(out, usage);
    out += '}';
}

// --- streams
// ----------------------------------------------------------------------------------------

void AnswerWriter::begin_chunk(std::string& out) const {
    out += "data: ";
    out += head_;
}

void AnswerWriter::end_chunk(std::string& out, const Usage* usage) const {
    out += ']';
    if (usage != nullptr) {
        out += ",\"usage\":";
        append_usage(out, *usage);
    } else if (usage_null_) {
        out += ",\"usage\":null";
    }
    out += "}\n\n";
}

void AnswerWriter::write_first(std::string& out, std::uint32_t choice, const Usage* usage) const {
    if (!chat_) return;
    begin_chunk(out);
    fmt::format_to(
        std::back_inserter(out),
        "{{\"index\":{},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null,"
        "\"finish_reason\":null}}",
        choice);
    end_chunk(out, usage);
}

void AnswerWriter::append_delta_line(std::string& out, std::uint32_t choice, std::string_view text,
                                     const ChoiceStream::Delta* extras, const Usage* usage) const {
    begin_chunk(out);
    fmt::format_to(std::back_inserter(out), "{{\"index\":{},{}", choice,
                   chat_ ? "\"delta\":{\"content\":" : "\"text\":");
    append_json_string(out, text);
    if (chat_) out += '}';
    if (extras != nullptr && logprobs_)
        append_logprobs(out, extras->logprobs);
    else
        out += ",\"logprobs\":null";
    out += ",\"finish_reason\":null";
    if (extras != nullptr && return_token_ids_) append_ids(out, extras->tokens);
    out += '}';
    end_chunk(out, usage);
}

void AnswerWriter::write_delta(std::string& out, std::uint32_t choice,
                               const ChoiceStream::Delta& delta, const Usage* usage) const {
    if (delta.empty()) return;
    // Escaping makes at most six bytes of one; the rest of a line is small.
    constexpr std::size_t kPieceBytes = kSseLineBytesMax / 8;
    std::string_view text = delta.text;
    const ChoiceStream::Delta* extras = &delta;
    while (true) {
        std::size_t cut = std::min(text.size(), kPieceBytes);
        while (cut < text.size() && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;
        append_delta_line(out, choice, text.substr(0, cut), extras, usage);
        text.remove_prefix(cut);
        extras = nullptr;
        if (text.empty()) return;
    }
}

void AnswerWriter::write_finish(std::string& out, std::uint32_t choice, link::FinishReason finish,
                                const std::optional<std::string>& stop_string,
                                std::optional<TokenId> stop_token, const Usage* usage) const {
    begin_chunk(out);
    fmt::format_to(std::back_inserter(out),
                   "{{\"index\":{},{},\"logprobs\":null,\"finish_reason\":\"{}\"", choice,
                   chat_ ? "\"delta\":{}" : "\"text\":\"\"", finish_name(finish));
    append_stop_reason(out, stop_string, stop_token);
    out += '}';
    end_chunk(out, usage);
}

void AnswerWriter::write_usage(std::string& out, const Usage& usage) const {
    begin_chunk(out);
    end_chunk(out, &usage);
}

void AnswerWriter::write_done(std::string& out) {
    out += "data: [DONE]\n\n";
}

void AnswerWriter::write_error(std::string& out, std::string_view error_body) {
    out += "data: ";
    out += error_body;
    out += "\n\n";
}

}  // namespace taproot::gateway
