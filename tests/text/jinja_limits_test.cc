// SPDX-License-Identifier: Apache-2.0
// Whatever a template does ends in an answer: a limit reached is an error, not a crash or growth.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/text/jinja_support.h"

namespace taproot::jinja::testing {
namespace {

std::string repeat(const std::string& text, int times) {
    std::string out;
    for (int i = 0; i < times; ++i) out += text;
    return out;
}

// Small limits: the tests show that they hold, not how large they are by default.
RenderOptions small_limits() {
    RenderOptions options;
    options.limits.steps = 300'000;
    options.limits.work_bytes = 4 << 20;
    return options;
}

ErrorCode code_of(std::string_view source, const RenderOptions& options = small_limits()) {
    const Result<Text> text = try_render(source, json(R"({"l": [1, 2, 3], "s": "abc"})"), options);
    EXPECT_FALSE(text) << source.substr(0, 200);
    return text ? ErrorCode::kInternal : text.error().code;
}

TEST(JinjaLimits, DeepNestingOfATemplateIsASyntaxError) {
    for (const int depth : {1000, 20000}) {
        EXPECT_EQ(code_of("{{ " + repeat("(", depth) + "1" + repeat(")", depth) + " }}"),
                  ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of("{{ " + repeat("[", depth) + repeat("]", depth) + " }}"),
                  ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of("{{ " + repeat("not ", depth) + "1 }}"), ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of("{{ " + repeat("-", depth) + "1 }}"), ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of("{{ 1" + repeat(" + 1", depth) + " }}"), ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of("{{ s" + repeat("|upper", depth) + " }}"), ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of("{{ s" + repeat(".a", depth) + " }}"), ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of("{{ 1" + repeat(" if 1 else 1", depth) + " }}"),
                  ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of(repeat("{% if 1 %}", depth) + repeat("{% endif %}", depth)),
                  ErrorCode::kInvalidArgument);
        EXPECT_EQ(code_of("{% set " + repeat("(", depth) + "a" + repeat(")", depth) + " = 1 %}"),
                  ErrorCode::kInvalidArgument);
    }
}

TEST(JinjaLimits, ReasonableNestingIsFine) {
    EXPECT_EQ(render("{{ " + repeat("(", 50) + "1" + repeat(")", 50) + " }}"), "1");
    EXPECT_EQ(render("{{ 'a'" + repeat(" + 'a'", 150) + " }}"), repeat("a", 151));
    EXPECT_EQ(render(repeat("{% if 1 %}", 60) + "x" + repeat("{% endif %}", 60)), "x");
}

TEST(JinjaLimits, EndlessRecursionIsAnError) {
    EXPECT_EQ(code_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{% macro f(x=f()) %}{% endmacro %}{{ f() }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{% for x in l recursive %}{{ loop(l) }}{% endfor %}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{{ caller }}{% "
                      "endmacro %}{{ f() }}"),
              ErrorCode::kTooLarge);
}

TEST(JinjaLimits, LongLoopsRunOutOfSteps) {
    EXPECT_EQ(
        code_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
        ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{% set x = [1] * 9999999 %}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{% set ns = namespace(l=[1]) %}{% for a in range(99) %}{% set ns.l = ns.l + "
                      "ns.l %}{% endfor %}"),
              ErrorCode::kTooLarge);
}

TEST(JinjaLimits, MuchTextIsAnErrorBeforeItIsMade) {
    EXPECT_EQ(code_of("{{ 'x' * 99999999999 }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(99) %}{% set ns.s = "
                      "ns.s + ns.s %}{% endfor %}"),
              ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(99) %}{% set ns.s = "
                      "ns.s|replace('x', 'xxxxxxxx') %}{% endfor %}"),
              ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{{ '%999999999d' % 1 }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{{ '{:999999999}'.format(1) }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of("{{ 'a'.center(999999999) }}"), ErrorCode::kTooLarge);
    RenderOptions small = small_limits();
    small.limits.output_bytes = 100;
    EXPECT_EQ(code_of("{% for a in range(99) %}0123456789{% endfor %}", small),
              ErrorCode::kTooLarge);
}

TEST(JinjaLimits, SmallValuesThatAreLargeToWalkRunOutOfSteps) {
    const std::string doubled =
        "{% set ns = namespace(l=['a'], m=['a']) %}{% for a in range(60) %}"
        "{% set ns.l = [ns.l, ns.l] %}{% set ns.m = [ns.m, ns.m] %}{% endfor %}";
    EXPECT_EQ(code_of(doubled + "{{ ns.l }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of(doubled + "{{ ns.l|tojson }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of(doubled + "{{ ns.l == ns.m }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of(doubled + "{{ ns.l < ns.m }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of(doubled + "{{ {ns.l|list: 1} }}"), ErrorCode::kInvalidArgument);
}

TEST(JinjaLimits, DeepAndCircularValuesNeitherCrashNorLeak) {
    const std::string deep =
        "{% set ns = namespace(l=[]) %}{% for a in range(99999) %}{% set ns.l = [ns.l] %}{% endfor "
        "%}";
    EXPECT_EQ(render(deep + "{{ ns.l|length }}"), "1");
    EXPECT_EQ(code_of(deep + "{{ ns.l }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(code_of(deep + "{{ ns.l|tojson }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(render("{% set a = [] %}{% set _ = a.append(a) %}{{ a|length }}"), "1");
    EXPECT_EQ(code_of("{% set a = [] %}{% set _ = a.append(a) %}{{ a }}"), ErrorCode::kTooLarge);
    EXPECT_EQ(render("{% set a = {} %}{% set _ = a.update({'a': a}) %}{{ a|length }}"), "1");
    EXPECT_EQ(render("{% set a = namespace() %}{% set a.a = a %}x"), "x");
    EXPECT_EQ(render("{% macro m() %}{% endmacro %}{% set a = [m] %}x"), "x");
}

TEST(JinjaLimits, WhatARequestBroughtIsNeverChanged) {
    const Value context = json(R"({"l": [1], "d": {"a": 1}})");
    EXPECT_TRUE(render("{{ l.append(2) }}", context).starts_with("ERROR "));
    EXPECT_TRUE(render("{{ d.update({'a': 2}) }}", context).starts_with("ERROR "));
    EXPECT_TRUE(render("{{ d.pop('a') }}", context).starts_with("ERROR "));
    EXPECT_EQ(render("{% set c = l|list %}{% set _ = c.append(2) %}{{ c }}{{ l }}", context),
              "[1, 2][1]");
    EXPECT_EQ(render("{{ l }}{{ d }}", context), "[1]{'a': 1}");
}

TEST(JinjaLimits, QuadraticTextSearchesStayFast) {
    // A million bytes against half a million: naive search would take minutes.
    const Value context = json("{\"h\": \"" + std::string(1000000, 'a') + "\", \"n\": \"" +
                               std::string(500000, 'a') + "b" + std::string(1000, 'a') + "\"}");
    EXPECT_EQ(
        render("{{ n in h }}{{ h.find(n) }}{{ h.count(n) }}{{ h.split(n)|length }}{{ h.rfind(n) }}",
               context),
        "False-101-1");
}

TEST(JinjaLimits, ThreadsShareOneTemplateAndContext) {
    const Value context = json(
        R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]})");
    const Result<Template> parsed = Template::parse(
        "{% for m in messages %}{{ '<' + m['role'] + '>' + m.content|trim + m|tojson }}{{ "
        "loop.last }}{% endfor %}");
    ASSERT_TRUE(parsed);
    const std::string wanted = parsed->render(context)->bytes();
    std::vector<std::thread> threads;
    std::atomic<int> different = 0;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (int n = 0; n < 500; ++n) {
                const Result<Text> text = parsed->render(context);
                if (!text || text->bytes() != wanted) ++different;
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(different, 0);
}

}  // namespace
}  // namespace taproot::jinja::testing
