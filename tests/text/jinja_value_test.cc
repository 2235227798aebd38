// SPDX-License-Identifier: Apache-2.0
#include "tests/text/jinja_support.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja::testing {
namespace {

TEST(JinjaValue, DictsKeepInsertionOrderAndReplaceInPlace) {
    Value dict = Value::dict();
    for (int i = 0; i < 20; ++i) dict.set("k" + std::to_string(i), Value::integer(i));
    dict.set("k3", Value::integer(33));
    EXPECT_EQ(dict.dict_data().entries.size(), 20U);
    EXPECT_EQ(dict.dict_data().entries[3].second.as_int(), 33);
    dict.dict_data().erase(3);
    EXPECT_EQ(dict.find("k3"), nullptr);
    EXPECT_EQ(dict.find("k19")->as_int(), 19);
}

TEST(JinjaValue, NumbersAreEqualAcrossTypesAsInPython) {
    EXPECT_TRUE(values_equal(Value::integer(1), Value::number(1.0)));
    EXPECT_TRUE(values_equal(Value::integer(1), Value::boolean(true)));
    EXPECT_FALSE(values_equal(Value::integer(1), Value::template_string("1")));
    EXPECT_FALSE(values_equal(Value::none(), Value()));
    EXPECT_TRUE(values_equal(Value::user_string("a"), Value::template_string("a")));
}

TEST(JinjaValue, TheContextOutlivesNothingItGaveAway) {
    Result<Text> text = [] {
        const Value context = json(R"({"s": "kept"})");
        return try_render("{{ s }}", context);
    }();
    ASSERT_TRUE(text);
    EXPECT_EQ(text->bytes(), "kept");
}

TEST(JinjaUnicode, CountsAndCutsByCodePoint) {
    EXPECT_EQ(count_code_points("aé日😀"), 4U);
    EXPECT_EQ(byte_offset("aé日😀", 2), 3U);
    EXPECT_EQ(byte_offset("aé日😀", 9), 10U);
    EXPECT_EQ(count_code_points("\xff\xc3\x28"), 3U);
    EXPECT_EQ(count_code_points("\xed\xa0\x80"), 3U)
        << "an encoded surrogate is three invalid bytes";
    EXPECT_EQ(count_code_points("\xc0\x80"), 2U) << "so is an overlong NUL two";
}

TEST(JinjaUnicode, BackwardsIsForwardsReversed) {
    const std::string text = "aé日😀\xff\xe6\x97 \xf0\x9f\x98";
    std::vector<std::size_t> forwards;
    for (std::size_t pos = 0; pos < text.size();) {
        forwards.push_back(pos);
        char32_t c = 0;
        pos += decode_code_point(text, pos, c);
    }
    for (std::size_t end = text.size(); end > 0;) {
        end -= previous_length(text, end);
        ASSERT_FALSE(forwards.empty());
        EXPECT_EQ(end, forwards.back());
        forwards.pop_back();
    }
    EXPECT_TRUE(forwards.empty());
}

}  // namespace
}  // namespace taproot::jinja::testing
