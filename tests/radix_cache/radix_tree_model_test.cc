// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "radix_tree_twin.h"

namespace taproot {
namespace {

using testing::RadixTreeTwin;
using testing::RandomSource;

// Random operations on the tree and on a sorted map; the seed is printed and TAPROOT_SEED replays.
void run_twins(RadixTreeTwin::Setup setup, std::uint64_t count, int choices) {
    const testing::Seeds seeds = testing::seeds(count);
    std::uint64_t evicted = 0;
    std::uint64_t partial_hits = 0;
    for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
        RandomSource source(seed, choices);
        RadixTreeTwin twin(source, setup);
        const std::string failure = twin.run();
        ASSERT_EQ(failure, "") << "replay with TAPROOT_SEED=" << seed;
        evicted += twin.evicted();
        partial_hits += twin.partial_hits();
    }
    if (seeds.count > 1) {
        EXPECT_GT(evicted, 0u);  // the setup is small enough to reach every path
        EXPECT_GT(partial_hits, 0u);
    }
}

TEST(RadixTreeModel, AgreesWithASortedMapOverRandomOperations) {
    run_twins({}, 150, 1500);
}

TEST(RadixTreeModel, AgreesWithLongEdgesAndFewBranches) {
    run_twins(
        {.block_tokens = 2, .pool_blocks = 60, .alphabet = 2, .salts = 1, .path_blocks_max = 24},
        40, 1500);
}

TEST(RadixTreeModel, AgreesWithManyChildren) {
    run_twins(
        {.block_tokens = 4, .pool_blocks = 40, .alphabet = 6, .salts = 1, .path_blocks_max = 2}, 40,
        3000);
}

BlockHash two_bits(BlockHash parent, std::span<const TokenId> tokens) {
    return BlockHash{hash_block(parent, tokens).value & 3};
}
BlockHash same_root(std::uint64_t) {
    return BlockHash{0};
}

TEST(RadixTreeModel, AgreesWhenBlockHashesCollideAllTheTime) {
    run_twins({.hash_block = &two_bits, .root_hash = &same_root}, 80, 1500);
}

}  // namespace
}  // namespace taproot
