// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/stored_block.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

namespace taproot::testing {
namespace {

using Fault = StoredBlockFault;

constexpr std::size_t kPayload = 4096;

StoredBlock sample_block() {
    StoredBlock block;
    block.identity = {0x1111222233334444, 0x5555666677778888};
    block.salt = 7;
    block.parent = BlockHash{0xAAAABBBBCCCCDDDD};
    block.hash = BlockHash{0x1234567890ABCDEF};
    block.valid_tokens = kBlockTokens;
    for (int i = 0; i < kBlockTokens; ++i) block.tokens[static_cast<std::size_t>(i)] = 49'000 + i;
    return block;
}

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
    Random random(seed);
    std::vector<std::byte> out(size);
    for (std::byte& byte : out) byte = static_cast<std::byte>(random.below(256));
    return out;
}

std::vector<std::byte> encoded(const StoredBlock& block, std::span<const std::byte> payload) {
    std::vector<std::byte> out(kStoredBlockHeaderBytes + payload.size());
    encode_stored_block(block, payload, out);
    return out;
}

Fault decode(std::span<const std::byte> bytes) {
    StoredBlock block;
    std::span<const std::byte> payload;
    return decode_stored_block(bytes, block, payload);
}

TEST(StoredBlock, ComesBackAsItWasWritten) {
    for (std::uint32_t valid : {1u, 7u, 16u}) {
        StoredBlock block = sample_block();
        block.valid_tokens = valid;
        std::fill(block.tokens.begin() + valid, block.tokens.end(), 0);
        for (std::size_t size : {std::size_t{0}, std::size_t{1}, kPayload, std::size_t{368'640}}) {
            auto payload = random_bytes(size, size);
            auto bytes = encoded(block, payload);
            StoredBlock got;
            std::span<const std::byte> part;
            ASSERT_EQ(decode_stored_block(bytes, got, part), Fault::kNone);
            EXPECT_EQ(got, block);
            EXPECT_EQ(part.data(), bytes.data() + kStoredBlockHeaderBytes);
            EXPECT_TRUE(std::equal(part.begin(), part.end(), payload.begin(), payload.end()));
            EXPECT_EQ(compare_stored_block(got, block), Fault::kNone);
        }
    }
}

// The format is fixed: files outlive programs. Offsets and byte order as drawn in the header.
TEST(StoredBlock, BytesLieWhereTheFormatSaysLittleEndianFirst) {
    auto bytes = encoded(sample_block(), random_bytes(3, 1));
    auto at = [&](std::size_t offset) { return std::to_integer<int>(bytes[offset]); };
    EXPECT_EQ(std::memcmp(bytes.data(), "TAPROOTB", 8), 0);
    EXPECT_EQ(at(8), 1);      // version
    EXPECT_EQ(at(12), 16);    // valid tokens
    EXPECT_EQ(at(16), 0x44);  // model digest
    EXPECT_EQ(at(24), 0x88);  // layout digest
    EXPECT_EQ(at(32), 7);     // salt
    EXPECT_EQ(at(40), 0xDD);  // parent
    EXPECT_EQ(at(48), 0xEF);  // own hash
    EXPECT_EQ(at(56), 3);     // payload bytes
    EXPECT_EQ(at(64), 49'000 & 0xFF);
    EXPECT_EQ(at(65), 49'000 >> 8);
    EXPECT_EQ(at(124), 49'015 & 0xFF);
    EXPECT_EQ(bytes.size(), 147u);
}

TEST(StoredBlock, EveryFlippedBitOfTheHeaderIsFound) {
    auto bytes = encoded(sample_block(), random_bytes(kPayload, 1));
    for (std::size_t bit = 0; bit < kStoredBlockHeaderBytes * 8; ++bit) {
        bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        Fault fault = decode(bytes);
        EXPECT_TRUE(is_damage(fault)) << "bit " << bit << ": " << to_string(fault);
        bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    EXPECT_EQ(decode(bytes), Fault::kNone);
}

TEST(StoredBlock, EveryFlippedBitOfThePayloadIsFound) {
    // All bits of a small payload, then random ones of a page of the default model.
    auto bytes = encoded(sample_block(), random_bytes(300, 2));
    for (std::size_t bit = kStoredBlockHeaderBytes * 8; bit < bytes.size() * 8; ++bit) {
        bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
        EXPECT_EQ(decode(bytes), Fault::kBadChecksum) << "bit " << bit;
        bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    }
    bytes = encoded(sample_block(), random_bytes(368'640, 3));
    Random random(4);
    for (int i = 0; i < 300; ++i) {
        std::size_t at =
            kStoredBlockHeaderBytes + random.below(bytes.size() - kStoredBlockHeaderBytes);
        auto mask = static_cast<std::byte>(1u << random.below(8));
        bytes[at] ^= mask;
        EXPECT_EQ(decode(bytes), Fault::kBadChecksum) << "byte " << at;
        bytes[at] ^= mask;
    }
    EXPECT_EQ(decode(bytes), Fault::kNone);
}

TEST(StoredBlock, EveryTruncationIsFoundAndSoIsWhatIsTooLong) {
    auto bytes = encoded(sample_block(), random_bytes(64, 5));
    for (std::size_t size = 0; size < bytes.size(); ++size)
        EXPECT_EQ(decode(std::span(bytes).first(size)), Fault::kTruncated) << size;
    bytes.push_back(std::byte{0});
    EXPECT_EQ(decode(bytes), Fault::kBadLength);
}

TEST(StoredBlock, AnotherKindOrVersionIsNamed) {
    auto bytes = encoded(sample_block(), {});
    bytes[7] = std::byte{'W'};
    EXPECT_EQ(decode(bytes), Fault::kBadMagic);
    bytes = encoded(sample_block(), {});
    bytes[8] = std::byte{2};
    EXPECT_EQ(decode(bytes), Fault::kOtherVersion);
}

TEST(StoredBlock, TheFirstDifferenceToTheWantedBlockIsNamed) {
    const StoredBlock wanted = sample_block();
    StoredBlock other = wanted;
    other.tokens[15] ^= 1;
    EXPECT_EQ(compare_stored_block(other, wanted), Fault::kOtherTokens);
    other = wanted;
    other.valid_tokens = 15;
    EXPECT_EQ(compare_stored_block(other, wanted), Fault::kOtherTokens);
    other.hash.value ^= 1;
    EXPECT_EQ(compare_stored_block(other, wanted), Fault::kOtherHash);
    other.parent.value ^= 1;
    EXPECT_EQ(compare_stored_block(other, wanted), Fault::kOtherParent);
    other.salt ^= 1;
    EXPECT_EQ(compare_stored_block(other, wanted), Fault::kOtherSalt);
    other.identity.layout_digest ^= 1;
    EXPECT_EQ(compare_stored_block(other, wanted), Fault::kOtherLayout);
    other.identity.model_digest ^= 1;
    EXPECT_EQ(compare_stored_block(other, wanted), Fault::kOtherModel);
    EXPECT_FALSE(is_damage(Fault::kOtherModel));
}

TEST(StoredBlock, EveryFaultHasItsOwnName) {
    std::set<std::string> names;
    for (std::size_t i = 0; i < kStoredBlockFaults; ++i)
        names.insert(to_string(static_cast<Fault>(i)));
    EXPECT_EQ(names.size(), kStoredBlockFaults);
    EXPECT_EQ(names.count("unknown"), 0u);
}

}  // namespace
}  // namespace taproot::testing
