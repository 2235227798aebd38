// SPDX-License-Identifier: Apache-2.0
#include "worker/model/text_from_gguf.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/shared_data.h"
#include "tests/support/tiny_model.h"

namespace taproot {
namespace {

using testing::GgufWriter;
using testing::kTinyVocabulary;

Result<TextModel> text_of(const GgufWriter& writer) {
    std::string bytes = writer.finish();
    auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "m.gguf");
    if (!file) return file.error();
    return text_model_from_gguf(*file);
}

// Changes one thing of the tiny model and expects an error with all of `parts`.
template <typename Change>
void expect_refused(Change change, std::vector<std::string> parts) {
    GgufWriter writer = testing::tiny_model_writer();
    change(writer);
    auto text = text_of(writer);
    ASSERT_FALSE(text) << "accepted; expected: " << parts[0];
    std::string message = text.error().describe();
    for (const std::string& part : parts)
        EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

std::vector<std::string> tiny_tokens() {
    auto text = text_of(testing::tiny_model_writer());
    return text.value().tokens;
}

TEST(TextFromGguf, CopiesWhatTheFileSays) {
    auto text = text_of(testing::tiny_model_writer());
    ASSERT_TRUE(text) << text.error().describe();
    EXPECT_EQ(text->model, "gpt2");
    EXPECT_EQ(text->pre, "smollm");
    ASSERT_EQ(text->tokens.size(), static_cast<std::size_t>(kTinyVocabulary));
    EXPECT_EQ(text->tokens[1], "<|im_start|>");
    EXPECT_EQ(text->types[1], TokenType::kControl);
    EXPECT_EQ(text->types[3], TokenType::kNormal);
    EXPECT_EQ(text->merges[0], "Ġ t");
    EXPECT_EQ(text->bos, testing::kTinyBos);
    EXPECT_EQ(text->eos, testing::kTinyEos);
    EXPECT_EQ(text->eot, std::nullopt);
    EXPECT_FALSE(text->add_bos);
    EXPECT_NE(text->chat_template.find("<|im_start|>"), std::string::npos);
}

TEST(TextFromGguf, ASilentFileOfAFamilyThatBeginsWithBosMeansBos) {
    for (std::string pre : {"llama-bpe", "tekken", "qwen2"}) {
        GgufWriter writer = testing::tiny_model_writer();
        writer.string("tokenizer.ggml.pre", pre);
        writer.drop("tokenizer.ggml.add_bos_token");
        EXPECT_EQ(text_of(writer).value().add_bos, pre != "qwen2") << pre;
        writer.boolean("tokenizer.ggml.add_bos_token", false);
        EXPECT_FALSE(text_of(writer).value().add_bos) << pre << ", which says no";
    }
}

// Case B187.
TEST(TextFromGguf, SpecialIdsOutsideTheVocabularyAreRefused) {
    for (std::string name : {"bos", "eos", "unknown", "padding", "eot"}) {
        std::string key = "tokenizer.ggml." + name + "_token_id";
        expect_refused([&](GgufWriter& w) { w.number(key, kTinyVocabulary); }, {key, "320"});
        expect_refused([&](GgufWriter& w) { w.number(key, 4294967295u); },
                       {key, "4294967295", "320"});
        expect_refused([&](GgufWriter& w) { w.signed_number(key, -1); }, {key, "-1", "320"});
        expect_refused([&](GgufWriter& w) { w.string(key, "2"); }, {key, "string"});
        expect_refused([&](GgufWriter& w) { w.real(key, 2.0f); }, {key, "f32"});
        GgufWriter last = testing::tiny_model_writer();
        last.number(key, kTinyVocabulary - 1);
        EXPECT_TRUE(text_of(last));
    }
    GgufWriter without = testing::tiny_model_writer();
    without.drop("tokenizer.ggml.eos_token_id");
    auto text = text_of(without);
    ASSERT_TRUE(text) << text.error().describe();
    EXPECT_EQ(text->eos, std::nullopt);
}

// Case B188.
TEST(TextFromGguf, ArraysShorterThanTheVocabularyOrOfAnotherTypeAreRefused) {
    std::vector<float> scores(10, 0.0f);
    expect_refused([&](GgufWriter& w) { w.array<float>("tokenizer.ggml.scores", scores); },
                   {"tokenizer.ggml.scores", "10", "320"});
    std::vector<std::int32_t> types(319, 1);
    expect_refused(
        [&](GgufWriter& w) { w.array<std::int32_t>("tokenizer.ggml.token_type", types); },
        {"tokenizer.ggml.token_type", "319", "320"});
    std::vector<std::int32_t> integer_scores(kTinyVocabulary, 0);
    expect_refused(
        [&](GgufWriter& w) { w.array<std::int32_t>("tokenizer.ggml.scores", integer_scores); },
        {"tokenizer.ggml.scores", "i32", "f32"});
    std::vector<float> real_types(kTinyVocabulary, 1.0f);
    expect_refused([&](GgufWriter& w) { w.array<float>("tokenizer.ggml.token_type", real_types); },
                   {"tokenizer.ggml.token_type", "f32"});
    std::vector<std::int32_t> odd_types(kTinyVocabulary, 1);
    odd_types[17] = 999;
    expect_refused(
        [&](GgufWriter& w) { w.array<std::int32_t>("tokenizer.ggml.token_type", odd_types); },
        {"tokenizer.ggml.token_type", "17", "999"});

    auto with_merge = [](std::string merge) {
        return [merge](GgufWriter& w) {
            std::vector<std::string> merges = {"Ġ t", merge};
            w.strings("tokenizer.ggml.merges", merges);
        };
    };
    expect_refused(with_merge("zz t"), {"merge 1", "left"});
    expect_refused(with_merge("t zz"), {"merge 1", "right"});
    expect_refused(with_merge("q q"), {"merge 1", "no token"});
    expect_refused(with_merge("th"), {"merge 1"});
    expect_refused(with_merge(""), {"merge 1"});
    expect_refused(with_merge("t "), {"merge 1"});
    expect_refused([](GgufWriter& w) { w.drop("tokenizer.ggml.merges"); },
                   {"tokenizer.ggml.merges", "missing"});
    GgufWriter good = testing::tiny_model_writer();
    std::vector<float> whole(kTinyVocabulary, -1.0f);
    good.array<float>("tokenizer.ggml.scores", whole);
    EXPECT_TRUE(text_of(good));
}

// Case B189 (its empty metadata key is in gguf_test.cc).
TEST(TextFromGguf, DuplicateTokensAndBosWithoutAnIdAreRefused) {
    std::vector<std::string> tokens = tiny_tokens();
    tokens[300] = tokens[299];
    expect_refused([&](GgufWriter& w) { w.strings("tokenizer.ggml.tokens", tokens); },
                   {"tokenizer.ggml.tokens", "300"});
    expect_refused(
        [](GgufWriter& w) {
            w.drop("tokenizer.ggml.bos_token_id");
            w.boolean("tokenizer.ggml.add_bos_token", true);
        },
        {"tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id"});
    expect_refused([](GgufWriter& w) { w.number("tokenizer.ggml.add_bos_token", 1); },
                   {"tokenizer.ggml.add_bos_token", "bool"});
}

TEST(TextFromGguf, OtherTokenizersAreNamedAsUnsupported) {
    GgufWriter writer = testing::tiny_model_writer();
    writer.string("tokenizer.ggml.model", "llama");
    auto text = text_of(writer);
    ASSERT_FALSE(text);
    EXPECT_EQ(text.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(text.error().describe().find("'llama'"), std::string::npos);
    expect_refused([](GgufWriter& w) { w.drop("tokenizer.ggml.model"); }, {"missing"});
    expect_refused([](GgufWriter& w) { w.drop("tokenizer.ggml.tokens"); }, {"missing"});
    expect_refused([](GgufWriter& w) { w.number("tokenizer.chat_template", 1); },
                   {"tokenizer.chat_template", "string"});
}

}  // namespace
}  // namespace taproot
