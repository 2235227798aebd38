// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"

namespace taproot {

// GGUF token types (tokenizer.ggml.token_type).
enum class TokenType : std::uint8_t {
    kUndefined = 0,
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6,
};

// Everything a model file says about its text: plain data, no behaviour. The worker fills it from
// the model file, the link carries it to the gateway (so that the gateway needs no model file), and
// text/tokenizer.h and text/chat_template.h are built from it. Immutable once filled.
struct TextModel {
    std::string model;                // tokenizer.ggml.model: "gpt2" = byte-level BPE
    std::string pre;                  // tokenizer.ggml.pre: "smollm", "llama-bpe", "qwen2", ...
    std::vector<std::string> tokens;  // [vocab] as stored: byte-level text for normal tokens
    std::vector<TokenType> types;     // [vocab], or empty = all normal
    std::vector<std::string> merges;  // "left right", by rank
    std::optional<TokenId> bos;
    std::optional<TokenId> eos;
    std::optional<TokenId> eot;  // end of turn, when the model has one beside eos
    std::optional<TokenId> unknown;
    std::optional<TokenId> padding;
    bool add_bos = false;
    bool add_eos = false;
    std::string chat_template;  // Jinja source; empty when the model has none

    friend bool operator==(const TextModel&, const TextModel&) = default;
};

// All ids that end a generation: eos, eot, and control tokens that model makers use for it by name
// (<|im_end|>, <|eot_id|>, <|end|>, <|endoftext|>, <end_of_turn>, ...). Sorted, unique.
std::vector<TokenId> end_tokens(const TextModel& model);

}  // namespace taproot
