// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace taproot::cli {

// Common English words, about one token each for most tokenizers.
std::string words(Random& random, std::uint32_t count);

// The value below which `share` of them lie; 0 of none.
double percentile(std::vector<double> values, double share);

}  // namespace taproot::cli
