// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gateway/fleet/fleet.h"
#include "gateway/openai/errors.h"
#include "gateway/openai/generate_spec.h"

namespace taproot::gateway {

// What can only be checked once the model is known.

// Token ids (prompt, logit_bias, stop_token_ids) inside the vocabulary.
Result<void> check_token_ids(const GenerateSpec& spec, const ModelInfo& model);

// The number of tokens this prompt may generate, or why it cannot run: longer than the context, or
// asking for more than the context ever holds. What fits only partly is clamped to the room left.
struct LengthRefusal {
    ApiError error;
};
std::variant<std::uint32_t, LengthRefusal> generation_limit(const GenerateSpec& spec,
                                                            const ModelInfo& model,
                                                            std::size_t prompt_tokens);

}  // namespace taproot::gateway
