// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "policies/batch/policy.h"

namespace taproot {

namespace {

// Attention pairs of n tokens after `position`: token i attends position + i + 1 tokens.
double pairs(double n, double position) {
    return n * position + n * (n + 1) / 2;
}

// The most tokens after `position` that fit in budget_ms: the root of
// n * token + pairs(n, position) * pair = budget.
std::uint32_t tokens_within(const StepCost& cost, std::uint32_t position, double budget_ms,
                            std::uint32_t most) {
    if (budget_ms <= 0) return 0;
    const double linear =
        cost.prefill_token_ms + cost.prefill_pair_ms * (static_cast<double>(position) + 0.5);
    const double square = cost.prefill_pair_ms / 2;
    double n = most;
    if (square > 0) {
        // The form without cancellation, exact also where the square term is tiny.
        n = 2 * budget_ms / (linear + std::sqrt(linear * linear + 4 * square * budget_ms));
    } else if (linear > 0) {
        n = budget_ms / linear;
    }
    return n >= most ? most : static_cast<std::uint32_t>(n);
}

// Of the step's target: what a prompt may take when decodes leave less.
constexpr double kProgressShare = 0.5;
// A step may be longer by this share when that completes a prompt: its first token comes a whole
// step earlier.
constexpr double kCompletionShare = 0.25;

}  // namespace

BatchDecision batch_decode_first(const BatchView& view) {
    BatchDecision out;
    out.grants.assign(view.prefills.size(), 0);
    StepWork work{.decode_streams = view.decode_streams,
                  .decode_context_tokens = view.decode_context_tokens};
    const double decode_ms = view.cost.predict_ms(work);
    const bool bounded = view.decode_streams > 0;
    double budget_ms = view.step_ms_target - decode_ms;
    double progress_ms = view.step_ms_target * kProgressShare;
    const double completion_ms = view.step_ms_target * kCompletionShare;
    std::uint32_t room = view.prefill_tokens_max;
    double pair_count = 0;
    for (std::size_t i = 0; i < view.prefills.size() && room > 0; ++i) {
        const PrefillView& prefill = view.prefills[i];
        const std::uint32_t most = std::min(prefill.remaining_tokens, room);
        std::uint32_t grant = most;
        if (bounded) {
            grant = tokens_within(view.cost, prefill.position, budget_ms, most);
            if (most == prefill.remaining_tokens && grant > 0 && grant < most &&
                tokens_within(view.cost, prefill.position, budget_ms + completion_ms, most) ==
                    most) {
                grant = most;
            }
            // Some progress beside decodes in every step, however full it is; deep in a long prompt
            // its time is bounded too.
            if (out.prefill_tokens < view.prefill_tokens_min) {
                const std::uint32_t least =
                    std::min(most, view.prefill_tokens_min - out.prefill_tokens);
                grant = std::max({grant, out.prefill_tokens == 0 ? std::min(most, 1u) : 0u,
                                  tokens_within(view.cost, prefill.position, progress_ms, least)});
            }
        }
        if (grant == 0) break;
        const double added = pairs(grant, prefill.position);
        const double added_ms =
            view.cost.prefill_token_ms * grant + view.cost.prefill_pair_ms * added;
        budget_ms -= added_ms;
        progress_ms -= added_ms;
        pair_count += added;
        out.grants[i] = grant;
        out.prefill_tokens += grant;
        room -= grant;
    }
    work.prefill_tokens = out.prefill_tokens;
    work.prefill_context_pairs = static_cast<std::uint64_t>(pair_count);
    out.predicted_ms = view.cost.predict_ms(work);
    if (!bounded) {
        out.reason = fmt::format("no decode runs: {} prompt tokens", out.prefill_tokens);
    } else {
        out.reason =
            fmt::format("{} decodes take {:.1f} ms of {:.1f}: {} prompt tokens fit",
                        view.decode_streams, decode_ms, view.step_ms_target, out.prefill_tokens);
    }
    return out;
}

}  // namespace taproot
