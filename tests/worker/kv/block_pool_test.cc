// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/block_pool.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "base/random.h"
#include "tests/support/fuzz_seed.h"
#include "worker/kv/block_ref.h"

namespace taproot {
namespace {

using State = BlockPool::State;

TEST(BlockPool, AnEmptyPoolGivesAnEmptyHandle) {
    BlockPool pool(1);
    BlockRef only = pool.allocate();
    ASSERT_TRUE(only);
    EXPECT_FALSE(pool.allocate());
    only.reset();
    EXPECT_TRUE(pool.allocate());
}

TEST(BlockPool, TheLastHandleFreesTheBlock) {
    BlockPool pool(2);
    BlockRef one = pool.allocate();
    BlockId id = one.id();
    BlockRef two = one.clone();
    one.reset();
    EXPECT_EQ(pool.state(id), State::kActive);
    two = BlockRef();
    EXPECT_EQ(pool.state(id), State::kFree);
    EXPECT_EQ(pool.free_blocks(), 2u);
}

TEST(BlockPool, ACachedBlockOutlivesItsHandleUntilEvicted) {
    BlockPool pool(1);
    BlockRef ref = pool.allocate();
    BlockId id = ref.id();
    pool.into_cache(std::move(ref));
    EXPECT_EQ(pool.state(id), State::kCached);
    EXPECT_FALSE(pool.allocate());
    pool.evicted(id);
    EXPECT_EQ(pool.state(id), State::kFree);
}

TEST(BlockPoolDeathTest, IllegalMovesAbort) {
    BlockPool pool(2);
    BlockRef ref = pool.allocate();
    EXPECT_DEATH(pool.evicted(ref.id()), "kCached");
    BlockRef twin = ref.clone();
    EXPECT_DEATH(pool.into_cache(std::move(ref)), "handles == 1");
}

// Random legal moves against a map of what each block should be.
TEST(BlockPool, AgreesWithANaiveModel) {
    std::uint64_t seed = testing::fuzz_seed();
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    for (int round = 0; round < 20; ++round) {
        auto size = static_cast<std::uint32_t>(random.between(1, 20));
        BlockPool pool(size);
        std::vector<BlockRef> handles;
        std::map<std::uint32_t, int> counts;  // active blocks
        std::set<std::uint32_t> cached;
        for (int step = 0; step < 2000; ++step) {
            switch (random.below(5)) {
                case 0: {
                    BlockRef ref = pool.allocate();
                    ASSERT_EQ(static_cast<bool>(ref), counts.size() + cached.size() < size);
                    if (!ref) break;
                    ASSERT_EQ(counts.count(ref.id().value) + cached.count(ref.id().value), 0u);
                    counts[ref.id().value] = 1;
                    handles.push_back(std::move(ref));
                    break;
                }
                case 1: {
                    if (handles.empty()) break;
                    BlockRef ref = handles[random.below(handles.size())].clone();
                    ++counts[ref.id().value];
                    handles.push_back(std::move(ref));
                    break;
                }
                case 2: {
                    if (handles.empty()) break;
                    std::size_t i = random.below(handles.size());
                    std::swap(handles[i], handles.back());
                    std::uint32_t id = handles.back().id().value;
                    handles.pop_back();
                    if (--counts[id] == 0) counts.erase(id);
                    break;
                }
                case 3: {
                    if (handles.empty()) break;
                    std::size_t i = random.below(handles.size());
                    std::uint32_t id = handles[i].id().value;
                    if (counts[id] != 1) break;
                    std::swap(handles[i], handles.back());
                    pool.into_cache(std::move(handles.back()));
                    handles.pop_back();
                    counts.erase(id);
                    cached.insert(id);
                    break;
                }
                default: {
                    if (cached.empty()) break;
                    pool.evicted(BlockId{*cached.begin()});
                    cached.erase(cached.begin());
                }
            }
            ASSERT_EQ(pool.active_blocks(), counts.size());
            ASSERT_EQ(pool.cached_blocks(), cached.size());
            ASSERT_TRUE(pool.check_integrity().empty());
        }
        handles.clear();
        EXPECT_EQ(pool.active_blocks(), 0u);
    }
}

}  // namespace
}  // namespace taproot
