// SPDX-License-Identifier: Apache-2.0
#include "gateway/pipeline/model_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "gateway/fleet/model_text.h"

namespace taproot::gateway {

Result<void> check_token_ids(const GenerateSpec& spec, const ModelInfo& model) {
    auto size = static_cast<TokenId>(
        std::min<std::size_t>(model.text->tokenizer.vocab_size(), model.vocab));
    auto bad = [size](TokenId id) { return id < 0 || id >= size; };
    auto refuse = [size](std::string_view field, TokenId id) {
        return invalid_argument(
            fmt::format("'{}': {} is not a token id of this model (0..{})", field, id, size - 1),
            std::string(field));
    };
    for (const link::LogitBias& bias : spec.sampling.logit_bias)
        if (bad(bias.token)) return refuse("logit_bias", bias.token);
    for (TokenId id : spec.sampling.stop_tokens)
        if (bad(id)) return refuse("stop_token_ids", id);
    for (const CompletionPrompt& prompt : spec.prompts)
        if (const auto* ids = std::get_if<TokenPrompt>(&prompt))
            if (auto it = std::find_if(ids->begin(), ids->end(), bad); it != ids->end())
                return refuse("prompt", *it);
    return {};
}

std::variant<std::uint32_t, LengthRefusal> generation_limit(const GenerateSpec& spec,
                                                            const ModelInfo& model,
                                                            std::size_t prompt_tokens) {
    auto refuse = [&](std::string param, std::string message) {
        ApiError error;
        error.status = 400;
        error.type = "invalid_request_error";
        error.code = "context_length_exceeded";
        error.param = std::move(param);
        error.message = std::move(message);
        error.prompt_tokens = static_cast<std::uint32_t>(prompt_tokens);
        error.context_tokens = model.max_model_len;
        return LengthRefusal{std::move(error)};
    };
    std::size_t context = model.max_model_len;
    bool scores_only = spec.max_tokens == 0u;
    if (prompt_tokens + (scores_only ? 0 : 1) > context)
        return refuse(
            spec.endpoint == Endpoint::kChat ? "messages" : "prompt",
            fmt::format(
                "This model's maximum context length is {} tokens. However, your prompt contains "
                "{} input tokens. Please reduce the length of the input. "
                "(context_length_exceeded)",
                context, prompt_tokens));
    if (spec.max_tokens && *spec.max_tokens > context)
        return refuse(
            "max_tokens",
            fmt::format(
                "'max_tokens' of {} cannot be greater than the model's maximum context length of "
                "{} tokens. (context_length_exceeded)",
                *spec.max_tokens, context));
    auto room = static_cast<std::uint32_t>(context - prompt_tokens);
    std::uint32_t limit = std::min(spec.max_tokens.value_or(room), room);
    if (spec.sampling.min_tokens > limit)
        return refuse("min_tokens",
                      fmt::format("'min_tokens' of {} is more than the {} tokens this request may "
                                  "generate",
                                  spec.sampling.min_tokens, limit));
    return limit;
}

}  // namespace taproot::gateway
