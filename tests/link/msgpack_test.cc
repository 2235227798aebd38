// SPDX-License-Identifier: Apache-2.0
#include "link/msgpack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"

namespace taproot::link {
namespace {

std::string bytes(std::initializer_list<int> values) {
    std::string out;
    for (int value : values) out.push_back(static_cast<char>(value));
    return out;
}

template <typename F>
std::string written(F&& f) {
    std::string out;
    MsgpackWriter writer(out);
    f(writer);
    return out;
}

std::string uint_bytes(std::uint64_t value) {
    return written([=](MsgpackWriter& w) { w.uint(value); });
}
std::string sint_bytes(std::int64_t value) {
    return written([=](MsgpackWriter& w) { w.sint(value); });
}

TEST(MsgpackWriter, IntegersTakeTheShortestFormOfTheSpecification) {
    EXPECT_EQ(uint_bytes(0), bytes({0x00}));
    EXPECT_EQ(uint_bytes(127), bytes({0x7F}));
    EXPECT_EQ(uint_bytes(128), bytes({0xCC, 0x80}));
    EXPECT_EQ(uint_bytes(300), bytes({0xCD, 0x01, 0x2C}));
    EXPECT_EQ(uint_bytes(65'536), bytes({0xCE, 0, 1, 0, 0}));
    EXPECT_EQ(uint_bytes(0xA1A2A3A4A5A6A7A8),
              bytes({0xCF, 0xA1, 0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8}));
    EXPECT_EQ(sint_bytes(-1), bytes({0xFF}));
    EXPECT_EQ(sint_bytes(-32), bytes({0xE0}));
    EXPECT_EQ(sint_bytes(-33), bytes({0xD0, 0xDF}));
    EXPECT_EQ(sint_bytes(-129), bytes({0xD1, 0xFF, 0x7F}));
    EXPECT_EQ(sint_bytes(-32'769), bytes({0xD2, 0xFF, 0xFF, 0x7F, 0xFF}));
    EXPECT_EQ(sint_bytes(std::numeric_limits<std::int64_t>::min()),
              bytes({0xD3, 0x80, 0, 0, 0, 0, 0, 0, 0}));
}

// The bytes of an event message written by another implementation (msgspec), from
// data/hash_and_msgpack_goldens.txt: [1.5, [["AllBlocksCleared"]], 0] and a stored event.
TEST(MsgpackWriter, AgreesWithBytesOfAnotherImplementation) {
    std::string cleared = written([](MsgpackWriter& w) {
        w.array(3);
        w.float64(1.5);
        w.array(1);
        w.array(1);
        w.string("AllBlocksCleared");
        w.uint(0);
    });
    EXPECT_EQ(cleared, bytes({0x93, 0xcb, 0x3f, 0xf8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                              0x91, 0x91, 0xb0, 0x41, 0x6c, 0x6c, 0x42, 0x6c, 0x6f, 0x63,
                              0x6b, 0x73, 0x43, 0x6c, 0x65, 0x61, 0x72, 0x65, 0x64, 0x00}));
    std::string stored = written([](MsgpackWriter& w) {
        w.map(2);
        w.string("block_hashes");
        w.array(1);
        w.uint(0xA1A2A3A4A5A6A7A8);
        w.string("parent_block_hash");
        w.nil();
    });
    EXPECT_EQ(stored, bytes({0x82, 0xac, 0x62, 0x6c, 0x6f, 0x63, 0x6b, 0x5f, 0x68, 0x61, 0x73,
                             0x68, 0x65, 0x73, 0x91, 0xcf, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6,
                             0xa7, 0xa8, 0xb1, 0x70, 0x61, 0x72, 0x65, 0x6e, 0x74, 0x5f, 0x62,
                             0x6c, 0x6f, 0x63, 0x6b, 0x5f, 0x68, 0x61, 0x73, 0x68, 0xc0}));
}

TEST(MsgpackReader, ReadsBackEveryKindAtTheEdgesOfItsWidths) {
    std::vector<std::uint64_t> unsigned_values;
    for (int bit = 0; bit < 64; ++bit)
        for (int delta : {-1, 0, 1})
            unsigned_values.push_back((std::uint64_t{1} << bit) +
                                      static_cast<std::uint64_t>(delta));
    for (std::uint64_t value : unsigned_values) {
        std::string raw = uint_bytes(value);
        MsgpackReader in(raw);
        EXPECT_EQ(in.uint("x", ~std::uint64_t{0}), value);
        EXPECT_TRUE(in.ok() && in.at_end());
        auto number = static_cast<std::int64_t>(value);
        raw = sint_bytes(number);
        MsgpackReader again(raw);
        EXPECT_EQ(again.sint("x", std::numeric_limits<std::int64_t>::min(),
                             std::numeric_limits<std::int64_t>::max()),
                  number);
        EXPECT_TRUE(again.ok() && again.at_end());
    }
    for (std::size_t size : {0u, 31u, 32u, 255u, 256u, 65'535u, 65'536u}) {
        std::string text(size, 'x');
        std::string raw = written([&](MsgpackWriter& w) {
            w.string(text);
            auto room = w.binary(size);
            std::copy(text.begin(), text.end(), room.begin());
            w.boolean(true);
            w.float32(-0.25f);
        });
        MsgpackReader in(raw);
        EXPECT_EQ(in.string("s", size), text);
        EXPECT_EQ(in.binary("b", size), text);
        EXPECT_TRUE(in.boolean("t"));
        EXPECT_EQ(in.float32("f"), -0.25f);
        EXPECT_TRUE(in.ok() && in.at_end());
    }
}

TEST(MsgpackReader, RefusesIntegersOutsideTheAskedRangeNamingValueAndRange) {
    std::string raw = uint_bytes(256);
    MsgpackReader in(raw);
    in.uint("choices", 255);
    ASSERT_FALSE(in.ok());
    EXPECT_EQ(in.error().where, "choices");
    EXPECT_NE(in.error().message.find("256"), std::string::npos);
    EXPECT_NE(in.error().message.find("0..255"), std::string::npos);

    raw = sint_bytes(-1);
    MsgpackReader negative(raw);
    negative.uint("x", 10);
    EXPECT_FALSE(negative.ok());

    raw = uint_bytes(~std::uint64_t{0});
    MsgpackReader large(raw);
    large.sint("x", std::numeric_limits<std::int64_t>::min(),
               std::numeric_limits<std::int64_t>::max());
    EXPECT_FALSE(large.ok());
}

TEST(MsgpackReader, ReadsIntegersOfNeedlessWidth) {
    std::string raw = bytes({0xCF, 0, 0, 0, 0, 0, 0, 0, 5, 0xD3, 0, 0, 0, 0, 0, 0, 0, 6, 0xD0, 7});
    MsgpackReader in(raw);
    EXPECT_EQ(in.uint("a", 5), 5u);
    EXPECT_EQ(in.uint("b", 6), 6u);
    EXPECT_EQ(in.sint("c", 0, 7), 7);
    EXPECT_TRUE(in.ok());
}

TEST(MsgpackReader, ChecksLengthsAgainstWhatRemainsBeforeUse) {
    for (const std::string& raw :
         {bytes({0xDB, 0xFF, 0xFF, 0xFF, 0xFF, 'a'}), bytes({0xC6, 0x7F, 0xFF, 0xFF, 0xFF}),
          bytes({0xDD, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}), bytes({0xDF, 0x00, 0x00, 0x00, 0x01, 0x01}),
          bytes({0xA5, 'a'}), bytes({0xD9}), bytes({0xCF, 1, 2})}) {
        MsgpackReader in(raw);
        in.skip("value");
        EXPECT_FALSE(in.ok()) << testing::PrintToString(raw);
    }
    std::string claims = bytes({0xDC, 0xFF, 0xFF, 0x00});
    MsgpackReader in(claims);
    EXPECT_EQ(in.array("list", 1u << 20), 0u);
    EXPECT_FALSE(in.ok());
}

TEST(MsgpackReader, RefusesMoreThanTheLimitEvenWhenTheBytesAreThere) {
    std::string raw = written([](MsgpackWriter& w) { w.string("abcdef"); });
    MsgpackReader in(raw);
    EXPECT_EQ(in.string("name", 5), "");
    ASSERT_FALSE(in.ok());
    EXPECT_EQ(in.error().where, "name");
}

TEST(MsgpackReader, RefusesFloatsThatAreNotFinite) {
    for (float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
        std::string raw = written([=](MsgpackWriter& w) { w.float32(value); });
        MsgpackReader in(raw);
        in.float32("t");
        EXPECT_FALSE(in.ok());
        raw = written([=](MsgpackWriter& w) { w.float64(value); });
        MsgpackReader wide(raw);
        wide.float64("t");
        EXPECT_FALSE(wide.ok());
    }
}

TEST(MsgpackReader, KeepsTheFirstErrorAndReadsZeroesAfterIt) {
    std::string raw = bytes({0xC3, 0x05, 0x06});
    MsgpackReader in(raw);
    in.uint("first", 9);
    EXPECT_EQ(in.uint("second", 9), 0u);
    EXPECT_EQ(in.string("third", 9), "");
    EXPECT_EQ(in.error().where, "first");
    EXPECT_EQ(in.offset(), 0u);
}

TEST(MsgpackReader, SkipsAnyValueAndNothingElse) {
    std::string value = bytes({0x82, 0xA1, 'k',  0x93, 0xC0, 0xC2, 0xCB, 0,    0,    0, 0, 0, 0,
                               0,    0,    0xC7, 0x02, 0x05, 'x',  'y',  0xD6, 0x01, 1, 2, 3, 4});
    std::string raw = value + bytes({0x2A});
    MsgpackReader in(raw);
    in.skip("any");
    ASSERT_TRUE(in.ok()) << in.error().describe();
    EXPECT_EQ(in.offset(), value.size());
    EXPECT_EQ(in.uint("after", 100), 42u);
}

TEST(MsgpackReader, SkipStopsAtItsDepthAndAtTheUnusedTag) {
    std::string deep(10'000, static_cast<char>(0x91));
    MsgpackReader in(deep);
    in.skip("deep");
    ASSERT_FALSE(in.ok());
    EXPECT_NE(in.error().message.find("deeper"), std::string::npos);

    std::string edge(MsgpackReader::kDepthMax - 1, static_cast<char>(0x91));
    edge.push_back(0x00);
    MsgpackReader fits(edge);
    fits.skip("edge");
    EXPECT_TRUE(fits.ok() && fits.at_end());

    std::string unused = bytes({0xC1});
    MsgpackReader never(unused);
    never.skip("c1");
    EXPECT_FALSE(never.ok());
}

TEST(MsgpackReader, RandomBytesNeverRunPastTheEnd) {
    for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
        Random random(seed);
        std::string raw(random.below(40), '\0');
        for (char& c : raw) c = static_cast<char>(random.next());
        MsgpackReader in(raw);
        while (in.ok() && !in.at_end()) in.skip("any");
        ASSERT_LE(in.offset(), raw.size()) << "seed " << seed;
    }
}

}  // namespace
}  // namespace taproot::link
