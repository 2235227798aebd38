// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "link/messages.h"

namespace taproot {

// The rules of a Generate that need the model: token ids below `tokens`, room for the prompt and
// one generated token in model_len_max, finite numbers in range. Empty when all hold; else kInvalid
// or kTooLong with the numbers.
[[nodiscard]] std::optional<link::Rejected> check_request(const link::Generate& spec,
                                                          std::uint32_t model_len_max, int tokens);

}  // namespace taproot
