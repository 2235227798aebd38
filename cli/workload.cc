// SPDX-License-Identifier: Apache-2.0
#include "cli/workload.h"

#include <algorithm>
#include <array>

namespace taproot::cli {
namespace {

constexpr std::array kWords = {"river",  "stone",  "cloud",  "market",  "engine", "garden",
                               "silver", "window", "orange", "letter",  "bridge", "table",
                               "winter", "summer", "paper",  "music",   "doctor", "camera",
                               "ladder", "planet", "forest", "kitchen", "monkey", "ticket",
                               "mirror", "button", "carpet", "pocket",  "basket", "rocket"};

}  // namespace

std::string words(Random& random, std::uint32_t count) {
    std::string out;
    for (std::uint32_t i = 0; i < count; ++i) {
        if (i > 0) out += ' ';
        out += kWords[random.below(kWords.size())];
    }
    return out;
}

double percentile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[std::min(values.size() - 1,
                           static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

}  // namespace taproot::cli
