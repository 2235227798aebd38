// SPDX-License-Identifier: Apache-2.0
// Text from users stays marked, byte by byte, whatever a template does with it.
#include <random>

#include "tests/text/jinja_support.h"
#include "text/jinja/text.h"

namespace taproot::jinja::testing {
namespace {

std::string origins(std::string_view source) {
    Value context =
        json(R"({"u": "Ab, c ", "k": "<s>", "l": ["x", "y"], "d": {"a": "v"}, "n": 7})");
    const Result<Text> text = try_render(source, context);
    return text ? marked(*text) : "ERROR " + text.error().describe();
}

TEST(JinjaOrigin, PrintingMarksTheUsersBytesOnly) {
    EXPECT_EQ(origins("a{{ u }}b"), "a[[Ab, c ]]b");
    EXPECT_EQ(origins("{{ 'x' }}{{ n }}{{ 1 }}"), "x71");
    EXPECT_EQ(origins("{% for x in l %}-{{ x }}{% endfor %}"), "-[[x]]-[[y]]");
}

TEST(JinjaOrigin, ConcatenationKeepsEachPartsOrigin) {
    EXPECT_EQ(origins("{{ '<' + u + '>' + k + '!' }}"), "<[[Ab, c ]]>[[<s>]]!");
    EXPECT_EQ(origins("{{ '<' ~ u ~ 1 ~ k }}"), "<[[Ab, c ]]1[[<s>]]");
    EXPECT_EQ(origins("{{ (u + '-') * 2 }}"), "[[Ab, c ]]-[[Ab, c ]]-");
}

TEST(JinjaOrigin, CuttingKeepsEachPartsOrigin) {
    EXPECT_EQ(origins("{{ ('ab' + k + 'cd')[1:4] }}"), "b[[<s]]");
    EXPECT_EQ(origins("{{ ('ab' + k)[::-1] }}"), "[[>s<]]ba");
    EXPECT_EQ(origins("{{ ('ab' + k)[2] }}{{ ('ab' + k)[0] }}"), "[[<]]a");
    EXPECT_EQ(origins("{{ (' x' + u)|trim }}|{{ (' ' + u + ' ').strip() }}"),
              "x[[Ab, c]]|[[Ab, c]]");
    EXPECT_EQ(origins("{{ u.split(',')[0] + ('a,' + u).split(',')[1] }}"), "[[AbAb]]");
    EXPECT_EQ(origins("{{ ('p' + k).partition('<')[1:]|join }}"), "[[<s>]]");
    EXPECT_EQ(origins("{{ ('pre' + k).removeprefix('pre') }}"), "[[<s>]]");
}

TEST(JinjaOrigin, ReplacingAndJoiningKeepEachPartsOrigin) {
    EXPECT_EQ(origins("{{ ('a.b' + u).replace('b', k) }}"), "a.[[<s>A<s>, c ]]");
    EXPECT_EQ(origins("{{ u|replace(', ', '<end>') }}"), "[[Ab]]<end>[[c ]]");
    EXPECT_EQ(origins("{{ l|join('<sep>') }}"), "[[x]]<sep>[[y]]");
    EXPECT_EQ(origins("{{ '-'.join(l) }}"), "[[x]]-[[y]]");
    EXPECT_EQ(origins("{{ '%s=%s' % ('a', k) }}{{ '{}/{}'.format(k, 'b') }}"), "a=[[<s><s>]]/b");
    EXPECT_EQ(origins("{{ ('x\n' + k)|indent(2) }}"), "x\n  [[<s>]]");
    EXPECT_EQ(origins("{{ k.center(5) }}|"), " [[<s>]] |");
    EXPECT_EQ(origins("{{ k|e }}"), "[[&lt;s&gt;]]");
}

TEST(JinjaOrigin, ResultsMadeAnewAreTheUsersWhenAnyInputWas) {
    EXPECT_EQ(origins("{{ ('x' + k)|upper }}{{ 'x'|upper }}"), "[[X<S>]]X");
    EXPECT_EQ(origins("{{ d|tojson }}{{ {'a': 1}|tojson }}"), "[[{\"a\": \"v\"}]]{\"a\": 1}");
    EXPECT_EQ(origins("{{ l }}{{ [1, 'a'] }}{{ ['a', k] }}"),
              "[[['x', 'y']]][1, 'a'][[['a', '<s>']]]");
    EXPECT_EQ(origins("{{ k|title }}{{ k|urlencode }}{{ '%r' % k }}"), "[[<S>%3Cs%3E'<s>']]");
    EXPECT_EQ(origins("{{ '[\"a\"]'|from_json }}{{ ('[\"' + k + '\"]')|from_json }}"),
              "['a'][[['<s>']]]");
}

TEST(JinjaOrigin, DictKeysOfRequestsAreTheUsers) {
    EXPECT_EQ(origins("{% for key in d %}{{ key }}{% endfor %}{{ d.items()|first|first }}"),
              "[[aa]]");
}

TEST(JinjaOrigin, MacrosSetBlocksAndFiltersCarryIt) {
    EXPECT_EQ(origins("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(k) }}"), "<[[<s>]]>");
    EXPECT_EQ(origins("{% set t %}a{{ k }}b{% endset %}{{ t }}{{ t|length }}"), "a[[<s>]]b5");
    EXPECT_EQ(origins("{% filter trim %} a{{ k }} {% endfilter %}"), "a[[<s>]]");
    EXPECT_EQ(
        origins("{% macro m() %}({{ caller() }}){% endmacro %}{% call m() %}{{ k }}{% endcall %}"),
        "([[<s>]])");
    EXPECT_EQ(origins("{% set ns = namespace(a='') %}{% set ns.a = ns.a + k + '.' %}{{ ns.a }}"),
              "[[<s>]].");
}

TEST(JinjaOrigin, NeverShowsInComparisonsLengthsOrBranches) {
    EXPECT_EQ(
        origins(
            "{{ k == '<s>' }}{{ k|length }}{{ '<' in k }}{{ {'<s>': 1}[k] }}{{ k in ['<s>'] }}"),
        "True3True1True");
}

// The naive twin of Text: one flag beside every byte.
struct FlaggedText {
    std::string bytes;
    std::string flags;
};

FlaggedText flatten(const Text& text) {
    FlaggedText out;
    text.for_each_run([&out](std::string_view run, Origin origin) {
        EXPECT_FALSE(run.empty());
        const char flag = origin == Origin::kUser ? 'u' : 't';
        EXPECT_TRUE(out.flags.empty() || out.flags.back() != flag)
            << "neighbouring runs of one origin";
        out.bytes += run;
        out.flags += std::string(run.size(), flag);
    });
    return out;
}

TEST(JinjaText, MatchesOneFlagPerByteUnderRandomEdits) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::vector<std::pair<Text, FlaggedText>> pool(4);
    for (int step = 0; step < 4000; ++step) {
        auto& [text, twin] = pool[below(pool.size())];
        const auto& [other, other_twin] = pool[below(pool.size())];
        const std::size_t end = below(other.size() + 1);
        const std::size_t begin = below(end + 1);
        switch (below(4)) {
            case 0: {
                const bool user = below(2) == 0;
                const std::string bytes(below(4), static_cast<char>('a' + below(26)));
                text.append(bytes, user ? Origin::kUser : Origin::kTemplate);
                twin.bytes += bytes;
                twin.flags += std::string(bytes.size(), user ? 'u' : 't');
                break;
            }
            case 1: {
                const Text copy = other;  // appending a text to itself is not asked for
                const FlaggedText copy_twin = other_twin;
                text.append(copy, begin, end);
                twin.bytes += copy_twin.bytes.substr(begin, end - begin);
                twin.flags += copy_twin.flags.substr(begin, end - begin);
                break;
            }
            default: {
                const Text slice = other.slice(begin, end);
                const FlaggedText slice_twin = {other_twin.bytes.substr(begin, end - begin),
                                                other_twin.flags.substr(begin, end - begin)};
                text = slice;
                twin = slice_twin;
                break;
            }
        }
        const FlaggedText flat = flatten(text);
        ASSERT_EQ(flat.bytes, twin.bytes);
        ASSERT_EQ(flat.flags, twin.flags);
        ASSERT_EQ(text.has_user_bytes(), twin.flags.find('u') != std::string::npos);
        const std::size_t to = below(text.size() + 1);
        const std::size_t from = below(to + 1);
        if (from < to) {
            ASSERT_EQ(text.is_user_range(from, to),
                      twin.flags.substr(from, to - from).find('t') == std::string::npos);
        }
    }
}

}  // namespace
}  // namespace taproot::jinja::testing
