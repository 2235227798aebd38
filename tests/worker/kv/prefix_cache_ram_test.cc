// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>
#include <variant>
#include <vector>

#include "base/random.h"
#include "radix_cache/block_hash.h"
#include "tests/support/fuzz_seed.h"
#include "tests/worker/kv/memory_block_io.h"
#include "worker/kv/prefix_cache.h"

namespace taproot {
namespace {

constexpr std::size_t kBlock = kBlockTokens;

std::vector<TokenId> iota_tokens(std::size_t n, TokenId first = 0) {
    std::vector<TokenId> tokens(n);
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
}

// A pool whose pages hold, as "KV", the tokens of their positions and the position of the first.
class CacheWithRam {
public:
    CacheWithRam(std::uint32_t pages, std::uint32_t ram_blocks, RadixTreeOptions options = {})
        : io(pages, kPageBytes),
          pool(pages),
          ram(make(ram_blocks)),
          cache(pool, 1, options, ram.get(), &io) {}

    static constexpr std::size_t kPageBytes = (kBlock + 1) * sizeof(std::int32_t);

    static std::unique_ptr<RamTier> make(std::uint32_t blocks) {
        RamTierOptions options{.block_bytes = kPageBytes};
        while (RamTier::slots_for(options) < blocks) options.bytes_max += 8;
        return *RamTier::create(options);
    }

    [[nodiscard]] std::int32_t* words(BlockId page) {
        return reinterpret_cast<std::int32_t*>(io.pages[page.value].data());
    }

    void write(const BlockTable& table, std::span<const TokenId> tokens, std::size_t position) {
        std::int32_t* page = words(table.ids()[position / kBlock]);
        page[0] = static_cast<std::int32_t>(position / kBlock);
        page[1 + position % kBlock] = tokens[position];
    }

    void copy(const CacheHit& hit) {
        if (!hit.copy) return;
        io.pages[hit.copy->to.value] = io.pages[hit.copy->from.value];
        cache.release_copy_source(*hit.copy);
    }

    // What a request does: match, then compute the rest up to `end`. False without pages.
    bool compute(BlockTable& table, std::uint64_t salt, std::span<const TokenId> tokens,
                 std::size_t computed, std::size_t end) {
        for (; computed < end; ++computed) {
            if (computed == table.size() * kBlock) {
                BlockRef page = cache.allocate();
                if (!page) break;
                table.append_own(std::move(page));
            }
            write(table, tokens, computed);
        }
        cache.adopt(table, salt, tokens, computed / kBlock);
        return computed == end;
    }

    void run(std::uint64_t salt, const std::vector<TokenId>& tokens) {
        BlockTable table(&cache);
        CacheHit hit = cache.extend(table, salt, tokens, 0);
        copy(hit);
        ASSERT_TRUE(compute(table, salt, tokens, hit.tokens, tokens.size()));
        expect_holds(table, tokens, tokens.size());
    }

    void expect_holds(const BlockTable& table, std::span<const TokenId> tokens, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            const std::int32_t* page = words(table.ids()[i / kBlock]);
            ASSERT_EQ(page[0], static_cast<std::int32_t>(i / kBlock));
            ASSERT_EQ(page[1 + i % kBlock], tokens[i]) << "position " << i;
        }
    }

    void expect_sound() {
        std::vector<std::string> wrong = cache.check_integrity();
        ASSERT_TRUE(wrong.empty()) << wrong.front();
    }

    testing::MemoryBlockIo io;
    BlockPool pool;
    std::unique_ptr<RamTier> ram;
    PrefixCache cache;
};

TEST(PrefixCacheRam, AnEvictedPrefixComesBackFromRam) {
    CacheWithRam rig(6, 20);
    std::vector<TokenId> first = iota_tokens(70), second = iota_tokens(90, 1000);
    rig.run(0, first);
    rig.run(0, second);  // takes all pages
    EXPECT_EQ(rig.ram->used(), 4u);
    CacheProbe probe = rig.cache.probe(0, first);
    EXPECT_EQ(probe.tokens, 64u);
    EXPECT_EQ(probe.full_blocks, 0u);
    EXPECT_EQ(probe.ram_blocks, 4u);

    BlockTable table(&rig.cache);
    CacheHit hit = rig.cache.extend(table, 0, first, 0);
    EXPECT_EQ(hit.tokens, 64u);
    EXPECT_EQ(hit.restored_blocks, 4u);
    EXPECT_FALSE(hit.more_in_ram);
    EXPECT_FALSE(hit.copy);
    EXPECT_EQ(table.shared(), 4u);
    rig.expect_holds(table, first, 64);
    EXPECT_EQ(rig.ram->stats().restored, 4u);
    // What came up left RAM, and what gave way for it went down.
    EXPECT_EQ(rig.cache.probe(0, first).full_blocks, 4u);
    EXPECT_EQ(rig.cache.probe(0, second).tokens, 80u);
    rig.expect_sound();
}

TEST(PrefixCacheRam, AMatchGoesOnInRamWhereTheTreeEnds) {
    CacheWithRam rig(6, 20);
    std::vector<TokenId> tokens = iota_tokens(80);
    rig.run(0, tokens);
    {
        BlockRef a = rig.cache.allocate();  // one is free, then the end of the chain goes
        BlockRef b = rig.cache.allocate();
        BlockRef c = rig.cache.allocate();
        CacheProbe probe = rig.cache.probe(0, tokens);
        EXPECT_EQ(probe.full_blocks, 3u);
        EXPECT_EQ(probe.ram_blocks, 2u);
        // Nothing is free and its own path is pinned: the restore gets no page and says so.
        BlockTable table(&rig.cache);
        CacheHit hit = rig.cache.extend(table, 0, tokens, 0);
        EXPECT_EQ(hit.tokens, 48u);
        EXPECT_EQ(hit.restored_blocks, 0u);
        EXPECT_FALSE(hit.more_in_ram);
        EXPECT_EQ(rig.cache.probe(0, tokens).tokens, 80u);  // still there
        rig.expect_sound();
    }
    BlockTable table(&rig.cache);
    EXPECT_EQ(rig.cache.extend(table, 0, tokens, 0).tokens, 80u);
    rig.expect_holds(table, tokens, 80);
    rig.expect_sound();
}

TEST(PrefixCacheRam, ALongRestoreGoesInPartsAndLosesNothing) {
    CacheWithRam rig(12, 30);
    std::vector<TokenId> tokens = iota_tokens(10 * kBlock + 3);
    rig.run(0, tokens);
    rig.run(0, iota_tokens(12 * kBlock, 5000));
    BlockTable table(&rig.cache);
    CacheHit none = rig.cache.extend(table, 0, tokens, 0, 0);
    EXPECT_EQ(none.tokens, 0u);
    EXPECT_TRUE(none.more_in_ram);
    EXPECT_EQ(table.size(), 0u);
    std::size_t computed = 0;
    for (std::size_t part : {4u, 4u, 2u}) {
        CacheHit hit = rig.cache.extend(table, 0, tokens, computed, 4);
        EXPECT_EQ(hit.restored_blocks, part);
        EXPECT_EQ(hit.tokens, computed + part * kBlock);
        computed = hit.tokens;
        EXPECT_EQ(hit.more_in_ram, computed < 10 * kBlock);
        rig.expect_sound();
    }
    rig.expect_holds(table, tokens, computed);
}

TEST(PrefixCacheRam, ASpoiledBlockIsAMissAndWhatComesBeforeItIsNot) {
    CacheWithRam rig(6, 20);
    std::vector<TokenId> tokens = iota_tokens(80);
    rig.run(0, tokens);
    rig.run(0, iota_tokens(90, 1000));
    std::vector<BlockHash> hashes;
    hash_blocks(0, tokens, kBlockTokens, hashes);
    const_cast<std::byte&>(rig.ram->bytes(rig.ram->slot_of(hashes[2]))[9]) ^= std::byte{1};
    BlockTable table(&rig.cache);
    CacheHit hit = rig.cache.extend(table, 0, tokens, 0);
    EXPECT_EQ(hit.tokens, 32u);
    EXPECT_EQ(rig.ram->stats().corrupt, 1u);
    EXPECT_EQ(rig.cache.probe(0, tokens).tokens, 32u);
    // Computed again, the rest of the chain is found behind it.
    ASSERT_TRUE(rig.compute(table, 0, tokens, 32, 48));
    EXPECT_EQ(rig.cache.extend(table, 0, tokens, 48).tokens, 80u);
    rig.expect_holds(table, tokens, 80);
    rig.expect_sound();
}

TEST(PrefixCacheRam, SaltsShareNothingInRamEither) {
    CacheWithRam rig(4, 20);
    std::vector<TokenId> tokens = iota_tokens(48);
    rig.run(1, tokens);
    rig.run(1, iota_tokens(64, 1000));
    EXPECT_EQ(rig.cache.probe(1, tokens).ram_blocks, 3u);
    EXPECT_EQ(rig.cache.probe(2, tokens).tokens, 0u);
    BlockTable table(&rig.cache);
    EXPECT_EQ(rig.cache.extend(table, 2, tokens, 0).tokens, 0u);
}

TEST(PrefixCacheRam, OneHashForAllBlocksChangesNoAnswer) {
    RadixTreeOptions weak;
    weak.hash_block = [](BlockHash parent, std::span<const TokenId>) {
        return BlockHash{parent.value + 1};  // the depth alone
    };
    CacheWithRam rig(4, 20, weak);
    for (TokenId first : {0, 1000, 2000, 0, 1000}) rig.run(0, iota_tokens(60, first));
    EXPECT_GT(rig.ram->stats().other_tokens, 0u);
    rig.expect_sound();
}

TEST(PrefixCacheRam, BlocksUsedTwiceOnTheDeviceStayLongestInRam) {
    CacheWithRam rig(4, 8);
    rig.run(0, iota_tokens(32, 0));
    rig.run(0, iota_tokens(32, 0));     // used again
    rig.run(0, iota_tokens(32, 1000));  // used once, and newer
    rig.run(0, iota_tokens(64, 2000));  // all four go down
    EXPECT_EQ(rig.ram->used(), 4u);
    rig.run(0, iota_tokens(64, 3000));  // and these four after them
    rig.run(0, iota_tokens(64, 4000));  // and these, for which four must go
    EXPECT_EQ(rig.cache.probe(0, iota_tokens(32, 0)).ram_blocks, 2u);
    EXPECT_EQ(rig.cache.probe(0, iota_tokens(32, 1000)).ram_blocks, 0u);
    EXPECT_EQ(rig.ram->stats().dropped, 4u);
}

TEST(PrefixCacheRam, ClearForgetsRamToo) {
    CacheWithRam rig(4, 8);
    rig.run(0, iota_tokens(64, 0));
    rig.run(0, iota_tokens(64, 1000));
    rig.cache.clear();
    EXPECT_EQ(rig.ram->used(), 0u);
    EXPECT_TRUE(rig.cache.snapshot().empty());
    rig.expect_sound();
}

// Random sequences over a tiny pool and a tiny RAM, with spoiled bytes: what a table holds is
// always its own tokens, events rebuild the snapshot, and every invariant holds.
TEST(PrefixCacheRam, TablesHoldTheirOwnTokensWhateverGoesDownAndUp) {
    std::uint64_t seed = testing::fuzz_seed(21);
    SCOPED_TRACE(::testing::Message() << "TAPROOT_FUZZ_SEED=" << seed);
    Random random(seed);
    CacheWithRam rig(10, 12);
    struct Live {
        std::uint64_t salt;
        std::vector<TokenId> tokens;
        std::size_t computed;
        BlockTable table;
    };
    std::vector<Live> live;
    std::set<std::pair<std::uint64_t, KvTier>> mirror;
    std::uint64_t restored = 0, in_parts = 0;
    for (int step = 0; step < testing::fuzz_rounds(6000); ++step) {
        std::uint64_t what = random.below(5);
        if (what == 0 && live.size() < 3) {
            Live one{random.below(2), {}, 0, BlockTable(&rig.cache)};
            auto n = static_cast<std::size_t>(random.between(1, 100));
            TokenId family = static_cast<TokenId>(random.below(3) * 1000);
            for (std::size_t i = 0; i < n; ++i)
                one.tokens.push_back(static_cast<TokenId>(family + static_cast<TokenId>(i) +
                                                          (random.chance(0.01) ? 500 : 0)));
            live.push_back(std::move(one));
        } else if (what == 1 && !live.empty()) {
            std::swap(live[random.below(live.size())], live.back());
            Live& one = live.back();
            rig.cache.retire(one.table, one.salt, one.tokens, one.computed);
            live.pop_back();
        } else if (what == 2 && random.chance(0.1)) {
            std::vector<BlockHash> stored;
            rig.ram->for_each([&](const BlockName& name) { stored.push_back(name.hash); });
            if (!stored.empty()) {
                RamSlot slot = rig.ram->slot_of(stored[random.below(stored.size())]);
                const_cast<std::byte&>(rig.ram->bytes(slot)[random.below(60)]) ^= std::byte{2};
            }
        } else if (!live.empty()) {
            Live& one = live[random.below(live.size())];
            CacheHit hit =
                rig.cache.extend(one.table, one.salt, one.tokens, one.computed, random.below(5));
            ASSERT_GE(hit.tokens, one.computed);
            rig.copy(hit);
            one.computed = hit.tokens;
            restored += hit.restored_blocks;
            in_parts += hit.more_in_ram;
            if (!hit.more_in_ram) {
                std::size_t end = one.computed + random.below(one.tokens.size() - one.computed + 1);
                while (end > one.computed &&
                       !rig.compute(one.table, one.salt, one.tokens, one.computed, end))
                    end = std::max(one.computed, std::min(end - 1, one.table.size() * kBlock));
                one.computed = end;
            }
        }
        for (const Live& one : live) rig.expect_holds(one.table, one.tokens, one.computed);
        rig.expect_sound();
        for (const KvEvent& event : rig.cache.take_events()) {
            if (const auto* in = std::get_if<KvStored>(&event)) {
                ASSERT_TRUE(mirror.insert({in->hash.value, in->tier}).second);
            } else {
                const auto& out = std::get<KvRemoved>(event);
                ASSERT_EQ(mirror.erase({out.hash.value, out.tier}), 1u);
            }
        }
        std::set<std::pair<std::uint64_t, KvTier>> snapshot;
        for (const KvStored& one : rig.cache.snapshot())
            snapshot.insert({one.hash.value, one.tier});
        ASSERT_EQ(snapshot, mirror);
        if (HasFatalFailure()) return;
    }
    EXPECT_GT(restored, 200u);
    EXPECT_GT(in_parts, 50u);
    EXPECT_GT(rig.ram->stats().corrupt, 5u);
    EXPECT_GT(rig.ram->stats().dropped, 100u);
    live.clear();
    EXPECT_EQ(rig.cache.available_blocks(), 10u);
}

}  // namespace
}  // namespace taproot
