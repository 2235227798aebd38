// SPDX-License-Identifier: Apache-2.0
#include "worker/sched/request_check.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace taproot {
namespace {

// A sentence about what is wrong, or an empty string.
std::string wrong_sampling(const link::SamplingParams& sampling) {
    struct Range {
        const char* name;
        float value;
        float low;
        float high;
    };
    constexpr float kHuge = 1e6f;
    const Range ranges[] = {
        {"temperature", sampling.temperature, 0, kHuge},
        {"top_p", sampling.top_p, 0, 1},
        {"min_p", sampling.min_p, 0, 1},
        {"repetition_penalty", sampling.repetition_penalty, 1e-6f, kHuge},
        {"presence_penalty", sampling.presence_penalty, -kHuge, kHuge},
        {"frequency_penalty", sampling.frequency_penalty, -kHuge, kHuge},
    };
    for (const Range& range : ranges) {
        if (!(range.value >= range.low && range.value <= range.high))
            return fmt::format("{} is {}, allowed {} to {}", range.name, range.value, range.low,
                               range.high);
    }
    for (const link::LogitBias& bias : sampling.logit_bias)
        if (!std::isfinite(bias.bias)) return "logit_bias holds a number that is not finite";
    return {};
}

std::string wrong_shape(const link::Generate& spec, int tokens) {
    if (spec.prompt.empty()) return "the prompt is empty";
    if (spec.choices == 0) return "choices is 0";
    if (spec.max_tokens == 0 && !spec.sampling.prompt_logprobs)
        return "max_tokens is 0 and no prompt log-probabilities are asked for";
    for (std::size_t i = 0; i < spec.prompt.size(); ++i) {
        if (spec.prompt[i] < 0 || spec.prompt[i] >= tokens)
            return fmt::format("prompt token {} is {}, allowed 0 to {}", i, spec.prompt[i],
                               tokens - 1);
    }
    return wrong_sampling(spec.sampling);
}

}  // namespace

std::optional<link::Rejected> check_request(const link::Generate& spec, std::uint32_t model_len_max,
                                            int tokens) {
    std::string wrong = wrong_shape(spec, tokens);
    if (!wrong.empty())
        return link::Rejected{spec.request, link::RejectReason::kInvalid, std::move(wrong), 0};
    std::size_t needed = spec.prompt.size() + (spec.max_tokens > 0 ? 1 : 0);
    if (needed > model_len_max)
        return link::Rejected{
            spec.request, link::RejectReason::kTooLong,
            fmt::format("the prompt has {} tokens and needs room for at least {} more; this model "
                        "serves {} tokens in all",
                        spec.prompt.size(), needed - spec.prompt.size(), model_len_max),
            0};
    return std::nullopt;
}

}  // namespace taproot
