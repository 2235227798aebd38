// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenize.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/shared_data.h"

namespace taproot {
namespace {

namespace json = boost::json;

PreTokenizer pre_tokenizer(std::string_view name) {
    auto made = PreTokenizer::from_name(name);
    EXPECT_TRUE(made) << name;
    return *made;
}

std::vector<std::size_t> piece_bytes(const PreTokenizer& pre, std::string_view text) {
    std::vector<std::size_t> out;
    for (std::size_t pos = 0; pos < text.size();) {
        const std::size_t end = pre.next(text, pos);
        EXPECT_GT(end, pos);
        EXPECT_LE(end, text.size());
        if (end <= pos) break;
        out.push_back(end - pos);
        pos = end;
    }
    return out;
}

std::vector<std::string> pieces(std::string_view name, std::string_view text) {
    std::vector<std::string> out;
    std::size_t pos = 0;
    for (const std::size_t bytes : piece_bytes(pre_tokenizer(name), text)) {
        out.emplace_back(text.substr(pos, bytes));
        pos += bytes;
    }
    return out;
}

using Pieces = std::vector<std::string>;

std::vector<std::string> all_names() {
    std::vector<std::string> out;
    std::string names = PreTokenizer::supported_names();
    for (std::size_t begin = 0; begin < names.size();) {
        const std::size_t end = std::min(names.find(", ", begin), names.size());
        out.push_back(names.substr(begin, end - begin));
        begin = end + 2;
    }
    return out;
}

// TAPROOT_PRETOKENIZE_GOLDEN names another set, made with other seeds and counts.
json::value read_golden() {
    const char* other = std::getenv("TAPROOT_PRETOKENIZE_GOLDEN");
    const std::string path =
        other != nullptr ? other : TAPROOT_SOURCE_DIR "/tests/golden/pretokenize_golden.json";
    return json::parse(testing::read_file(path));
}

// Case B071. The expected cuts are those of the published patterns in Python's regex package.
TEST(PreTokenizer, CutsLikeThePublishedPattern) {
    const json::value golden = read_golden();
    std::size_t compared = 0;
    for (const json::value& entry : golden.at("cases").as_array()) {
        const std::string text(entry.at(0).as_string());
        for (const auto& [name, expected] : entry.at(1).as_object()) {
            const auto want = json::value_to<std::vector<std::size_t>>(expected);
            ASSERT_EQ(piece_bytes(pre_tokenizer(std::string(name)), text), want)
                << name << " on " << json::serialize(entry.at(0));
            ++compared;
        }
    }
    EXPECT_GE(compared, 4'000u);
}

TEST(PreTokenizer, AliasesCutLikeTheirOriginal) {
    const json::value golden = read_golden();
    for (const auto& [alias, name] : golden.at("same").as_object())
        for (const json::value& entry : golden.at("cases").as_array())
            ASSERT_EQ(
                piece_bytes(pre_tokenizer(std::string(alias)), entry.at(0).as_string()),
                piece_bytes(pre_tokenizer(std::string(name.as_string())), entry.at(0).as_string()));
}

TEST(PreTokenizer, SpaceGoesWithTheWordThatFollows) {
    EXPECT_EQ(pieces("gpt-2", "Hello  world, it's 12"),
              (Pieces{"Hello", " ", " world", ",", " it", "'s", " 12"}));
    EXPECT_EQ(pieces("smollm", "a 12"), (Pieces{"a", " ", "1", "2"}));
    EXPECT_EQ(pieces("llama-bpe", "a\n\n b 1234"), (Pieces{"a", "\n\n", " b", " ", "123", "4"}));
    EXPECT_EQ(pieces("qwen2", "12 I'LL(go)"), (Pieces{"1", "2", " I", "'LL", "(go", ")"}));
}

TEST(PreTokenizer, EachBrokenByteIsACharacterOfItsOwn) {
    // A lone continuation, a cut-off sequence, an overlong form, a surrogate: no letters, no
    // spaces, so they form one run of "other" characters.
    EXPECT_EQ(pieces("gpt-2", "a\x80\xE4\xBD\xC0\x80\xED\xA0\x80 b"),
              (Pieces{"a", "\x80\xE4\xBD\xC0\x80\xED\xA0\x80", " b"}));
    EXPECT_EQ(pieces("llama-bpe",
                     "\xFF"
                     "abc"),
              (Pieces{"\xFF"
                      "abc"}));
    EXPECT_EQ(pieces("smollm", "\xF0\x9F"), (Pieces{"\xF0\x9F"}));
}

TEST(PreTokenizer, PiecesCoverAnyBytesWithoutGaps) {
    for (const std::string& name : all_names()) {
        const PreTokenizer pre = pre_tokenizer(name);
        Random random(7);
        for (int round = 0; round < 300; ++round) {
            std::string text(random.below(40), '\0');
            for (char& c : text)
                c = random.chance(0.5) ? static_cast<char>(random.below(256))
                                       : " a'sA1\n!\xC3\xA9"[random.below(10)];
            std::size_t total = 0;
            for (const std::size_t bytes : piece_bytes(pre, text)) total += bytes;
            ASSERT_EQ(total, text.size()) << name << " round " << round;
        }
    }
}

TEST(PreTokenizer, UnknownNameIsRefusedWithTheKnownOnes) {
    const auto made = PreTokenizer::from_name("frobnicate");
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
    EXPECT_EQ(made.error().where, "tokenizer.ggml.pre");
    EXPECT_NE(made.error().message.find("'frobnicate'"), std::string::npos);
    for (const char* name : {"smollm", "llama-bpe", "qwen2", "gpt-2", "deepseek-r1-qwen"})
        EXPECT_NE(made.error().message.find(name), std::string::npos) << name;
    EXPECT_FALSE(PreTokenizer::from_name(""));
}

// Case B066. The characters looked at grow with the text, on runs and mixtures that make a
// backtracking matcher slow: counted, because wall time says little on a busy machine.
TEST(PreTokenizer, LooksAtEachCharacterASmallNumberOfTimes) {
    const std::vector<std::string> units = {"a",
                                            "A",
                                            " ",
                                            "\n",
                                            "1",
                                            "!",
                                            "'",
                                            "\x80",
                                            "_",
                                            "Aa",
                                            " \n",
                                            "\n ",
                                            "! ",
                                            " !",
                                            "a1",
                                            "\xE4\xB8\xAD",
                                            "\t",
                                            "'s",
                                            "A\n",
                                            "  a",
                                            "\xCC\x81",
                                            "\xE4\xB8\xAD"
                                            "A",
                                            "/\n",
                                            "\x01",
                                            "1 ",
                                            "\r\n \t",
                                            "\xE4\xB8\xAD"
                                            "AAAAAAAA",
                                            "\xE3\x83\xBB!",
                                            "\x01\x02"
                                            "a"};
    constexpr std::size_t kBytes = 20'000;
    for (const std::string& name : all_names()) {
        const PreTokenizer pre = pre_tokenizer(name);
        for (const std::string& unit : units) {
            std::string text;
            while (text.size() < kBytes) text += unit;
            for (const std::string& tail : {std::string(), std::string("a"), std::string("!")}) {
                const std::string whole = text + tail;
                std::uint64_t steps = 0;
                for (std::size_t pos = 0; pos < whole.size();) pos = pre.next(whole, pos, &steps);
                EXPECT_LE(steps, 6 * whole.size()) << name << " on '" << unit << "' + " << tail;
            }
        }
    }
}

}  // namespace
}  // namespace taproot
