// SPDX-License-Identifier: Apache-2.0
#include "radix_cache/block_hash.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/random.h"

namespace taproot {
namespace {

std::vector<TokenId> ascending(std::size_t n, TokenId first = 0) {
    std::vector<TokenId> tokens(n);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

// Computed outside this code, in Python: XXH3_64(struct.pack('<16i', ...), seed=parent).
// A change here breaks every fleet whose gateway and workers are not upgraded together.
TEST(BlockHash, FixedVectorsHoldOnEveryBuild) {
    EXPECT_EQ(root_hash(0).value, 0xD800D908800D1A7Cull);
    EXPECT_EQ(root_hash(1).value, 0x014CFE892A2A0030ull);
    std::vector<BlockHash> chain;
    hash_blocks(0, ascending(48), 16, chain);
    ASSERT_EQ(chain.size(), 3u);
    EXPECT_EQ(chain[0].value, 0xC369ED72B2139EBFull);
    EXPECT_EQ(chain[1].value, 0x744D4C911303C987ull);
    EXPECT_EQ(chain[2].value, 0x59170A11A1DB9D1Full);
    hash_blocks(1, std::vector<TokenId>{-1, 2147483647, 0, 49151}, 4, chain);
    ASSERT_EQ(chain.size(), 1u);
    EXPECT_EQ(chain[0].value, 0x98ECD501C2A5ABB2ull);
}

TEST(BlockHash, OnlyFullBlocksHaveAHash) {
    std::vector<BlockHash> chain{BlockHash{7}};
    hash_blocks(0, ascending(15), 16, chain);
    EXPECT_TRUE(chain.empty());
    hash_blocks(0, ascending(16), 16, chain);
    EXPECT_EQ(chain.size(), 1u);
    hash_blocks(0, ascending(47), 16, chain);
    EXPECT_EQ(chain.size(), 2u);
}

TEST(BlockHash, ABlockIsNamedByEverythingBeforeIt) {
    std::vector<BlockHash> a;
    std::vector<BlockHash> b;
    std::vector<TokenId> tokens = ascending(64);
    hash_blocks(0, tokens, 16, a);
    tokens[0] += 1;
    hash_blocks(0, tokens, 16, b);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(a[i], b[i]) << i;
    tokens[0] -= 1;
    tokens[20] += 1;
    hash_blocks(0, tokens, 16, b);
    EXPECT_EQ(a[0], b[0]);
    for (std::size_t i = 1; i < 4; ++i) EXPECT_NE(a[i], b[i]) << i;
}

TEST(BlockHash, SaltsNeverShareAName) {
    std::set<std::uint64_t> seen;
    for (std::uint64_t salt = 0; salt < 50; ++salt) {
        std::vector<BlockHash> chain;
        hash_blocks(salt, ascending(80), 16, chain);
        EXPECT_TRUE(seen.insert(root_hash(salt).value).second);
        for (const BlockHash hash : chain) EXPECT_TRUE(seen.insert(hash.value).second);
    }
}

TEST(BlockHash, AGrowingSequenceGetsTheSameHashesHoweverItIsCut) {
    Random random(5);
    for (int round = 0; round < 200; ++round) {
        const int block_tokens = 1 + static_cast<int>(random.below(20));
        std::vector<TokenId> tokens;
        BlockHasher hasher(9, block_tokens);
        std::vector<BlockHash> whole;
        for (int piece = 0; piece < 10; ++piece) {
            const std::vector<TokenId> more =
                ascending(random.below(40), static_cast<TokenId>(random.below(1000)));
            tokens.insert(tokens.end(), more.begin(), more.end());
            hasher.append(more);
            hash_blocks(9, tokens, block_tokens, whole);
            ASSERT_EQ(std::vector(hasher.hashes().begin(), hasher.hashes().end()), whole);
            ASSERT_EQ(hasher.tokens(), tokens.size());
        }
    }
}

}  // namespace
}  // namespace taproot
