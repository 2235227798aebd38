// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/gguf_text_model.h"
#include "tests/support/shared_data.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace taproot {
namespace {

namespace json = boost::json;
using Ids = std::vector<TokenId>;

const TextModel& default_text_model() {
    static const TextModel model = testing::read_gguf_text_model(testing::default_model());
    return model;
}

std::string detokenize(const Tokenizer& tokenizer, const Ids& ids) {
    std::string out;
    Detokenizer detokenizer(tokenizer.vocab(), {.skip_special_tokens = false});
    for (const TokenId id : ids) detokenizer.push(id, &out);
    detokenizer.flush(&out);
    return out;
}

// Two independent tokenizers agree on these (shared/data/README.md).
TEST(SmolLm2Tokenizer, MatchesTheGoldenIds) {
    TAPROOT_NEEDS_FILE(testing::default_model());
    const auto path = testing::shared_dir() / "data" / "smollm2_tokenizer_goldens.json";
    TAPROOT_NEEDS_FILE(path);
    auto tokenizer = Tokenizer::build(default_text_model());
    ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
    Tokenizer::Scratch scratch;
    int compared = 0;
    const json::value golden = json::parse(testing::read_file(path));
    for (const json::value& entry : golden.as_array()) {
        const std::string text(entry.at("text").as_string());
        Ids ids;
        tokenizer->encode(text, true, &ids, scratch);
        EXPECT_EQ(ids, json::value_to<Ids>(entry.at("hf"))) << json::serialize(entry.at("text"));
        ++compared;
    }
    EXPECT_GE(compared, 43);
}

// Case B071: the ids of the `tokenizers` package over the same vocabulary, with each family's
// pre-tokenizer in front. TAPROOT_ENCODE_GOLDEN names another, larger set.
TEST(SmolLm2Tokenizer, MatchesTheReferenceTokenizerOnManyLines) {
    TAPROOT_NEEDS_FILE(testing::default_model());
    const char* other = std::getenv("TAPROOT_ENCODE_GOLDEN");
    const json::value golden = json::parse(testing::read_file(
        other != nullptr ? other : TAPROOT_SOURCE_DIR "/tests/golden/encode_golden.json"));
    std::size_t compared = 0;
    for (const json::value& pre : golden.at("pres").as_array()) {
        TextModel model = default_text_model();
        model.pre = pre.as_string();
        auto tokenizer = Tokenizer::build(model);
        ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
        Tokenizer::Scratch scratch;
        for (const json::value& entry : golden.at("cases").as_array()) {
            Ids ids;
            tokenizer->encode(entry.at(0).as_string(), true, &ids, scratch);
            ASSERT_EQ(ids, json::value_to<Ids>(entry.at(1).at(pre.as_string())))
                << model.pre << ": " << json::serialize(entry.at(0));
            ++compared;
        }
    }
    EXPECT_GE(compared, 800u);
}

// Other families over their own vocabularies: TAPROOT_VOCABS names a folder of ggml-vocab-NAME.gguf
// with NAME.gguf.inp and .out beside each, as in the sdist of llama-cpp-python
// (vendor/llama.cpp/models). Not part of the repository; skipped without it.
TEST(RealVocabularies, MatchTheIdsThatComeWithThem) {
    const char* folder = std::getenv("TAPROOT_VOCABS");
    if (folder == nullptr) GTEST_SKIP() << "needs TAPROOT_VOCABS (see the comment)";
    constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
    int vocabularies = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".gguf") continue;
        const std::string inputs = testing::read_file(entry.path().string() + ".inp");
        std::istringstream expected(testing::read_file(entry.path().string() + ".out"));
        const TextModel model = testing::read_gguf_text_model(entry.path());
        if (inputs.empty() || model.model != "gpt2") continue;
        auto tokenizer = Tokenizer::build(model);
        if (!tokenizer) {
            std::printf("skipped %s: %s\n", entry.path().filename().c_str(),
                        tokenizer.error().describe().substr(0, 90).c_str());
            EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported) << entry.path();
            continue;
        }
        Tokenizer::Scratch scratch;
        std::string line;
        for (std::size_t begin = 0; begin < inputs.size() && std::getline(expected, line);) {
            const std::size_t end = std::min(inputs.find(kSeparator, begin), inputs.size());
            const std::string text = inputs.substr(begin, end - begin);
            begin = end + kSeparator.size();
            std::istringstream numbers(line);
            const Ids want{std::istream_iterator<TokenId>(numbers), {}};
            Ids ids;
            tokenizer->encode(text, false, &ids, scratch);
            EXPECT_EQ(ids, want) << entry.path() << ": " << text;
            EXPECT_EQ(detokenize(*tokenizer, ids), text);
        }
        std::printf("compared %s (%s)\n", entry.path().filename().c_str(), model.pre.c_str());
        ++vocabularies;
    }
    EXPECT_GE(vocabularies, 1);
}

// Case B069.
TEST(SmolLm2Tokenizer, LongRunsOfSpacesAndCodeRoundTrip) {
    TAPROOT_NEEDS_FILE(testing::default_model());
    const Tokenizer tokenizer = *Tokenizer::build(default_text_model());
    Tokenizer::Scratch scratch;
    for (const std::string& text :
         {std::string(64, ' '), std::string(128, ' '), std::string(40, ' ') + "return x;\n",
          std::string(1'000, '\n'), std::string("\t\tif (a) {\r\n\t\t\tb();\r\n\t\t}"),
          std::string("Caf\xC3\xA9 \xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB \xE2\x80\x94")}) {
        Ids ids;
        tokenizer.encode(text, false, &ids, scratch);
        EXPECT_EQ(detokenize(tokenizer, ids), text);
    }
}

TEST(SmolLm2Tokenizer, BytesThatTheVocabularyLacksAreTheKnownOnes) {
    TAPROOT_NEEDS_FILE(testing::default_model());
    const Tokenizer tokenizer = *Tokenizer::build(default_text_model());
    std::vector<unsigned> lacking;
    for (unsigned byte = 0; byte < 256; ++byte)
        if (tokenizer.vocab().byte_token(static_cast<std::uint8_t>(byte)) < 0)
            lacking.push_back(byte);
    EXPECT_EQ(lacking, (std::vector<unsigned>{0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xC0,
                                              0xC1, 0xF1, 0xF2, 0xF5, 0xF6, 0xF7, 0xF8,
                                              0xF9, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF}));
}

TEST(SmolLm2Tokenizer, KnowsHowItsAnswersEnd) {
    TAPROOT_NEEDS_FILE(testing::default_model());
    const Tokenizer tokenizer = *Tokenizer::build(default_text_model());
    const TokenId end = *tokenizer.id_of("<|im_end|>");
    EXPECT_EQ(std::count(tokenizer.end_ids().begin(), tokenizer.end_ids().end(), end), 1);
    EXPECT_TRUE(tokenizer.is_control(end));
    EXPECT_EQ(tokenizer.vocab_size(), 49'152u);
}

}  // namespace
}  // namespace taproot
