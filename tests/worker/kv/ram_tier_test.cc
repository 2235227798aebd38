// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/ram_tier.h"

#include <gtest/gtest.h>

#include <array>
#include <list>
#include <map>
#include <vector>

#include "base/random.h"
#include "base/units.h"
#include "tests/support/fuzz_seed.h"
#include "tests/worker/kv/memory_block_io.h"

namespace taproot {
namespace {

using testing::MemoryBlockIo;

constexpr std::size_t kBytes = 200;  // no multiple of a cache line

std::unique_ptr<RamTier> tier_of(std::uint32_t slots) {
    RamTierOptions options{.block_bytes = kBytes};
    while (RamTier::slots_for(options) < slots) options.bytes_max += 8;
    return *RamTier::create(options);
}

// A name with its own tokens; equal numbers are equal blocks.
struct Named {
    explicit Named(std::uint64_t number, std::uint64_t hash = 0) {
        for (std::size_t i = 0; i < tokens.size(); ++i)
            tokens[i] = static_cast<TokenId>(number * 100 + i);
        name = {BlockHash{hash == 0 ? number * 7919 : hash}, BlockHash{number + 1}, 3, tokens};
    }
    std::array<TokenId, kBlockTokens> tokens;
    BlockName name;
};

void expect_sound(const RamTier& tier) {
    std::vector<std::string> wrong = tier.check_integrity();
    ASSERT_TRUE(wrong.empty()) << wrong.front();
}

TEST(RamTier, GivesBackWhatWasStored) {
    auto tier = tier_of(3);
    MemoryBlockIo io(2, kBytes);
    io.fill(BlockId{0}, 1);
    Named one(1);
    tier->store(one.name, Segment::kProbation, io, BlockId{0});
    RamSlot slot = tier->find(one.name);
    ASSERT_NE(slot, kNoRamSlot);
    EXPECT_TRUE(tier->restore(slot, io, BlockId{1}));
    EXPECT_EQ(io.pages[1], io.pages[0]);
    tier->erase(slot);
    EXPECT_EQ(tier->find(one.name), kNoRamSlot);
    EXPECT_EQ(tier->used(), 0u);
    EXPECT_EQ(tier->stats().stored, 1u);
    EXPECT_EQ(tier->stats().restored, 1u);
    expect_sound(*tier);
}

TEST(RamTier, AHashRoutesAndTheNameDecides) {
    auto tier = tier_of(3);
    MemoryBlockIo io(1, kBytes);
    Named one(1, 55);
    tier->store(one.name, Segment::kProbation, io, BlockId{0});
    bool foreign = false;
    Named other(2, 55);
    EXPECT_EQ(tier->find(other.name, &foreign), kNoRamSlot);
    EXPECT_TRUE(foreign);
    for (int field = 0; field < 3; ++field) {
        Named changed(1, 55);
        if (field == 0) changed.name.salt ^= 1;
        if (field == 1) changed.name.parent.value ^= 1;
        if (field == 2) changed.tokens[15] ^= 1;
        EXPECT_EQ(tier->find(changed.name, &foreign), kNoRamSlot);
        EXPECT_TRUE(foreign);
    }
    Named absent(9);
    EXPECT_EQ(tier->find(absent.name, &foreign), kNoRamSlot);
    EXPECT_FALSE(foreign);
    EXPECT_EQ(tier->slot_of(BlockHash{55}), tier->find(one.name));
}

TEST(RamTier, AFlippedBitAnywhereIsAMiss) {
    auto tier = tier_of(1);
    MemoryBlockIo io(2, kBytes);
    io.fill(BlockId{0}, 5);
    Named one(1);
    for (std::size_t byte = 0; byte < kBytes; ++byte) {
        tier->store(one.name, Segment::kProbation, io, BlockId{0});
        RamSlot slot = tier->find(one.name);
        auto* bytes = const_cast<std::byte*>(tier->bytes(slot).data());
        bytes[byte] ^= std::byte{static_cast<unsigned char>(1u << byte % 8)};
        io.pages[1] = {};
        EXPECT_FALSE(tier->restore(slot, io, BlockId{1}));
        EXPECT_TRUE(io.pages[1].empty()) << "wrong bytes reached a page";
        tier->erase(slot);
    }
    EXPECT_EQ(tier->stats().corrupt, kBytes);
    // The tokens, by which a block is found, are under the checksum too.
    tier->store(one.name, Segment::kProbation, io, BlockId{0});
    RamSlot slot = tier->find(one.name);
    const_cast<TokenId&>(tier->name_of(slot).tokens[3]) ^= 4;
    EXPECT_FALSE(tier->restore(slot, io, BlockId{0}));
}

TEST(RamTier, BlocksUsedOnceGoFirstAndHeldOnesNever) {
    auto tier = tier_of(10);
    MemoryBlockIo io(1, kBytes);
    std::vector<Named> blocks;
    for (std::uint64_t i = 1; i <= 10; ++i) blocks.emplace_back(i);
    for (std::size_t i = 0; i < 10; ++i)
        tier->store(
            BlockName(Named(i + 1).name.hash, Named(i + 1).name.parent, 3, blocks[i].tokens),
            i < 2 ? Segment::kProtected : Segment::kProbation, io, BlockId{0});
    EXPECT_TRUE(tier->full());
    auto number = [&](RamSlot slot) { return tier->name_of(slot).hash.value / 7919; };
    EXPECT_EQ(number(tier->victim()), 3u);  // the oldest of those used once
    RamSlot third = tier->slot_of(BlockHash{3 * 7919});
    tier->hold(third);
    EXPECT_EQ(number(tier->victim()), 4u);
    tier->touch(tier->victim());  // used again
    EXPECT_EQ(number(tier->victim()), 5u);
    while (tier->segment_of(tier->victim()) == Segment::kProbation) tier->erase(tier->victim());
    EXPECT_EQ(number(tier->victim()), 1u);  // only protected ones are left
    tier->release(third);
    EXPECT_EQ(number(tier->victim()), 3u);
    expect_sound(*tier);
}

TEST(RamTier, ProtectedBlocksDoNotKeepEverybodyElseOut) {
    auto tier = tier_of(10);
    MemoryBlockIo io(1, kBytes);
    for (std::uint64_t i = 1; i <= 10; ++i)
        tier->store(Named(i).name, Segment::kProtected, io, BlockId{0});
    expect_sound(*tier);
    EXPECT_EQ(tier->segment_of(tier->victim()), Segment::kProbation);
    EXPECT_EQ(tier->name_of(tier->victim()).hash.value, 7919u);  // the oldest
}

TEST(RamTier, TheCapHoldsForPagesAndIndexTogether) {
    RamTierOptions options{.bytes_max = 1_MiB, .block_bytes = 4096};
    std::uint64_t slots = RamTier::slots_for(options);
    EXPECT_LT(slots * 4096, 1_MiB);
    EXPECT_GT(slots * 4096, 1_MiB * 94 / 100);
    options.bytes_max = 4096;  // no room for the index
    auto none = RamTier::create(options);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().where, "kv_ram_bytes");
}

// Random calls against lists and maps that say the same more simply, with bytes that change behind
// the tier's back.
TEST(RamTier, BehavesAsTheNaiveModel) {
    std::uint64_t seed = testing::fuzz_seed(11);
    SCOPED_TRACE(::testing::Message() << "TAPROOT_FUZZ_SEED=" << seed);
    Random random(seed);
    constexpr std::uint32_t kSlots = 12;
    auto tier = tier_of(kSlots);
    MemoryBlockIo io(2, kBytes);
    struct Known {
        std::uint64_t fill = 0;
        bool broken = false;
        int holds = 0;
    };
    std::map<std::uint64_t, Known> known;  // by number
    std::list<std::uint64_t> order[2];     // newest first; held ones are in none
    std::map<std::uint64_t, int> segment;
    auto drop = [&](std::uint64_t number) {
        for (auto& list : order) list.remove(number);
        known.erase(number);
    };
    auto trim = [&] {
        while (order[1].size() > static_cast<std::size_t>(kSlots * RamTier::kProtectedShare)) {
            order[0].push_front(order[1].back());
            segment[order[1].back()] = 0;
            order[1].pop_back();
        }
    };
    std::uint64_t hits = 0, corrupt = 0, victims = 0;
    for (int step = 0; step < testing::fuzz_rounds(20'000); ++step) {
        std::uint64_t number = 1 + random.below(30);
        Named block(number, 1 + number % 20);  // numbers 20 apart share a hash
        RamSlot slot = tier->find(block.name);
        ASSERT_EQ(slot != kNoRamSlot, known.count(number) > 0) << "step " << step;
        switch (random.below(6)) {
            case 0:
            case 1: {
                if (slot != kNoRamSlot) break;
                RamSlot twin = tier->slot_of(block.name.hash);
                if (twin != kNoRamSlot) {  // another block of this hash gives way
                    std::uint64_t other = number <= 20 ? number + 20 : number - 20;
                    if (known.at(other).holds > 0) break;
                    tier->erase(twin);
                    drop(other);
                }
                if (tier->full()) {
                    RamSlot victim = tier->victim();
                    auto& list = order[0].empty() ? order[1] : order[0];
                    ASSERT_EQ(victim == kNoRamSlot, list.empty());
                    if (victim == kNoRamSlot) break;
                    auto first = static_cast<std::uint64_t>(tier->name_of(victim).tokens[0]);
                    ASSERT_EQ(first, list.back() * 100);
                    tier->erase(victim);
                    drop(list.back());
                    ++victims;
                }
                std::uint64_t fill = random.next();
                io.fill(BlockId{0}, fill);
                int chosen = random.chance(0.5) ? 1 : 0;
                tier->store(block.name, static_cast<Segment>(chosen), io, BlockId{0});
                known[number] = {fill, false, 0};
                segment[number] = chosen;
                order[chosen].push_front(number);
                trim();
                break;
            }
            case 2: {
                if (slot == kNoRamSlot) break;
                bool good = tier->restore(slot, io, BlockId{1});
                ASSERT_EQ(good, !known[number].broken);
                if (good) {
                    io.fill(BlockId{0}, known[number].fill);
                    ASSERT_EQ(io.pages[0], io.pages[1]);
                    ++hits;
                } else {
                    ++corrupt;
                }
                if (!good || random.chance(0.5)) {
                    tier->erase(slot);
                    drop(number);
                }
                break;
            }
            case 3:
                if (slot == kNoRamSlot) break;
                if (known[number].holds > 0 && random.chance(0.7)) {
                    tier->release(slot);
                    if (--known[number].holds == 0) order[segment[number]].push_front(number);
                } else {
                    tier->hold(slot);
                    if (known[number].holds++ == 0) order[segment[number]].remove(number);
                }
                trim();
                break;
            case 4:
                if (slot == kNoRamSlot) break;
                tier->touch(slot);
                if (known[number].holds == 0) {
                    order[segment[number]].remove(number);
                    order[1].push_front(number);
                }
                segment[number] = 1;
                trim();
                break;
            case 5:
                if (slot == kNoRamSlot || !random.chance(0.2) || known[number].broken) break;
                const_cast<std::byte&>(tier->bytes(slot)[random.below(kBytes)]) ^= std::byte{64};
                known[number].broken = true;
                break;
        }
        ASSERT_EQ(tier->used(), known.size());
        expect_sound(*tier);
    }
    EXPECT_GT(hits, 100u);
    EXPECT_GT(corrupt, 20u);
    EXPECT_GT(victims, 100u);
    EXPECT_EQ(tier->stats().corrupt, corrupt);
}

}  // namespace
}  // namespace taproot
