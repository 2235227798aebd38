// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "policies/batch/cost_model.h"

// What runs in the next step: how many prompt tokens join the decodes. Pure functions, any thread.
namespace taproot {

struct PrefillView {
    std::uint32_t remaining_tokens = 0;  // uncached prompt tokens left
    std::uint32_t position = 0;          // context before its next token
};

struct BatchView {
    std::uint32_t decode_streams = 0;
    std::uint64_t decode_context_tokens = 0;     // summed over the streams
    std::span<const PrefillView> prefills = {};  // in the order they should be served
    StepCost cost;
    double step_ms_target = 50;
    std::uint32_t prefill_tokens_max = 512;  // in one step, all sequences together
    // Progress beside decodes even when they fill the step, while it takes at most half of its
    // target (one token at least).
    std::uint32_t prefill_tokens_min = 16;
};

struct BatchDecision {
    std::vector<std::uint32_t> grants;  // prompt tokens per prefill, same order; may be 0
    std::uint32_t prefill_tokens = 0;   // their sum
    double predicted_ms = 0;            // of the whole step
    std::string reason;
};

using BatchPolicy = BatchDecision (*)(const BatchView& view);

// All decodes first; prompt tokens fill what is left of step_ms_target, first prefill first, and a
// quarter of it more when that completes a prompt. With no decode running nobody waits for the
// step, so the bound is prefill_tokens_max alone.
BatchDecision batch_decode_first(const BatchView& view);

}  // namespace taproot
