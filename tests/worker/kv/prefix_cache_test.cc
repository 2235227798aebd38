// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/prefix_cache.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "base/random.h"
#include "radix_cache/block_hash.h"
#include "tests/support/fuzz_seed.h"

namespace taproot {
namespace {

constexpr std::size_t kBlock = 16;

std::vector<TokenId> iota_tokens(std::size_t n, TokenId first = 0) {
    std::vector<TokenId> tokens(n);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

// Fills a table as a prefill would: own pages for every token, then adopt the full ones.
bool compute(PrefixCache& cache, BlockTable& table, std::uint64_t salt,
             const std::vector<TokenId>& tokens) {
    while (table.size() * kBlock < tokens.size()) {
        BlockRef page = cache.allocate();
        if (!page) return false;
        table.append_own(std::move(page));
    }
    cache.adopt(table, salt, tokens, tokens.size() / kBlock);
    return true;
}

std::size_t cache_tokens(const PrefixCache& cache, std::uint64_t salt,
                         const std::vector<TokenId>& tokens) {
    return cache.probe(salt, tokens).tokens;
}

void expect_sound(const PrefixCache& cache) {
    std::vector<std::string> wrong = cache.check_integrity();
    EXPECT_TRUE(wrong.empty()) << wrong.front();
}

TEST(PrefixCache, AHitIsExactToTheToken) {
    BlockPool pool(20);
    PrefixCache cache(pool, 1);
    std::vector<TokenId> tokens = iota_tokens(48);
    {
        BlockTable first(&cache);
        ASSERT_TRUE(compute(cache, first, 0, tokens));
    }
    std::vector<TokenId> other = tokens;
    other[37] = 9999;
    BlockTable second(&cache);
    CacheHit hit = cache.extend(second, 0, other, 0);
    EXPECT_EQ(hit.tokens, 37u);
    ASSERT_TRUE(hit.copy);
    EXPECT_EQ(second.size(), 3u);
    EXPECT_EQ(second.shared(), 2u);
    EXPECT_EQ(second.ids()[2], hit.copy->to);
    EXPECT_NE(hit.copy->from, hit.copy->to);
    cache.release_copy_source(*hit.copy);
    expect_sound(cache);
}

TEST(PrefixCache, AWholePromptHitLeavesTheLastTokenToCompute) {
    BlockPool pool(20);
    PrefixCache cache(pool, 1);
    std::vector<TokenId> tokens = iota_tokens(32);
    BlockTable first(&cache);
    ASSERT_TRUE(compute(cache, first, 0, tokens));
    BlockTable second(&cache);
    std::span<const TokenId> all_but_last(tokens.data(), 31);
    CacheHit hit = cache.extend(second, 0, all_but_last, 0);
    EXPECT_EQ(hit.tokens, 31u);
    ASSERT_TRUE(hit.copy);
    EXPECT_EQ(hit.copy->from, first.ids()[1]);
    cache.release_copy_source(*hit.copy);
}

TEST(PrefixCache, SaltsShareNothing) {
    BlockPool pool(20);
    PrefixCache cache(pool, 1);
    std::vector<TokenId> tokens = iota_tokens(32);
    BlockTable first(&cache);
    ASSERT_TRUE(compute(cache, first, 1, tokens));
    BlockTable second(&cache);
    EXPECT_EQ(cache.extend(second, 2, tokens, 0).tokens, 0u);
    EXPECT_EQ(cache_tokens(cache, 2, tokens), 0u);
    EXPECT_EQ(cache_tokens(cache, 1, tokens), 32u);
}

// Sessions that ended fill the cache with blocks that several turns used. A session that has had
// one turn must still find it at the second, though others begin in between.
TEST(PrefixCache, EndedSessionsMakeRoomForLiveOnes) {
    BlockPool pool(100);
    PrefixCache cache(pool, 1);
    auto turn = [&](std::size_t blocks, TokenId first) {
        std::vector<TokenId> tokens = iota_tokens(blocks * kBlock, first);
        BlockTable table(&cache);
        std::size_t known = cache.extend(table, 0, tokens, 0).tokens;
        EXPECT_TRUE(compute(cache, table, 0, tokens));
        return known / kBlock;
    };
    for (TokenId session = 0; session < 50; ++session)
        for (std::size_t blocks : {5u, 5u}) turn(blocks, session * 1000);
    turn(4, 1'000'000);
    for (TokenId session = 50; session < 55; ++session) turn(4, session * 1000);
    EXPECT_EQ(turn(6, 1'000'000), 4u);
    expect_sound(cache);
}

TEST(PrefixCache, ATwinSwitchesToTheBlocksOfTheFirst) {
    BlockPool pool(20);
    PrefixCache cache(pool, 1);
    std::vector<TokenId> tokens = iota_tokens(40);
    BlockTable first(&cache);
    BlockTable twin(&cache);
    ASSERT_TRUE(compute(cache, first, 0, tokens));
    std::vector<TokenId> forked = tokens;
    forked[20] = 77;
    ASSERT_TRUE(compute(cache, twin, 0, forked));
    EXPECT_EQ(twin.ids()[0], first.ids()[0]);
    EXPECT_NE(twin.ids()[1], first.ids()[1]);
    EXPECT_EQ(pool.cached_blocks(), 3u);
    EXPECT_EQ(pool.active_blocks(), 2u);  // the partial tail of each
    expect_sound(cache);
}

TEST(PrefixCache, PinnedBlocksAreNeverEvicted) {
    BlockPool pool(4);
    PrefixCache cache(pool, 1);
    BlockTable first(&cache);
    ASSERT_TRUE(compute(cache, first, 0, iota_tokens(64)));
    EXPECT_FALSE(cache.allocate());
    EXPECT_EQ(cache.available_blocks(), 0u);
    first.clear();
    EXPECT_EQ(cache.available_blocks(), 4u);
    EXPECT_TRUE(cache.allocate());
    EXPECT_EQ(cache.evicted_blocks_total(), 1u);
    EXPECT_EQ(cache_tokens(cache, 0, iota_tokens(64)), 48u);  // the end of the chain went first
    expect_sound(cache);
}

TEST(PrefixCache, BlocksUsedOnceGoBeforeBlocksUsedTwice) {
    BlockPool pool(4);
    PrefixCache cache(pool, 1);
    for (TokenId first : {0, 100}) {
        BlockTable table(&cache);
        ASSERT_TRUE(compute(cache, table, 0, iota_tokens(32, first)));
    }
    {
        BlockTable again(&cache);  // the older prompt is used a second time
        EXPECT_EQ(cache.extend(again, 0, iota_tokens(32, 0), 0).tokens, 32u);
    }
    {
        BlockTable once(&cache);  // and the newer one is not
    }
    BlockRef a = cache.allocate();
    BlockRef b = cache.allocate();
    EXPECT_EQ(cache_tokens(cache, 0, iota_tokens(32, 0)), 32u);
    EXPECT_EQ(cache_tokens(cache, 0, iota_tokens(32, 100)), 0u);
}

TEST(PrefixCache, APartialHitWithoutRoomFallsBackToFullBlocks) {
    BlockPool pool(3);
    PrefixCache cache(pool, 1);
    std::vector<TokenId> tokens = iota_tokens(48);
    BlockTable first(&cache);
    ASSERT_TRUE(compute(cache, first, 0, tokens));  // everything pinned
    BlockTable second(&cache);
    CacheHit hit = cache.extend(second, 0, std::span(tokens).first(40), 0);
    EXPECT_EQ(hit.tokens, 32u);
    EXPECT_FALSE(hit.copy);
    expect_sound(cache);
}

TEST(PrefixCache, ExtendReplacesOwnPagesWhenTheCacheKnowsMore) {
    BlockPool pool(20);
    PrefixCache cache(pool, 1);
    std::vector<TokenId> tokens = iota_tokens(64);
    BlockTable late(&cache);
    late.append_own(cache.allocate());  // five tokens computed alone
    BlockTable first(&cache);
    ASSERT_TRUE(compute(cache, first, 0, tokens));
    CacheHit hit = cache.extend(late, 0, std::span(tokens).first(63), 5);
    EXPECT_EQ(hit.tokens, 63u);
    EXPECT_EQ(late.shared(), 3u);
    cache.release_copy_source(*hit.copy);
    EXPECT_EQ(cache.extend(late, 0, std::span(tokens).first(63), 63).tokens, 63u);
    EXPECT_EQ(late.size(), 4u);
    expect_sound(cache);
}

TEST(PrefixCache, TheLastPartialPageOfAnEndedSequenceIsFoundAgain) {
    BlockPool pool(20);
    PrefixCache cache(pool, 1);
    std::vector<TokenId> tokens = iota_tokens(39);
    BlockTable first(&cache);
    ASSERT_TRUE(compute(cache, first, 0, tokens));
    BlockId page = first.ids()[2];
    cache.retire(first, 0, tokens, 39);
    EXPECT_EQ(first.size(), 0u);
    EXPECT_EQ(cache.active_blocks(), 0u);
    EXPECT_EQ(cache.cached_blocks(), 3u);
    expect_sound(cache);

    std::vector<TokenId> next = iota_tokens(60);
    BlockTable second(&cache);
    CacheHit hit = cache.extend(second, 0, next, 0);
    EXPECT_EQ(hit.tokens, 39u);
    ASSERT_TRUE(hit.copy);
    EXPECT_EQ(hit.copy->from, page);
    expect_sound(cache);
    cache.release_copy_source(*hit.copy);
    EXPECT_EQ(cache_tokens(cache, 5, next), 0u);  // not under another salt
    // A full block that says the same makes the tail go.
    ASSERT_TRUE(compute(cache, second, 0, next));
    second.clear();
    EXPECT_EQ(cache.cached_blocks(), 3u);
    expect_sound(cache);
}

TEST(PrefixCache, AShortPromptIsATailOfItsSaltsRoot) {
    BlockPool pool(20);
    PrefixCache cache(pool, 1);
    for (std::uint64_t salt : {1, 2}) {
        BlockTable table(&cache);
        table.append_own(cache.allocate());
        cache.retire(table, salt, iota_tokens(5, static_cast<TokenId>(salt * 100)), 5);
    }
    EXPECT_EQ(cache_tokens(cache, 1, iota_tokens(9, 100)), 5u);
    EXPECT_EQ(cache_tokens(cache, 2, iota_tokens(9, 100)), 0u);
    EXPECT_EQ(cache_tokens(cache, 2, iota_tokens(9, 200)), 5u);
    expect_sound(cache);
}

TEST(PrefixCache, TailsGoBeforeBlocksAndWithTheirAnchor) {
    BlockPool pool(4);
    PrefixCache cache(pool, 1);
    std::vector<TokenId> tokens = iota_tokens(40);
    {
        BlockTable table(&cache);
        ASSERT_TRUE(compute(cache, table, 0, tokens));
        cache.retire(table, 0, tokens, 40);
    }
    BlockRef a = cache.allocate();
    BlockRef b = cache.allocate();  // the tail's page
    EXPECT_EQ(cache_tokens(cache, 0, tokens), 32u);
    expect_sound(cache);
    b.reset();
    {
        BlockTable table(&cache);
        CacheHit hit = cache.extend(table, 0, tokens, 0);
        table.append_own(cache.allocate());
        cache.retire(table, 0, tokens, 40);
        EXPECT_EQ(hit.tokens, 32u);
    }
    cache.clear();
    EXPECT_EQ(cache_tokens(cache, 0, tokens), 0u);
    EXPECT_EQ(pool.free_blocks(), 3u);
    expect_sound(cache);
}

TEST(PrefixCache, AnAnchorKeepsOnlySoManyTails) {
    BlockPool pool(40);
    PrefixCache cache(pool, 1);
    for (TokenId i = 0; i < 20; ++i) {
        BlockTable table(&cache);
        table.append_own(cache.allocate());
        cache.retire(table, 0, iota_tokens(5, i * 100), 5);
        expect_sound(cache);
    }
    EXPECT_EQ(cache.cached_blocks(), TailStore::kPerAnchor);
    EXPECT_EQ(cache_tokens(cache, 0, iota_tokens(5, 0)), 0u);
    EXPECT_EQ(cache_tokens(cache, 0, iota_tokens(5, 1900)), 5u);
}

TEST(PrefixCache, SharedTablesPinThePathSeparately) {
    BlockPool pool(2);
    PrefixCache cache(pool, 1);
    BlockTable first(&cache);
    ASSERT_TRUE(compute(cache, first, 0, iota_tokens(32)));
    BlockTable second = cache.share(first);
    first.clear();
    EXPECT_EQ(cache.available_blocks(), 0u);
    second.clear();
    EXPECT_EQ(cache.available_blocks(), 2u);
}

TEST(PrefixCache, EventsAreNumberedAndRebuildTheSnapshot) {
    std::uint64_t seed = testing::fuzz_seed(3);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    BlockPool pool(12);
    PrefixCache cache(pool, 42);
    std::set<std::uint64_t> mirror;
    std::uint64_t expected_seq = 1;
    for (int step = 0; step < 500; ++step) {
        std::vector<TokenId> tokens;
        auto blocks = static_cast<std::size_t>(random.between(1, 4));
        for (std::size_t b = 0; b < blocks; ++b) {
            auto part = iota_tokens(kBlock, static_cast<TokenId>(random.below(3) * 100));
            tokens.insert(tokens.end(), part.begin(), part.end());
        }
        {
            BlockTable table(&cache);
            CacheHit hit = cache.extend(table, 0, tokens, 0);
            if (hit.copy) cache.release_copy_source(*hit.copy);
            ASSERT_TRUE(compute(cache, table, 0, tokens));
            ASSERT_EQ(cache_tokens(cache, 0, tokens), tokens.size());
        }
        if (random.chance(0.02)) cache.clear();
        std::vector<KvEvent> events = cache.take_events();
        ASSERT_EQ(cache.next_event_seq(), expected_seq + events.size());
        expected_seq = cache.next_event_seq();
        for (const KvEvent& event : events) {
            if (const auto* stored = std::get_if<KvStored>(&event)) {
                ASSERT_TRUE(stored->parent == root_hash(0) || mirror.count(stored->parent.value));
                ASSERT_TRUE(mirror.insert(stored->hash.value).second);
            } else {
                ASSERT_EQ(mirror.erase(std::get<KvRemoved>(event).hash.value), 1u);
            }
        }
        std::set<std::uint64_t> snapshot;
        for (const KvStored& stored : cache.snapshot()) snapshot.insert(stored.hash.value);
        ASSERT_EQ(snapshot, mirror);
        expect_sound(cache);
    }
}

// Random tables over a tiny pool. The model: every page remembers the tokens that its owner wrote;
// whatever a table holds must be pages whose content is that table's tokens.
TEST(PrefixCache, TablesAlwaysHoldTheirOwnTokens) {
    std::uint64_t seed = testing::fuzz_seed(5);
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    constexpr std::uint32_t kPages = 9;
    BlockPool pool(kPages);
    PrefixCache cache(pool, 1);
    std::vector<std::vector<TokenId>> content(kPages);
    struct Live {
        std::uint64_t salt;
        std::vector<TokenId> tokens;  // what it wants to hold
        std::size_t computed;
        BlockTable table;
    };
    std::vector<Live> live;
    std::uint64_t refused = 0, hits = 0;
    for (int step = 0; step < testing::fuzz_rounds(4000); ++step) {
        std::uint64_t what = random.below(4);
        if (what == 0 && live.size() < 4) {
            Live one{random.below(2), {}, 0, BlockTable(&cache)};
            auto n = static_cast<std::size_t>(random.between(1, 70));
            for (std::size_t i = 0; i < n; ++i)
                one.tokens.push_back(static_cast<TokenId>(i + (random.chance(0.02) ? 500 : 0)));
            live.push_back(std::move(one));
        } else if (what == 1 && !live.empty()) {
            std::swap(live[random.below(live.size())], live.back());
            Live& one = live.back();
            if (random.chance(0.8)) cache.retire(one.table, one.salt, one.tokens, one.computed);
            live.pop_back();
        } else if (!live.empty()) {
            Live& one = live[random.below(live.size())];
            CacheHit hit = cache.extend(one.table, one.salt, one.tokens, one.computed);
            hits += hit.tokens > one.computed;
            one.computed = hit.tokens;
            if (hit.copy) {
                content[hit.copy->to.value] = content[hit.copy->from.value];
                cache.release_copy_source(*hit.copy);
            }
            std::size_t upto = one.computed + random.below(one.tokens.size() - one.computed + 1);
            while (one.computed < upto) {
                if (one.computed == one.table.size() * kBlock) {
                    BlockRef page = cache.allocate();
                    if (!page) {
                        ++refused;
                        break;
                    }
                    content[page.id().value].clear();
                    one.table.append_own(std::move(page));
                }
                std::vector<TokenId>& page = content[one.table.ids()[one.computed / kBlock].value];
                page.resize(kBlock);
                page[one.computed % kBlock] = one.tokens[one.computed];
                ++one.computed;
            }
            cache.adopt(one.table, one.salt, one.tokens, one.computed / kBlock);
        }
        for (const Live& one : live) {
            for (std::size_t i = 0; i < one.computed; ++i) {
                ASSERT_EQ(content[one.table.ids()[i / kBlock].value][i % kBlock], one.tokens[i])
                    << "step " << step;
            }
        }
        std::vector<std::string> wrong = cache.check_integrity();
        ASSERT_TRUE(wrong.empty()) << wrong.front() << " at step " << step;
    }
    EXPECT_GT(refused, 0u);
    EXPECT_GT(hits, 100u);
    live.clear();
    EXPECT_EQ(cache.active_blocks(), 0u);
    EXPECT_EQ(cache.available_blocks(), kPages);
}

}  // namespace
}  // namespace taproot
