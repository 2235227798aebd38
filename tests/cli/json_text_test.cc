// SPDX-License-Identifier: Apache-2.0
#include "cli/json_text.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cmath>
#include <limits>

#include "base/random.h"

namespace taproot::cli {
namespace {

namespace json = boost::json;

TEST(JsonText, DoublesArePlainDecimals) {
    EXPECT_EQ(json_text(197.0), "197.0");
    EXPECT_EQ(json_text(0.0), "0.0");
    EXPECT_EQ(json_text(-0.25), "-0.25");
    EXPECT_EQ(json_text(1.48e12), "1480000000000.0");
    EXPECT_EQ(json_text(1e-5), "0.00001");
    EXPECT_EQ(json_text(26.9), "26.9");
}

TEST(JsonText, WhatIsNoDoubleIsAsTheLibraryWritesIt) {
    json::value value =
        json::parse(R"({"a":[1,-2,18446744073709551615,true,null],"q\"":"\u0001x","e":{},"l":[]})");
    EXPECT_EQ(json_text(value),
              R"({"a":[1,-2,18446744073709551615,true,null],"q\"":"\u0001x","e":{},"l":[]})");
}

TEST(JsonText, NumbersThatJsonLacksAreNull) {
    EXPECT_EQ(json_text(std::nan("")), "null");
    EXPECT_EQ(json_text(json::array{std::numeric_limits<double>::infinity()}), "[null]");
}

TEST(JsonText, EveryFiniteDoubleReadsBackAsItself) {
    auto check = [](double value) {
        std::string text = json_text(value);
        EXPECT_EQ(text.find_first_of("eE"), std::string::npos) << text;
        EXPECT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
    };
    using Limits = std::numeric_limits<double>;
    for (double value : {Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min()})
        check(value);
    Random random(7);
    for (int i = 0; i < 1000; ++i)
        check(std::ldexp(random.unit() - 0.5, static_cast<int>(random.below(400)) - 200));
}

TEST(Rounded, KeepsTheDigitsAskedForAndNoMore) {
    EXPECT_EQ(json_text(rounded(26.94999, 1)), "26.9");
    EXPECT_EQ(json_text(rounded(0.12345678, 4)), "0.1235");
    EXPECT_EQ(json_text(rounded(1999.5, 0)), "2000.0");
}

}  // namespace
}  // namespace taproot::cli
