// SPDX-License-Identifier: Apache-2.0
#include "policies/evict/policy.h"

#include <gtest/gtest.h>

#include "radix_cache/radix_tree.h"

namespace taproot {
namespace {

TEST(EvictSegmentedLru, UsedOnceFirstUntilTheOthersAreMuchOlder) {
    struct Row {
        EvictView view;
        std::optional<Segment> want;
    };
    const Row rows[] = {
        {{0, 0, 0, 0}, std::nullopt},
        {{5, 0, 9, 0}, Segment::kProbation},
        {{0, 5, 0, 9}, Segment::kProtected},
        {{5, 5, 9, 2}, Segment::kProbation},
        {{50, 50, 100, 100 * kReuseWeight}, Segment::kProbation},  // exactly as old
        {{50, 50, 100, 101 * kReuseWeight}, Segment::kProtected},
        {{99, 1, 100, 101 * kReuseWeight}, Segment::kProtected},
        {{5, 5, 1, ~0ull}, Segment::kProtected},
    };
    for (const Row& row : rows) {
        const EvictDecision d = evict_segmented_lru(row.view);
        EXPECT_EQ(d.segment, row.want)
            << row.view.probation_blocks << "/" << row.view.protected_blocks;
        EXPECT_FALSE(d.reason.empty());
    }
}

TEST(EvictLru, TheOldestWhateverItsSegment) {
    EXPECT_EQ(evict_lru({5, 5, 10, 3}).segment, Segment::kProbation);
    EXPECT_EQ(evict_lru({5, 5, 3, 10}).segment, Segment::kProtected);
    EXPECT_EQ(evict_lru({5, 5, 7, 7}).segment, Segment::kProbation);
    EXPECT_EQ(evict_lru({0, 5, 0, 7}).segment, Segment::kProtected);
    EXPECT_EQ(evict_lru({5, 0, 7, 0}).segment, Segment::kProbation);
    EXPECT_EQ(evict_lru({}).segment, std::nullopt);
}

// The loop of a worker that needs room, over a tree: what was popular long ago does not stay for
// ever.
TEST(EvictSegmentedLru, AnOldPopularPrefixGoesOnceNewOnesAreShared) {
    RadixTree tree({.block_tokens = 1, .blocks_max = 100});
    std::vector<BlockId> pool;
    for (std::uint32_t i = 100; i-- > 0;) pool.push_back(BlockId{i});
    const auto use_twice = [&](TokenId token) {
        while (pool.empty()) {
            const EvictDecision d =
                evict_segmented_lru({.probation_blocks = tree.evictable_blocks(Segment::kProbation),
                                     .protected_blocks = tree.evictable_blocks(Segment::kProtected),
                                     .probation_age = tree.oldest_age(Segment::kProbation),
                                     .protected_age = tree.oldest_age(Segment::kProtected)});
            std::vector<EvictedBlock> out;
            ASSERT_EQ(tree.evict_from(*d.segment, 1, out), 1u);
            pool.push_back(out[0].block);
        }
        const std::vector<TokenId> tokens{token};
        tree.insert(0, tokens, std::vector{pool.back()});
        pool.pop_back();
        tree.touch(tree.match(0, tokens).blocks[0]);
    };
    for (TokenId t = 0; t < 400; ++t) use_twice(t);
    EXPECT_EQ(tree.match_tokens(0, std::vector<TokenId>{0}), 0u);
    EXPECT_EQ(tree.match_tokens(0, std::vector<TokenId>{399}), 1u);
}

}  // namespace
}  // namespace taproot
