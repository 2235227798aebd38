// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "link/codec.h"

namespace taproot::link {
namespace {

Error out_of_range(const char* where, double value, const char* allowed) {
    return invalid_argument(fmt::format("is {}, allowed: {}", value, allowed), where);
}

Result<void> check_count(const char* where, std::size_t count, std::size_t count_max) {
    if (count <= count_max) return {};
    return invalid_argument(fmt::format("has {} elements, allowed {}", count, count_max), where);
}

// Ranges that any sampler can compute with; what clients may ask for is narrower (gateway/openai).
Result<void> validate(const SamplingParams& m) {
    auto finite_at_least_zero = [](float value) { return std::isfinite(value) && value >= 0; };
    if (!finite_at_least_zero(m.temperature))
        return out_of_range("SamplingParams.temperature", m.temperature, "finite, 0 or more");
    if (!(m.top_p >= 0 && m.top_p <= 1))
        return out_of_range("SamplingParams.top_p", m.top_p, "0..1");
    if (!(m.min_p >= 0 && m.min_p <= 1))
        return out_of_range("SamplingParams.min_p", m.min_p, "0..1");
    if (!finite_at_least_zero(m.repetition_penalty) || m.repetition_penalty == 0)
        return out_of_range("SamplingParams.repetition_penalty", m.repetition_penalty,
                            "finite, above 0");
    if (!std::isfinite(m.presence_penalty))
        return out_of_range("SamplingParams.presence_penalty", m.presence_penalty, "finite");
    if (!std::isfinite(m.frequency_penalty))
        return out_of_range("SamplingParams.frequency_penalty", m.frequency_penalty, "finite");
    TAPROOT_CHECK_OK(check_count("SamplingParams.logit_bias", m.logit_bias.size(), kLogitBiasMax));
    for (const LogitBias& entry : m.logit_bias)
        if (entry.token < 0 || !std::isfinite(entry.bias))
            return invalid_argument("has a negative token or a bias that is not finite",
                                    "SamplingParams.logit_bias");
    TAPROOT_CHECK_OK(
        check_count("SamplingParams.stop_tokens", m.stop_tokens.size(), kStopTokensMax));
    for (TokenId token : m.stop_tokens)
        if (token < 0) return invalid_argument("has a negative id", "SamplingParams.stop_tokens");
    if (m.logprobs.value_or(0) > kTopLogprobsMax)
        return out_of_range("SamplingParams.logprobs", *m.logprobs, "0..1024");
    if (m.prompt_logprobs.value_or(0) > kTopLogprobsMax)
        return out_of_range("SamplingParams.prompt_logprobs", *m.prompt_logprobs, "0..1024");
    return {};
}

}  // namespace

Result<void> validate(const Generate& m) {
    if (m.prompt.empty()) return invalid_argument("is empty", "Generate.prompt");
    TAPROOT_CHECK_OK(check_count("Generate.prompt", m.prompt.size(), kPromptTokensMax));
    TokenId all = 0;
    for (TokenId token : m.prompt) all |= token;
    if (all < 0) return invalid_argument("has a negative token id", "Generate.prompt");
    if (m.choices == 0 || m.choices > kChoicesMax)
        return out_of_range("Generate.choices", m.choices, "1..1024");
    if (m.max_tokens == 0 && !m.sampling.prompt_logprobs)
        return invalid_argument("is 0 although the prompt is not scored", "Generate.max_tokens");
    return validate(m.sampling);
}

}  // namespace taproot::link
