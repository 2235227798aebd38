// SPDX-License-Identifier: Apache-2.0
#include "tests/text/jinja_support.h"
#include "text/jinja/print.h"

namespace taproot::jinja::testing {
namespace {

std::string round_trip(std::string_view text) {
    const Result<Value> value = parse_json(text, Origin::kUser);
    return value ? dump_json(*value, {}).bytes() : "ERROR " + value.error().describe();
}

TEST(JinjaJson, KeepsKeyOrderNumbersAndText) {
    EXPECT_EQ(round_trip(R"( {"b":1 , "a":[true,false,null,"x"], "c":{}} )"),
              R"({"b": 1, "a": [true, false, null, "x"], "c": {}})");
    EXPECT_EQ(
        round_trip("[0, -1, 1.50, 1e3, -2.5e-3, 18446744073709551616, -99999999999999999999]"),
        "[0, -1, 1.5, 1000.0, -0.0025, 18446744073709551616, -99999999999999999999]");
    EXPECT_EQ(round_trip(R"("\u00e9\ud83d\ude00\n\"\\\/\b\f\r\t")"),
              "\"é😀\\n\\\"\\\\/\\b\\f\\r\\t\"");
    EXPECT_EQ(round_trip(R"("\u0001")"), R"("\u0001")");
}

TEST(JinjaJson, ARepeatedKeyKeepsItsFirstPlaceAndLastValue) {
    EXPECT_EQ(round_trip(R"({"a": 1, "b": 2, "a": 3})"), R"({"a": 3, "b": 2})");
}

TEST(JinjaJson, ALoneSurrogateBecomesTheReplacementCharacter) {
    EXPECT_EQ(round_trip(R"("\ud83dx\ude00")"), "\"\xEF\xBF\xBDx\xEF\xBF\xBD\"");
}

TEST(JinjaJson, RefusesWhatIsNotJsonAndSaysWhere) {
    for (const char* text :
         {"",        "{",           "[1,]",   "{\"a\"}", "{\"a\":1,}", "{a:1}",    "'a'",
          "01",      "1.",          "1e",     "-",       "+1",         "nul",      "\"a",
          "\"\\x\"", "\"\\u12g4\"", "\"\n\"", "[1] 2",   "\"\xff\"",   "\"\xc3\"", "NaN"}) {
        const Result<Value> value = parse_json(text, Origin::kUser);
        ASSERT_FALSE(value) << text;
        EXPECT_TRUE(value.error().where.starts_with("offset ")) << value.error().describe();
    }
}

TEST(JinjaJson, RefusesDeepNestingWithoutRecursingForever) {
    EXPECT_FALSE(parse_json(std::string(1000000, '['), Origin::kUser));
    std::string objects;
    for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
    EXPECT_FALSE(parse_json(objects, Origin::kUser));
    EXPECT_TRUE(parse_json(std::string(90, '[') + std::string(90, ']'), Origin::kUser));
}

TEST(JinjaJson, LargeObjectsAreFoundByKey) {
    std::string text = "{";
    for (int i = 0; i < 1000; ++i)
        text += "\"key" + std::to_string(i) + "\": " + std::to_string(i) + ",";
    text.back() = '}';
    const Value object = json(text);
    for (const int i : {0, 7, 8, 9, 500, 999}) {
        ASSERT_NE(object.find("key" + std::to_string(i)), nullptr);
        EXPECT_EQ(object.find("key" + std::to_string(i))->as_int(), i);
    }
    EXPECT_EQ(object.find("key1000"), nullptr);
}

TEST(JinjaJson, FloatsPrintAsPythonPrintsThem) {
    EXPECT_EQ(float_repr(0.1), "0.1");
    EXPECT_EQ(float_repr(1e16), "1e+16");
    EXPECT_EQ(float_repr(123456789012345680.0), "1.2345678901234568e+17");
    EXPECT_EQ(float_repr(9007199254740993.0), "9007199254740992.0");
    EXPECT_EQ(float_repr(1e-5), "1e-05");
    EXPECT_EQ(float_repr(0.0001), "0.0001");
    EXPECT_EQ(float_repr(5e-324), "5e-324");
    EXPECT_EQ(float_repr(1.7976931348623157e308), "1.7976931348623157e+308");
    EXPECT_EQ(float_repr(-0.0), "-0.0");
    EXPECT_EQ(float_repr(100.0), "100.0");
}

}  // namespace
}  // namespace taproot::jinja::testing
