// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"
#include "link/messages.h"

namespace taproot {

inline constexpr float kLogprobFloor = -9999.0f;

// The highest `count` ids of a row: descending logits, ties by lower id. NaN counts as -infinity.
// Cost: one pass with a heap of `count`. Shorter than `count` only when the row is.
[[nodiscard]] std::vector<TokenId> top_tokens(std::span<const float> logits, std::size_t count);

// Log-softmax of one untouched row, computed in double in a fixed order.
class RowLogprobs {
public:
    explicit RowLogprobs(std::span<const float> logits);  // logits [tokens]: no padded ids

    // Never NaN, floor kLogprobFloor (also for ids outside the row).
    [[nodiscard]] float of(TokenId token) const;

    // The `count` most likely tokens, descending, ties by lower id.
    [[nodiscard]] std::vector<link::TokenLogprob> top(std::size_t count) const;

private:
    std::span<const float> logits_;
    double log_sum_ = 0;
    bool finite_ = false;
};

}  // namespace taproot
