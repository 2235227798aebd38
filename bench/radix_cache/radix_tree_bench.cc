// SPDX-License-Identifier: Apache-2.0
#include <benchmark/benchmark.h>

#include "base/random.h"
#include "radix_cache/radix_tree.h"

namespace taproot {
namespace {

std::vector<TokenId> random_tokens(Random& random, std::size_t n) {
    std::vector<TokenId> tokens(n);
    for (TokenId& t : tokens) t = static_cast<TokenId>(random.below(49'152));
    return tokens;
}

void BM_hash_block(benchmark::State& state) {
    Random random(1);
    const std::vector<TokenId> tokens = random_tokens(random, 8192);
    std::vector<BlockHash> chain;
    for (auto _ : state) {
        hash_blocks(1, tokens, kBlockTokens, chain);
        benchmark::DoNotOptimize(chain.data());
    }
    state.SetItemsProcessed(state.iterations() * 512);
    state.SetBytesProcessed(state.iterations() * 8192 * 4);
}
BENCHMARK(BM_hash_block);

// `branches` conversations that share 32 blocks and go on for 32 more each.
struct Filled {
    explicit Filled(std::size_t branches)
        : tree({.blocks_max = static_cast<std::uint32_t>(32 + 32 * branches)}) {
        Random random(1);
        const std::vector<TokenId> shared = random_tokens(random, 32 * kBlockTokens);
        std::uint32_t next = 0;
        for (std::size_t b = 0; b < branches; ++b) {
            std::vector<TokenId> tokens = shared;
            const std::vector<TokenId> own = random_tokens(random, 32 * kBlockTokens);
            tokens.insert(tokens.end(), own.begin(), own.end());
            std::vector<BlockId> ids;
            // Ids of blocks that are there already are not taken: any will do.
            for (std::uint32_t i = 0; i < 64; ++i) {
                ids.push_back(BlockId{b > 0 && i < 32 ? i : next++});
            }
            tree.insert(0, tokens, ids);
            prompts.push_back(std::move(tokens));
        }
    }
    RadixTree tree;
    std::vector<std::vector<TokenId>> prompts;
};

void BM_match_64_blocks(benchmark::State& state) {
    const Filled filled(static_cast<std::size_t>(state.range(0)));
    std::size_t i = 0;
    for (auto _ : state) {
        i = (i + 7919) % filled.prompts.size();
        benchmark::DoNotOptimize(filled.tree.match_tokens(0, filled.prompts[i]));
    }
    state.SetItemsProcessed(state.iterations() * 64);
    state.counters["bytes_per_block"] =
        static_cast<double>(filled.tree.memory_bytes()) / static_cast<double>(filled.tree.blocks());
}
BENCHMARK(BM_match_64_blocks)->Arg(1)->Arg(16)->Arg(1024);

void BM_pin_touch_unpin_64_blocks(benchmark::State& state) {
    Filled filled(1024);
    std::size_t i = 0;
    for (auto _ : state) {
        i = (i + 7919) % filled.prompts.size();
        const RadixMatch match = filled.tree.match(0, filled.prompts[i]);
        filled.tree.touch(match.blocks.back());
        filled.tree.pin(match.blocks.back());
        filled.tree.unpin(match.blocks.back());
    }
    state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(BM_pin_touch_unpin_64_blocks);

// Steady state of a full pool: each new prompt of 32 blocks evicts 32.
void BM_evict_and_insert_32_blocks(benchmark::State& state) {
    RadixTree tree;
    Random random(1);
    std::vector<BlockId> pool;
    for (std::uint32_t i = 0; i < 16'384; ++i) pool.push_back(BlockId{i});
    std::vector<std::vector<TokenId>> prompts;
    for (int i = 0; i < 1024; ++i) prompts.push_back(random_tokens(random, 32 * kBlockTokens));
    std::vector<EvictedBlock> out;
    std::size_t i = 0;
    for (auto _ : state) {
        std::vector<TokenId>& tokens = prompts[i++ % prompts.size()];
        tokens[0] = static_cast<TokenId>(i);  // new each time
        if (pool.size() < 32) {
            out.clear();
            tree.evict(32, out);
            for (const EvictedBlock& e : out) pool.push_back(e.block);
        }
        tree.insert(0, tokens, std::span(pool).last(32));
        pool.resize(pool.size() - 32);
    }
    state.SetItemsProcessed(state.iterations() * 32);
}
BENCHMARK(BM_evict_and_insert_32_blocks);

}  // namespace
}  // namespace taproot
