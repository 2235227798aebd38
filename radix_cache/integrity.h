// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace taproot {

class RadixTree;
class PrefixIndex;

// Walk the whole structure and prove every invariant its header states. Returns one sentence per
// violation, empty when all hold; at most 100, the first ones found. For tests, fuzzing and the
// admin page. Cost: O(everything); call on the owner's thread.
[[nodiscard]] std::vector<std::string> check_integrity(const RadixTree& tree);
[[nodiscard]] std::vector<std::string> check_integrity(const PrefixIndex& index);

}  // namespace taproot
