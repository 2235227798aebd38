// SPDX-License-Identifier: Apache-2.0
// What is ours and not jinja2's: error places, leniency, the clock.
#include "tests/text/jinja_support.h"

namespace taproot::jinja::testing {
namespace {

TEST(JinjaTemplate, SyntaxErrorsNameTheLine) {
    const Result<Template> parsed = Template::parse("a\nb\n{{ 1 + }}\n");
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parsed.error().where, "line 3");
}

TEST(JinjaTemplate, RenderErrorsNameTheLine) {
    const Result<Text> text = try_render("a\n{% set x = 1 %}\n{{ x.y.z }}\n", Value::dict());
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().message, "UndefinedError: 'int object' has no attribute 'y'");
    EXPECT_EQ(text.error().where, "line 3");
}

TEST(JinjaTemplate, RaiseExceptionGivesExactlyItsMessage) {
    const Result<Text> text =
        try_render("{{ raise_exception('Only ' ~ 2 ~ ' roles!') }}", Value::dict());
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(text.error().message, "Only 2 roles!");
}

TEST(JinjaTemplate, UnsupportedTagsSaySo) {
    for (const char* source : {"{% extends 'a' %}", "{% include 'a' %}", "{% import 'a' as b %}",
                               "{% block a %}{% endblock %}"}) {
        const Result<Template> parsed = Template::parse(source);
        ASSERT_FALSE(parsed) << source;
        EXPECT_NE(parsed.error().message.find("unsupported tag"), std::string::npos)
            << parsed.error().message;
    }
}

TEST(JinjaTemplate, AcceptsListChangesThatTheSandboxRefuses) {
    const std::string source =
        "{% set a = [3, 1] %}{% set _ = a.append(2) %}{{ a }}{{ a.pop() }}{{ a.pop(0) }}{{ a }}"
        "{% set _ = a.extend([5, 6]) %}{% set _ = a.insert(0, 9) %}{{ a }}{% set d = {} %}"
        "{% set _ = d.update({'x': 1}) %}{{ d.setdefault('y', 2) }}{{ d }}{{ d.pop('x') }}{{ d }}";
    EXPECT_EQ(render(source), "[3, 1, 2]23[1][9, 1, 5, 6]2{'x': 1, 'y': 2}1{'y': 2}");
    EXPECT_EQ(
        render("{% set a = [] %}{{ a.append(2) }}", Value::dict(), strict_options()),
        "ERROR line 1: SecurityError: access to attribute 'append' of 'list' object is unsafe.");
}

TEST(JinjaTemplate, AcceptsGeneratorsWhereTransformersWouldNot) {
    const std::string source =
        "{{ [{'a': 1}]|map(attribute='a')|tojson }}{{ [1, 2]|select('odd')|length }}";
    EXPECT_EQ(render(source), "[1]1");
    EXPECT_TRUE(render(source, Value::dict(), strict_options()).starts_with("ERROR "));
}

TEST(JinjaTemplate, GeneratorsAreUsedUpAsInPython) {
    EXPECT_EQ(render("{% set g = [1, 2]|map('string') %}{{ g|join }}|{{ g|join }}|{{ g is defined "
                     "and true if g else false }}"),
              "12||True");
    EXPECT_EQ(render("{% set g = [1, 2, 3]|select %}{{ g|first }}{{ g|list }}"), "1[2, 3]");
}

TEST(JinjaTemplate, TheClockIsInjected) {
    EXPECT_EQ(render("{{ strftime_now('%d %b %Y') }}", Value::dict(), strict_options()),
              "30 Nov 2026");
    EXPECT_EQ(render("{{ strftime_now('') }}|{{ strftime_now('%%') }}"), "|%");
    EXPECT_NE(render("{{ strftime_now('%Y') }}"), "");
}

TEST(JinjaTemplate, ContextVariablesHideGlobals) {
    EXPECT_EQ(render("{{ range }}", json(R"({"range": "mine"})")), "mine");
}

TEST(JinjaTemplate, AnEmptyTemplateIsEmpty) {
    EXPECT_EQ(render(""), "");
    EXPECT_EQ(render("\n"), "");
    EXPECT_EQ(render("{"), "{");
    EXPECT_EQ(render("{}%}"), "{}%}");
}

TEST(JinjaTemplate, NulBytesAndBrokenUtf8AreCarriedThrough) {
    EXPECT_EQ(render(std::string_view("a\0b{{ s }}", 10), json(R"({"s": "\u0000"})")),
              std::string("a\0b\0", 4));
    Value context = Value::dict();
    context.set("s", Value::user_string("a\xff\xc3"
                                        "b"));
    EXPECT_EQ(render("{{ s }}{{ s|length }}{{ s[1:3] }}{{ s[::-1] }}{{ s|upper }}", context),
              "a\xff\xc3"
              "b4\xff\xc3"
              "b\xc3\xff"
              "aA\xff\xc3"
              "B");
}

}  // namespace
}  // namespace taproot::jinja::testing
