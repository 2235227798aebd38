// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/types.h"
#include "link/messages.h"
#include "text/jinja/value.h"

namespace taproot::gateway {

// A request in native types: JSON is parsed once, into this, and never again.
// What is checked here needs no model; ids against the vocabulary and lengths against the context
// are checked in pipeline/ once the model is known.

struct ChatPrompt {
    jinja::Value messages;  // list of dicts, content flattened to one string each
    jinja::Value template_kwargs =
        jinja::Value::dict();  // dict: enable_thinking and the like; empty when none
    bool add_generation_prompt = true;
    bool continue_final_message = false;
};
using TokenPrompt = std::vector<TokenId>;
using TextPrompt = std::string;
using CompletionPrompt = std::variant<TextPrompt, TokenPrompt>;

enum class Endpoint : std::uint8_t { kChat, kCompletions };

struct GenerateSpec {
    Endpoint endpoint = Endpoint::kChat;
    std::optional<std::string> model;       // absent: the fleet's first
    ChatPrompt chat;                        // endpoint kChat
    std::vector<CompletionPrompt> prompts;  // endpoint kCompletions, at least one

    std::uint16_t choices = 1;                // n, per prompt
    std::optional<std::uint32_t> max_tokens;  // absent: what fits (chat), 16 (completions)
    link::SamplingParams sampling;            // logprobs included
    bool seed_given = false;                  // else the pipeline draws one

    std::vector<std::string> stop;  // strings; matched on text, at the gateway
    bool include_stop = false;
    bool skip_special_tokens = true;
    bool echo = false;               // completions: the prompt's text comes first
    bool add_special_tokens = true;  // completions: BOS when the model wants it

    bool stream = false;
    bool include_usage = false;
    bool continuous_usage = false;
    bool return_token_ids = false;

    std::int32_t priority = 0;
    std::string cache_salt;  // tenants with different salts share no KV
    std::string session;     // prompt_cache_key or user: session_hash routing
};

}  // namespace taproot::gateway
