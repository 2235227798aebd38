// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/json_reader.h"

#include <gtest/gtest.h>

namespace taproot::gateway {
namespace {

std::string problem(std::string_view text, std::size_t depth = 64) {
    auto parsed = parse_json_object(text, depth);
    return parsed ? "" : parsed.error().message;
}

TEST(JsonReader, TakesAnOrdinaryObject) {
    auto parsed = parse_json_object(R"( {"a":1,"b":[true,null,"x"],"c":{"d":-2.5}} )", 64);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->at("a").as_int64(), 1);
    EXPECT_EQ(parsed->at("c").at("d").as_double(), -2.5);
}

TEST(JsonReader, RefusesWhatIsNoObject) {  // B076
    for (std::string_view text :
         {"[]", "[1,2]", "true", "null", "123", "1.5", "\"abc\"", "", "   ", "{", "{}x",
          "\xEF\xBB\xBF{}", "{\"a\":1,}", "{'a':1}", "{\"a\":01}", "{a:1}"})
        EXPECT_NE(problem(text), "") << text;
}

TEST(JsonReader, RefusesNumbersThatAreNoNumbers) {  // B001
    for (std::string_view text : {"{\"t\":NaN}", "{\"t\":Infinity}", "{\"t\":-Infinity}",
                                  "{\"t\":1e999}", "{\"t\":-1e999}"})
        EXPECT_NE(problem(text), "") << text;
}

TEST(JsonReader, NamesAKeyThatAppearsTwice) {  // B080
    EXPECT_NE(problem(R"({"model":"a","model":"b"})").find("'model'"), std::string::npos);
    EXPECT_NE(problem(R"({"model":"a","mod\u0065l":"b"})").find("'model'"), std::string::npos);
    EXPECT_NE(problem(R"({"x":{"y":[{"k":1,"k":2}]}})").find("'k'"), std::string::npos);
    std::string many = "{";
    for (int i = 0; i < 40; ++i) many += "\"k" + std::to_string(i) + "\":1,";
    EXPECT_EQ(problem(many + "\"z\":1}"), "");
    EXPECT_NE(problem(many + "\"k17\":1}").find("'k17'"), std::string::npos);
}

TEST(JsonReader, TheSameKeyInDifferentObjectsIsFine) {
    EXPECT_EQ(problem(R"({"a":{"k":1},"b":{"k":2},"c":[{"k":1},{"k":1}],"k":0})"), "");
}

TEST(JsonReader, LimitsNesting) {  // B073, B075
    auto nested = [](std::size_t levels) {
        return "{\"t\":" + std::string(levels, '[') + std::string(levels, ']') + "}";
    };
    EXPECT_EQ(problem(nested(32)), "");
    EXPECT_NE(problem(nested(3000)).find("nesting"), std::string::npos);
    EXPECT_NE(problem(nested(200000)).find("nesting"), std::string::npos);
    EXPECT_NE(problem("{\"t\":" + std::string(200000, '[')), "");  // never closed
}

TEST(JsonReader, RefusesBadText) {                           // B082
    EXPECT_NE(problem("{\"a\":\"\xC4\xE3\xBA\xC3\"}"), "");  // GBK
    EXPECT_NE(problem("{\"a\":\"\xFF\"}"), "");
    EXPECT_NE(problem(R"({"a":"\ud800"})"), "");
    EXPECT_NE(problem(R"({"a":"\udc00x"})"), "");
    EXPECT_NE(problem(R"({"a":"x\u0000y"})").find("NUL"), std::string::npos);
    EXPECT_EQ(problem(R"({"a":"\ud83d\ude00"})"), "");
}

}  // namespace
}  // namespace taproot::gateway
