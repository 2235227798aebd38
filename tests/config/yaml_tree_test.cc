// SPDX-License-Identifier: Apache-2.0
#include "config/yaml_tree.h"

#include <gtest/gtest.h>

namespace taproot::config {
namespace {

Problem refused(const std::string& text) {
    YamlNode node;
    Problem problem;
    EXPECT_FALSE(parse_yaml(text, &node, &problem)) << text.substr(0, 100);
    return problem;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

TEST(YamlTree, KeepsPlacesOrderAndQuotes) {
    YamlNode root;
    Problem problem;
    ASSERT_TRUE(parse_yaml("b: 1\na:\n  - 'x'\nb: ~\n", &root, &problem)) << problem.message;
    const auto& entries = *root.mapping();
    ASSERT_EQ(entries.size(), 3u) << "repeated keys are kept for somebody to refuse";
    EXPECT_EQ(entries[0].key.scalar()->text, "b");
    EXPECT_EQ(entries[0].value.place, (Place{1, 4}));
    EXPECT_EQ((*entries[1].value.sequence())[0].place, (Place{3, 5}));
    EXPECT_TRUE((*entries[1].value.sequence())[0].scalar()->quoted);
    EXPECT_FALSE(entries[0].value.scalar()->quoted);
    EXPECT_TRUE(entries[2].value.is_null());
}

TEST(YamlTree, SyntaxErrorsHaveTheirPlace) {
    EXPECT_EQ(refused("a: b: c\n").place, (Place{1, 5}));
    EXPECT_EQ(refused("a:\n  - x\n b: 1\n").place.line, 3);
    for (const char* open :
         {"a: 'x\n", "a: \"x\n", "a: 'x", "a: 'it''s\nb: 2\n", "a: \"x\\\"\nb: 1\n",
          "\xEF\xBB\xBF"
          "a: 'x\n",
          "a: &q 'x\n"})
        EXPECT_EQ(refused(open).place.line, 1) << open;
    YamlNode node;
    Problem none;
    for (const char* closed :
         {"a: 'it''s'\n", "a: \"x\\\"y\"\n", "a: ''\n", "a: &q 'x'\n", "a: >\n  x\n",
          "\xEF\xBB\xBF"
          "a: 'x'\n",
          "a: |\n  'x\n", "'a': 1\r\n\"b\": 'x'\r\n"})
        EXPECT_TRUE(parse_yaml(closed, &node, &none)) << closed << none.message;
    EXPECT_EQ(refused("a: [1, 2\n").place.line, 2);
}

// Case B193.
TEST(YamlTree, ATabAsIndentationIsNamed) {
    const Problem problem = refused("gateway:\n\tlisten: x\n");
    EXPECT_EQ(problem.place, (Place{2, 1}));
    EXPECT_TRUE(contains(problem.message, "a tab as indentation"));
    EXPECT_EQ(refused("a:\n  \tb: 1\n").place, (Place{2, 3}));
    YamlNode node;
    Problem none;
    EXPECT_TRUE(parse_yaml("a: 1\t# comment\nb:\t2\n", &node, &none)) << none.message;
}

TEST(YamlTree, OneDocumentOnly) {
    const Problem problem = refused("a: 1\n---\nb: 2\n");
    EXPECT_EQ(problem.place.line, 2);
    EXPECT_TRUE(contains(problem.message, "one document"));
}

TEST(YamlTree, AliasBombsAreRefusedBeforeTheyGrow) {
    std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 12; ++i) {
        const std::string previous = "*a" + std::to_string(i - 1);
        bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + previous;
        for (int j = 0; j < 9; ++j) bomb += ", " + previous;
        bomb += "]\n";
    }
    EXPECT_TRUE(contains(refused(bomb).message, "more than 50000 values"));
    std::string wide = "a: &a \"" + std::string(100'000, 'x') + "\"\nb: [";
    for (int i = 0; i < 1'000; ++i) wide += "*a, ";
    EXPECT_TRUE(contains(refused(wide + "1]\n").message, "more than 50000 values"));
    EXPECT_TRUE(contains(refused("a: &a [1, *a]\n").message, "alias"));
    refused("a: *nobody\n");
}

TEST(YamlTree, SizeAndNestingAreLimited) {
    EXPECT_TRUE(contains(refused(std::string((1 << 20) + 1, '#')).message, "at most 1048576"));
    EXPECT_TRUE(contains(refused("a: " + std::string(17, '[') + std::string(17, ']')).message,
                         "nested deeper than 16"));
    refused("a: " + std::string(100'000, '['));
    refused("a: " + std::string(100'000, '{'));
    std::string block;
    for (int i = 0; i < 400; ++i) block += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
    refused(block);
    std::string dashes = "a:\n";
    for (int i = 0; i < 5'000; ++i) dashes += "- ";
    refused(dashes + "x\n");
}

TEST(YamlTree, TagsNulsAndOddKeysAreRefused) {
    EXPECT_TRUE(contains(refused("a: !!binary aGk=\n").message, "tag"));
    EXPECT_TRUE(contains(refused("a: !custom {b: 1}\n").message, "tag"));
    EXPECT_TRUE(contains(refused(std::string("a: b\0c\n", 7)).message, "NUL"));
    EXPECT_TRUE(contains(refused("? [a]\n: 1\n").message, "a key must be text, not a list"));
    EXPECT_TRUE(contains(refused("~: 1\n").message, "a key must be text, not null"));
}

}  // namespace
}  // namespace taproot::config
