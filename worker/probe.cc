// SPDX-License-Identifier: Apache-2.0
#include "worker/probe.h"

#include <algorithm>
#include <array>
#include <vector>

namespace taproot {

StepCost probe_step_cost(Executor& executor, const Clock& clock, int kv_blocks, int positions) {
    constexpr int kTokens = 48;
    static constexpr std::array<BlockId, 4> kBlocks{BlockId{0}, BlockId{1}, BlockId{2}, BlockId{3}};
    // Attention beside the linear layers, until steps with real contexts tell.
    constexpr double kPairShare = 1.0 / 8'000;
    StepCost cost{1.0, 0.2, 1e-4, 0.2, 2e-5};
    if (kv_blocks < static_cast<int>(kBlocks.size()) || positions < kTokens + 1) return cost;

    std::vector<TokenId> tokens(kTokens, 0);
    auto run_ms = [&](std::span<const TokenId> part, int position) {
        TimePoint start = clock.now();
        StepSequence sequence{part, position, kBlocks, static_cast<int>(part.size()) - 1};
        executor.run({&sequence, 1});
        return to_ms(clock.now() - start);
    };
    double prefill_ms = 1e9;
    double decode_ms = 1e9;
    for (int i = 0; i < 2; ++i) {  // the first touches cold memory
        prefill_ms = std::min(prefill_ms, run_ms(tokens, 0));
        decode_ms = std::min(decode_ms, run_ms(std::span(tokens).first(1), kTokens));
    }
    cost.prefill_token_ms = std::max((prefill_ms - decode_ms) / (kTokens - 1), 1e-4);
    cost.fixed_ms = std::max(decode_ms - cost.prefill_token_ms, 0.0);
    cost.decode_stream_ms = cost.prefill_token_ms;
    cost.decode_context_ms = cost.prefill_token_ms * kPairShare;
    cost.prefill_pair_ms = cost.prefill_token_ms * kPairShare;
    return cost;
}

}  // namespace taproot
