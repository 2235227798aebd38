// SPDX-License-Identifier: Apache-2.0
#include "worker/probe.h"

#include <algorithm>
#include <span>
#include <vector>

namespace taproot {
namespace {

constexpr int kBlocksUsed = 4;

}  // namespace

StepCost probe_step_cost(Executor& executor, const Clock& clock, int kv_blocks, int positions) {
    constexpr int kTokens = 48;
    constexpr int kFar = 1'024;  // where attention has become visible beside the linear layers
    // Of a prompt token's linear layers, until steps with real contexts tell.
    constexpr double kPairShare = 1.0 / 1'500;
    constexpr double kContextShare = 1.0 / 800;
    StepCost cost{1.0, 0.2, 2.5e-4, 0.2, 1.3e-4};
    if (kv_blocks < kBlocksUsed || positions < kTokens + 1) return cost;

    // What lies in the pages does not change the time, so few of them stand for a long context.
    std::vector<BlockId> blocks;
    for (std::uint32_t i = 0; i < (kFar + kTokens) / kBlockTokens; ++i)
        blocks.push_back(BlockId{i % kBlocksUsed});
    std::vector<TokenId> tokens(kTokens, 0);
    auto run_ms = [&](int count, int position) {
        double best = 1e9;
        for (int i = 0; i < 2; ++i) {  // the first touches cold memory
            TimePoint start = clock.now();
            StepSequence sequence{std::span(tokens).first(static_cast<std::size_t>(count)),
                                  position, blocks, count - 1};
            executor.run({&sequence, 1});
            best = std::min(best, to_ms(clock.now() - start));
        }
        return best;
    };
    double prefill_ms = run_ms(kTokens, 0);
    double decode_ms = run_ms(1, kTokens);
    cost.prefill_token_ms = std::max((prefill_ms - decode_ms) / (kTokens - 1), 1e-4);
    cost.fixed_ms = std::max(decode_ms - cost.prefill_token_ms, 0.0);
    cost.decode_stream_ms = cost.prefill_token_ms;
    cost.decode_context_ms = cost.prefill_token_ms * kContextShare;
    cost.prefill_pair_ms = cost.prefill_token_ms * kPairShare;
    if (positions >= kFar + kTokens) {
        double far_ms = run_ms(kTokens, kFar) - prefill_ms;
        cost.prefill_pair_ms = std::max(far_ms, 0.1 * prefill_ms) / (kTokens * kFar);
        cost.decode_context_ms = 2 * cost.prefill_pair_ms;
    }
    return cost;
}

}  // namespace taproot
