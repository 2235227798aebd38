// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "worker/engine/executor_cpu.h"

namespace taproot::testing {

// One sequence in an executor's pool: the blocks it was given and how far it is computed.
struct ModelSession {
    std::vector<BlockId> blocks;
    int position = 0;

    // Takes `count` blocks of the pool, from `first` on.
    static ModelSession with_blocks(std::uint32_t first, int count) {
        ModelSession out;
        for (int i = 0; i < count; ++i)
            out.blocks.push_back(BlockId{first + static_cast<std::uint32_t>(i)});
        return out;
    }
};

inline std::vector<float> copy(std::span<const float> values) {
    return {values.begin(), values.end()};
}

// Feeds `tokens` in chunks and returns the logits of all of them, [tokens][vocabulary].
inline std::vector<float> feed(Executor& executor, ModelSession& session,
                               std::span<const TokenId> tokens, int chunk) {
    std::vector<float> out;
    for (std::size_t begin = 0; begin < tokens.size();) {
        std::size_t count = std::min(tokens.size() - begin, static_cast<std::size_t>(chunk));
        StepSequence step{tokens.subspan(begin, count), session.position, session.blocks, 0};
        auto logits = executor.run({&step, 1});
        out.insert(out.end(), logits.begin(), logits.end());
        session.position += static_cast<int>(count);
        begin += count;
    }
    return out;
}

inline std::vector<TokenId> random_tokens(int count, int vocabulary, std::uint64_t seed) {
    Random random(seed);
    std::vector<TokenId> out;
    for (int i = 0; i < count; ++i)
        out.push_back(static_cast<TokenId>(random.below(static_cast<std::uint64_t>(vocabulary))));
    return out;
}

// Compares bits (NaN included) and names the first difference.
inline ::testing::AssertionResult same_bits(const std::vector<float>& a,
                                            const std::vector<float>& b) {
    if (a.size() != b.size())
        return ::testing::AssertionFailure() << a.size() << " values against " << b.size();
    for (std::size_t i = 0; i < a.size(); ++i)
        if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
            return ::testing::AssertionFailure()
                   << "value " << i << ": " << a[i] << " and " << b[i];
    return ::testing::AssertionSuccess();
}

inline std::unique_ptr<CpuExecutor> must_create(const LoadedModel& model,
                                                const CpuExecutorOptions& options) {
    auto executor = CpuExecutor::create(model, options);
    if (!executor) {
        ADD_FAILURE() << executor.error().describe();
        std::abort();
    }
    return std::move(*executor);
}

inline LoadedModel must_load(const std::filesystem::path& path) {
    auto model = load_model(path);
    if (!model) {
        ADD_FAILURE() << model.error().describe();
        std::abort();
    }
    return std::move(*model);
}

}  // namespace taproot::testing
