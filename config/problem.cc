// SPDX-License-Identifier: Apache-2.0
#include "config/problem.h"

#include <fmt/format.h>

#include "base/assert.h"

namespace taproot::config {
namespace {

constexpr std::size_t kShownMax = 10;

std::string where_of(const Problem& problem, const std::string& file) {
    if (problem.place.line == 0) return file;
    return fmt::format("{}:{}:{}", file, problem.place.line, problem.place.column);
}

std::string text_of(const Problem& problem) {
    if (problem.key.empty()) return problem.message;
    return problem.key + ": " + problem.message;
}

}  // namespace

Error to_error(const std::vector<Problem>& problems, const std::string& file) {
    TAPROOT_ASSERT(!problems.empty());
    Error error = invalid_argument(text_of(problems[0]), where_of(problems[0], file));
    for (std::size_t i = 1; i < problems.size() && i < kShownMax; ++i)
        error.message += fmt::format("\n{}: {}", where_of(problems[i], file), text_of(problems[i]));
    if (problems.size() > kShownMax)
        error.message += fmt::format("\n... and {} more", problems.size() - kShownMax);
    return error;
}

}  // namespace taproot::config
