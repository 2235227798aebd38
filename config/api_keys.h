// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/problem.h"
#include "config/schema.h"

namespace taproot::config {

inline constexpr std::size_t kApiKeyBytesMin = 8;
inline constexpr std::size_t kApiKeyBytesMax = 512;

// Reads api_keys_file and cleans what api_keys holds: line ends and blanks around a key are
// trimmed, and gateway->api_keys ends up with all keys of both, each once. Problems: a key option
// that is present but yields no key (a variable that expands to nothing must not open the server),
// a key too short, too long or with blanks inside, an unexpanded ${VARIABLE}, a file that cannot be
// read. `places` tells which options are present; a caller without a file passes none.
void resolve_api_keys(Gateway* gateway, const Places& places, std::vector<Problem>* problems);

}  // namespace taproot::config
