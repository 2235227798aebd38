// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/penalties.h"

namespace taproot {

Penalties::Penalties(const link::SamplingParams& sampling, std::span<const TokenId> prompt,
                     int tokens)
    : active_(sampling.repetition_penalty != 1.0f || sampling.presence_penalty != 0.0f ||
              sampling.frequency_penalty != 0.0f),
      repetition_(sampling.repetition_penalty),
      presence_(sampling.presence_penalty),
      frequency_(sampling.frequency_penalty),
      tokens_(tokens) {
    if (repetition_ == 1.0f) return;  // only repetition looks at the prompt
    seen_.resize((static_cast<std::size_t>(tokens) + 63) / 64);
    for (TokenId token : prompt) remember(token);
}

void Penalties::remember(TokenId token) {
    if (token < 0 || token >= tokens_) return;
    std::uint64_t& word = seen_[static_cast<std::size_t>(token) / 64];
    std::uint64_t bit = 1ull << (token % 64);
    if ((word & bit) != 0) return;
    word |= bit;
    distinct_.push_back(token);
}

void Penalties::on_output(TokenId token) {
    if (!active_ || token < 0 || token >= tokens_) return;
    if (repetition_ != 1.0f) remember(token);
    ++output_counts_[token];
}

void Penalties::apply(std::span<float> logits) const {
    if (!active_) return;
    for (TokenId token : distinct_) {
        float& logit = logits[static_cast<std::size_t>(token)];
        logit = logit > 0 ? logit / repetition_ : logit * repetition_;
    }
    for (const auto& [token, count] : output_counts_) {  // each token once: order is free
        float& logit = logits[static_cast<std::size_t>(token)];
        logit -= frequency_ * static_cast<float>(count);
        logit -= presence_;
    }
}

}  // namespace taproot
