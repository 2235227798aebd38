// SPDX-License-Identifier: Apache-2.0
#include "radix_cache/radix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"
#include "radix_cache/integrity.h"

namespace taproot {
namespace {

constexpr std::uint64_t kSalt = 7;

// Blocks of 4 tokens; a block is written as one letter of a word: "abc" is 3 blocks, 12 tokens.
std::vector<TokenId> blocks_of(std::string_view word) {
    std::vector<TokenId> tokens;
    for (const char c : word) {
        for (TokenId i = 0; i < 4; ++i) tokens.push_back(c * 10 + i);
    }
    return tokens;
}

class RadixTreeTest : public ::testing::Test {
protected:
    void TearDown() override { EXPECT_TRUE(check_integrity(tree_).empty()); }

    // Inserts a word with fresh ids; returns the in-tree ids of its blocks.
    std::vector<BlockId> insert(std::string_view word, std::uint64_t salt = kSalt) {
        std::vector<BlockId> ids;
        for (std::size_t i = 0; i < word.size(); ++i) ids.push_back(BlockId{next_++});
        std::vector<BlockId> resident;
        tree_.insert(salt, blocks_of(word), ids, &resident);
        return resident;
    }
    std::size_t matched(std::string_view word, std::uint64_t salt = kSalt) const {
        return tree_.match(salt, blocks_of(word)).tokens;
    }
    RadixTree tree_{{.block_tokens = 4, .blocks_max = 4096}};
    std::uint32_t next_ = 0;
};

TEST_F(RadixTreeTest, MatchStopsAtFirstDifferingBlock) {
    const auto ids = insert("abcd");
    const RadixMatch match = tree_.match(kSalt, blocks_of("abxd"));
    EXPECT_EQ(match.blocks, (std::vector{ids[0], ids[1]}));
    EXPECT_EQ(match.partial, std::nullopt);
    EXPECT_EQ(match.tokens, 8u);
}

TEST_F(RadixTreeTest, MatchIsExactToTheTokenInsideABlock) {
    const auto ids = insert("abc");
    std::vector<TokenId> tokens = blocks_of("abc");
    tokens[10] = -5;  // third token of c
    const RadixMatch match = tree_.match(kSalt, tokens);
    EXPECT_EQ(match.blocks, (std::vector{ids[0], ids[1]}));
    EXPECT_EQ(match.partial, (PartialBlock{ids[2], 2}));
    EXPECT_EQ(match.tokens, 10u);
}

TEST_F(RadixTreeTest, AShortRestOfAPromptMatchesTheBeginningOfABlock) {
    const auto ids = insert("abc");
    const std::vector<TokenId> tokens = blocks_of("abc");
    for (std::size_t n = 0; n <= tokens.size(); ++n) {
        const RadixMatch match = tree_.match(kSalt, std::span(tokens).first(n));
        EXPECT_EQ(match.tokens, n);
        EXPECT_EQ(match.blocks.size(), n / 4);
        EXPECT_EQ(match.partial.has_value(), n % 4 != 0);
    }
}

TEST_F(RadixTreeTest, PartialHitTakesTheChildThatSharesMostThenTheLowest) {
    const auto insert_tokens = [&](std::vector<TokenId> tokens) {
        const BlockId id{next_++};
        tree_.insert(kSalt, tokens, std::vector{id});
        return id;
    };
    insert_tokens({1, 2, 9, 9});
    const BlockId low = insert_tokens({1, 2, 3, 0});
    const BlockId high = insert_tokens({1, 2, 3, 9});
    insert_tokens({1, 5, 5, 5});
    const auto partial = [&](std::vector<TokenId> tokens) {
        return tree_.match(kSalt, tokens).partial;
    };
    EXPECT_EQ(partial({1, 2, 3, 4}), (PartialBlock{low, 3}));
    EXPECT_EQ(partial({1, 2, 3}), (PartialBlock{low, 3}));
    EXPECT_EQ(partial({1, 2, 3, 8}), (PartialBlock{low, 3}));
    EXPECT_EQ(partial({1, 2}), (PartialBlock{low, 2}));
    EXPECT_EQ(partial({2, 2, 3, 4}), std::nullopt);
    EXPECT_EQ(tree_.match(kSalt, std::vector<TokenId>{1, 2, 3, 9}).blocks, std::vector{high});
}

TEST_F(RadixTreeTest, MatchChangesNothing) {
    insert("abcd");
    insert("abxy");
    const RadixTree& constant = tree_;
    const auto age = tree_.oldest_age(Segment::kProbation);
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(constant.match(kSalt, blocks_of("abcq")).tokens, 12u);
        EXPECT_EQ(constant.match_tokens(kSalt, blocks_of("a")), 4u);
    }
    EXPECT_EQ(tree_.oldest_age(Segment::kProbation), age);
    EXPECT_EQ(tree_.nodes(), 4u);  // root, ab, cd, xy
}

TEST_F(RadixTreeTest, InsertSplitsAnEdgeOnlyWhereTokensDiffer) {
    insert("abcd");
    EXPECT_EQ(tree_.nodes(), 2u);
    insert("ab");  // a strict prefix needs no split
    EXPECT_EQ(tree_.nodes(), 2u);
    insert("abcdef");  // a longer leaf stays one node
    EXPECT_EQ(tree_.nodes(), 2u);
    insert("abx");
    EXPECT_EQ(tree_.nodes(), 4u);
    EXPECT_EQ(matched("abcdef"), 24u);
    EXPECT_EQ(matched("abx"), 12u);
}

TEST_F(RadixTreeTest, TwinsKeepTheFirstCopyAndTheSecondIdsStayWithTheCaller) {
    const auto first = insert("abc");
    std::vector<BlockId> ids{BlockId{100}, BlockId{101}, BlockId{102}, BlockId{103}};
    std::vector<BlockId> resident;
    const InsertResult result = tree_.insert(kSalt, blocks_of("abcd"), ids, &resident);
    EXPECT_EQ(result.existing_blocks, 3u);
    EXPECT_EQ(result.adopted_blocks, 1u);
    EXPECT_EQ(result.deepest, BlockId{103});
    EXPECT_EQ(resident, (std::vector{first[0], first[1], first[2], BlockId{103}}));
    EXPECT_FALSE(tree_.contains(BlockId{100}));
}

TEST_F(RadixTreeTest, InsertAfterContinuesBelowAnAnchorThatWasSplitMeanwhile) {
    const auto ids = insert("abcd");
    tree_.pin(ids[3]);
    insert("abxy");  // splits the edge under the pinned path
    const InsertResult r =
        tree_.insert_after(ids[3], blocks_of("e"), std::vector{BlockId{next_++}});
    EXPECT_EQ(r.adopted_blocks, 1u);
    EXPECT_EQ(matched("abcde"), 20u);
    EXPECT_EQ(tree_.match_after(ids[1], blocks_of("xyz")).tokens, 8u);
    EXPECT_EQ(tree_.parent_of(r.deepest), ids[3]);
    tree_.unpin(ids[3]);
}

TEST_F(RadixTreeTest, TenantsShareNothing) {
    insert("abc", 1);
    EXPECT_EQ(matched("abc", 1), 12u);
    EXPECT_EQ(matched("abc", 2), 0u);
    EXPECT_EQ(tree_.match(2, blocks_of("abc")).partial, std::nullopt);
    const auto a = insert("abc", 2);
    EXPECT_EQ(tree_.blocks(), 6u);
    EXPECT_EQ(tree_.roots(), 2u);
    EXPECT_NE(tree_.hash_of(a[0]), tree_.hash_of(BlockId{0}));
    EXPECT_EQ(tree_.parent_hash_of(a[0]), root_hash(2));
}

TEST_F(RadixTreeTest, PinsProtectExactlyThePathToTheirBlock) {
    // The pin is taken in the middle of an edge that is split later; everything else can go.
    const auto ids = insert("abcdefgh");
    const RadixMatch match = tree_.match(kSalt, blocks_of("abcdxy"));
    ASSERT_EQ(match.tokens, 16u);
    tree_.pin(match.blocks.back());
    EXPECT_EQ(tree_.pinned_blocks(), 4u);
    insert("abcdxyz");
    std::vector<EvictedBlock> out;
    EXPECT_EQ(tree_.evict(100, out), 7u);  // efgh and xyz
    EXPECT_EQ(matched("abcd"), 16u);
    EXPECT_EQ(tree_.blocks(), 4u);
    tree_.unpin(match.blocks.back());
    EXPECT_EQ(tree_.evict(100, out), 4u);
    EXPECT_EQ(tree_.blocks(), 0u);
    EXPECT_EQ(tree_.nodes(), 0u);
    EXPECT_EQ(tree_.roots(), 0u);
}

TEST_F(RadixTreeTest, PinsAreCountedPerHandle) {
    const auto ids = insert("abc");
    tree_.pin(ids[2]);
    tree_.pin(ids[1]);
    EXPECT_EQ(tree_.pins_of(ids[0]), 2u);
    EXPECT_EQ(tree_.pins_of(ids[2]), 1u);
    tree_.unpin(ids[2]);
    std::vector<EvictedBlock> out;
    EXPECT_EQ(tree_.evict(9, out), 1u);
    tree_.unpin(ids[1]);
    EXPECT_EQ(tree_.evictable_blocks(), 2u);
}

TEST_F(RadixTreeTest, EvictionTakesTheLeastRecentlyUsedLeafEndFirst) {
    const auto abc = insert("abc");
    const auto xyz = insert("xyz");
    const auto abq = insert("abq");  // uses a and b again
    std::vector<EvictedBlock> out;
    EXPECT_EQ(tree_.evict(2, out), 2u);
    EXPECT_EQ(out[0], (EvictedBlock{abc[2], out[0].hash}));  // c is the oldest
    EXPECT_EQ(out[1].block, xyz[2]);
    out.clear();
    EXPECT_EQ(tree_.evict(0, out), 0u);
    EXPECT_EQ(tree_.evict(3, out), 3u);
    EXPECT_EQ(out[0].block, xyz[1]);
    EXPECT_EQ(out[1].block, xyz[0]);
    EXPECT_EQ(out[2].block, abq[2]);
}

TEST_F(RadixTreeTest, EvictedBlocksAreNamedForTheEvents) {
    const auto ids = insert("ab");
    const BlockHash hash = tree_.hash_of(ids[1]);
    EXPECT_EQ(tree_.parent_hash_of(ids[1]), tree_.hash_of(ids[0]));
    std::vector<EvictedBlock> out;
    tree_.evict(1, out);
    EXPECT_EQ(out, (std::vector{EvictedBlock{ids[1], hash}}));
    EXPECT_FALSE(tree_.contains(ids[1]));
}

TEST_F(RadixTreeTest, EvictionGivesExactlyWhatWasAskedForBlockByBlock) {
    for (char c = 'a'; c <= 'z'; ++c) insert(std::string(38, c));  // 26 leaves of 38 blocks
    const std::size_t before = tree_.blocks();
    std::vector<EvictedBlock> out;
    EXPECT_EQ(tree_.evict(10, out), 10u);
    EXPECT_EQ(tree_.blocks(), before - 10);
    EXPECT_EQ(matched(std::string(38, 'a')), 28u * 4);  // the tail of the oldest leaf
    EXPECT_EQ(tree_.nodes(), 27u);
}

TEST_F(RadixTreeTest, AFloodOfPromptsUsedOnceDoesNotWashOutASharedPrefix) {
    const auto shared = insert("sssss");
    tree_.touch(tree_.match(kSalt, blocks_of("sssss")).blocks.back());
    std::vector<EvictedBlock> out;
    for (int i = 0; i < 200; ++i) {
        const std::string word{static_cast<char>(1 + i % 60), static_cast<char>(70 + i % 50)};
        insert(word);
        if (tree_.blocks() > 20) tree_.evict(tree_.blocks() - 20, out);
    }
    EXPECT_EQ(matched("sssss"), 20u);
    EXPECT_EQ(tree_.segment_of(shared[0]), Segment::kProtected);
    EXPECT_EQ(tree_.evictable_blocks(Segment::kProtected), 5u);
}

TEST_F(RadixTreeTest, TouchInTheMiddleOfAnEdgeLeavesItsEndOld) {
    insert("abcd");
    const auto xy = insert("xy");
    tree_.touch(tree_.match(kSalt, blocks_of("ab")).blocks.back());
    std::vector<EvictedBlock> out;
    EXPECT_EQ(tree_.evict(4, out), 4u);  // d c, then y x; a and b are protected
    EXPECT_EQ(out[2].block, xy[1]);
    EXPECT_EQ(matched("abcd"), 8u);
}

TEST_F(RadixTreeTest, AProtectedVictimGivesItsProbationDescendantsFirst) {
    insert("ab");
    tree_.touch(tree_.match(kSalt, blocks_of("ab")).blocks.back());
    const auto abc = insert("abc");
    std::vector<EvictedBlock> out;
    EXPECT_EQ(tree_.evict_from(Segment::kProtected, 2, out), 2u);
    EXPECT_EQ(out[0].block, abc[2]);
    EXPECT_EQ(out[1].block, abc[1]);
}

TEST_F(RadixTreeTest, AnOnlyChildJoinsItsParentsEdgeAgain) {
    insert("abcd");
    insert("abxy");
    EXPECT_EQ(tree_.nodes(), 4u);
    std::vector<EvictedBlock> out;
    tree_.evict(2, out);  // d, c: the older branch
    EXPECT_EQ(tree_.nodes(), 2u);
    EXPECT_EQ(matched("abxy"), 16u);
}

TEST_F(RadixTreeTest, SnapshotListsParentsBeforeChildren) {
    insert("abcd");
    insert("abxy");
    insert("q", 9);
    std::vector<KvStored> all;
    tree_.append_snapshot(all);
    ASSERT_EQ(all.size(), 7u);
    std::vector<BlockHash> known{root_hash(kSalt), root_hash(9)};
    for (const KvStored& stored : all) {
        EXPECT_NE(std::find(known.begin(), known.end(), stored.parent), known.end());
        known.push_back(stored.hash);
    }
}

TEST_F(RadixTreeTest, WithoutRoomForANameCollisionsStillMatchByTokens) {
    // Every block has the same hash: only token ids tell prompts apart.
    RadixTree tree(
        {.block_tokens = 4,
         .blocks_max = 4096,
         .root_hash = [](std::uint64_t) { return BlockHash{1}; },
         .hash_block = [](BlockHash, std::span<const TokenId>) { return BlockHash{1}; }});
    Random random(3);
    std::vector<std::vector<TokenId>> prompts;
    std::uint32_t next = 0;
    for (int i = 0; i < 500; ++i) {
        std::vector<TokenId> tokens(8);
        for (TokenId& t : tokens) t = static_cast<TokenId>(random.below(1'000'000));
        tree.insert(kSalt, tokens, std::vector{BlockId{next}, BlockId{next + 1}});
        prompts.push_back(tokens);
        next += 2;
    }
    for (std::uint32_t i = 0; i < prompts.size(); ++i) {
        const RadixMatch match = tree.match(kSalt, prompts[i]);
        ASSERT_EQ(match.blocks, (std::vector{BlockId{2 * i}, BlockId{2 * i + 1}}));
        std::vector<TokenId> other = prompts[i];
        other[0] = -1;
        ASSERT_EQ(tree.match(kSalt, other).tokens, 0u);
    }
    EXPECT_TRUE(check_integrity(tree).empty());
}

TEST_F(RadixTreeTest, AFullTreeCostsAboutAHundredBytesPerBlock) {
    RadixTree tree({.blocks_max = 4096});
    Random random(1);
    std::uint32_t next = 0;
    while (next + 64 <= 4096) {
        std::vector<TokenId> tokens(64 * 16);
        for (TokenId& t : tokens) t = static_cast<TokenId>(random.below(50'000));
        std::vector<BlockId> ids;
        for (int i = 0; i < 64; ++i) ids.push_back(BlockId{next++});
        tree.insert(kSalt, tokens, ids);
    }
    EXPECT_EQ(tree.blocks(), 4096u);
    EXPECT_LT(tree.memory_bytes() / tree.blocks(), 110u);
}

TEST_F(RadixTreeTest, EmptyQuestionsHaveEmptyAnswers) {
    EXPECT_EQ(tree_.match(kSalt, {}).tokens, 0u);
    EXPECT_EQ(tree_.insert(kSalt, {}, {}).deepest, kNoBlock);
    EXPECT_EQ(tree_.roots(), 0u);
    insert("a");
    EXPECT_EQ(tree_.match(kSalt, {}).partial, std::nullopt);
    EXPECT_EQ(tree_.oldest_age(Segment::kProtected), 0u);
}

using RadixTreeDeathTest = RadixTreeTest;

TEST_F(RadixTreeDeathTest, BrokenPreconditionsDie) {
    const auto ids = insert("ab");
    EXPECT_DEATH(tree_.unpin(ids[0]), "pins > 0");
    EXPECT_DEATH(tree_.touch(BlockId{77}), "contains");
    EXPECT_DEATH(tree_.insert(kSalt, blocks_of("q"), std::vector{ids[0]}), "in_tree");
    EXPECT_DEATH(tree_.insert(kSalt, blocks_of("q"), std::vector{BlockId{4096}}), "blocks_max");
}

TEST_F(RadixTreeTest, TheVictimIsWhatEvictTakesNext) {
    EXPECT_EQ(tree_.victim(Segment::kProbation), kNoBlock);
    const auto used_twice = insert("abc");
    insert("abxy", 9);
    tree_.touch(used_twice.back());
    const auto pinned = insert("pq");
    tree_.pin(pinned.back());
    for (const Segment segment : {Segment::kProbation, Segment::kProtected}) {
        ASSERT_GT(tree_.evictable_blocks(segment), 0u);
        while (tree_.evictable_blocks(segment) > 0) {
            const BlockId next = tree_.victim(segment);
            ASSERT_NE(next, kNoBlock);
            EXPECT_EQ(tree_.salt_of(next), segment == Segment::kProbation ? 9 : kSalt);
            std::vector<EvictedBlock> out;
            EXPECT_EQ(tree_.evict_from(segment, 1, out), 1u);
            EXPECT_EQ(out.front().block, next);
        }
        EXPECT_EQ(tree_.victim(segment), kNoBlock);
    }
    tree_.unpin(pinned.back());
    EXPECT_EQ(tree_.victim(Segment::kProbation), pinned.back());
}

}  // namespace
}  // namespace taproot
