// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "link/messages.h"

namespace taproot {

// Repetition, frequency and presence penalties of one choice. Definitions: repetition r > 0 over
// the distinct tokens of prompt and output (l > 0 ? l / r : l * r), then l -= frequency *
// count(output), then l -= presence where count(output) > 0. Owner: the engine thread. Costs
// nothing when all three are off; else one visit per distinct token and step.
class Penalties {
public:
    Penalties() = default;

    // Remembers the prompt. `tokens`: ids below this exist; others are ignored.
    Penalties(const link::SamplingParams& sampling, std::span<const TokenId> prompt, int tokens);

    [[nodiscard]] bool active() const { return active_; }

    // A token was sampled: it counts from the next step on.
    void on_output(TokenId token);

    // Changes logits[0, tokens) in place.
    void apply(std::span<float> logits) const;

private:
    void remember(TokenId token);

    bool active_ = false;
    float repetition_ = 1.0f;
    float presence_ = 0.0f;
    float frequency_ = 0.0f;
    int tokens_ = 0;
    std::vector<std::uint64_t> seen_;  // one bit per token id
    std::vector<TokenId> distinct_;    // prompt and output, in order of first sight
    std::unordered_map<TokenId, std::uint32_t> output_counts_;
};

}  // namespace taproot
