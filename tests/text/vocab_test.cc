// SPDX-License-Identifier: Apache-2.0
#include "text/vocab.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/support/tiny_text_model.h"
#include "text/tokenizer.h"

namespace taproot {
namespace {

using testing::TinyTextModel;

Error build_error(const TextModel& model) {
    auto built = Tokenizer::build(model);
    EXPECT_FALSE(built);
    return built ? Error{} : built.error();
}

TEST(Vocab, ByteLevelSpellingCoversEveryByteOnce) {
    std::set<char32_t> seen;
    for (unsigned byte = 0; byte < 256; ++byte)
        seen.insert(byte_to_char(static_cast<std::uint8_t>(byte)));
    EXPECT_EQ(seen.size(), 256u);
    EXPECT_EQ(byte_to_char(' '), U'\u0120');
    EXPECT_EQ(byte_to_char('\n'), U'\u010A');
    EXPECT_EQ(byte_to_char('\t'), U'\u0109');
    EXPECT_EQ(byte_to_char(0xAD), U'\u0143');
    EXPECT_EQ(byte_to_char('A'), U'A');
    std::string all;
    for (unsigned byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
    EXPECT_EQ(decode_byte_level(encode_byte_level(all)), all);
    EXPECT_EQ(decode_byte_level("\xE4\xB8\xAD"), "\xE4\xB8\xAD") << "not spelled: its own bytes";
}

TEST(Vocab, KnowsBytesKindsAndTexts) {
    TinyTextModel tiny = testing::chat_text_model();
    const TokenId user = tiny.user_defined("\t\t");
    auto vocab = Vocab::build(tiny.model());
    ASSERT_TRUE(vocab) << vocab.error().describe();
    EXPECT_EQ(vocab->token_bytes(*vocab->id_of("\xC4\xA0w")), " w");
    EXPECT_EQ(vocab->token_bytes(*vocab->id_of("<|im_end|>")), "<|im_end|>");
    EXPECT_TRUE(vocab->is_control(*vocab->id_of("<|im_end|>")));
    EXPECT_EQ(vocab->kind(user), TokenKind::kUserDefined);
    EXPECT_EQ(vocab->token_bytes(user), "\t\t");
    EXPECT_TRUE(vocab->is_whole_text(*vocab->id_of("hello")));
    EXPECT_FALSE(vocab->is_whole_text(vocab->byte_token(0xC3)));
    EXPECT_FALSE(vocab->id_of("no such token"));
}

// Case B072: ids come from clients too.
TEST(Vocab, AnswersForIdsOutsideTheVocabulary) {
    auto vocab = Vocab::build(testing::chat_text_model().model());
    ASSERT_TRUE(vocab);
    const auto size = static_cast<TokenId>(vocab->size());
    for (const TokenId id : {-1, size, INT32_MAX, INT32_MIN}) {
        EXPECT_FALSE(vocab->contains(id));
        EXPECT_EQ(vocab->token_bytes(id), "");
        EXPECT_FALSE(vocab->is_control(id));
        EXPECT_FALSE(vocab->is_whole_text(id));
    }
}

// Case B068.
TEST(Vocab, EmptyTextAndRawNulAreThreeDistinctTokens) {
    TinyTextModel tiny;
    tiny.model().tokens[0] = std::string(1, '\0');  // the byte itself instead of its spelling
    const TokenId empty = tiny.add("", TokenType::kNormal);
    const TokenId inside = tiny.add(std::string("a\0b", 3), TokenType::kUserDefined);
    auto made = Tokenizer::build(tiny.model());
    ASSERT_TRUE(made) << made.error().describe();
    EXPECT_EQ(made->id_of(""), empty);
    EXPECT_EQ(made->id_of(std::string(1, '\0')), 0);
    EXPECT_EQ(made->id_of(std::string("a\0b", 3)), inside);
    Tokenizer::Scratch scratch;
    for (const std::string& text :
         {std::string("a\0b", 3), std::string("\0", 1), std::string("x\0\0a\0bx", 7)}) {
        std::vector<TokenId> ids;
        made->encode(text, false, &ids, scratch);
        EXPECT_EQ(*made->decode(ids, false), text);
        EXPECT_EQ(std::count(ids.begin(), ids.end(), empty), 0);
    }
}

// Case B189: odd metadata is an error that names the place, never an abort.
TEST(Vocab, RefusesMetadataThatContradictsItself) {
    const TextModel good = testing::chat_text_model().model();
    ASSERT_TRUE(Tokenizer::build(good));

    TextModel twice = good;
    twice.tokens[260] = twice.tokens[65];
    twice.merges.clear();
    EXPECT_NE(build_error(twice).describe().find("tokens[260]: has the same text as token 65"),
              std::string::npos)
        << build_error(twice).describe();

    TextModel no_bos = good;
    no_bos.bos.reset();
    no_bos.add_bos = true;
    EXPECT_EQ(build_error(no_bos).where, "tokenizer.ggml.add_bos_token");

    TextModel no_eos = good;
    no_eos.eos.reset();
    no_eos.add_eos = true;
    EXPECT_EQ(build_error(no_eos).where, "tokenizer.ggml.add_eos_token");

    TextModel types = good;
    types.types.pop_back();
    EXPECT_EQ(build_error(types).where, "tokenizer.ggml.token_type");
    types = good;
    types.types[3] = static_cast<TokenType>(77);
    EXPECT_EQ(build_error(types).where, "tokenizer.ggml.token_type[3]");

    TextModel empty = good;
    empty.tokens.clear();
    empty.types.clear();
    EXPECT_EQ(build_error(empty).where, "tokenizer.ggml.tokens");

    TextModel huge = good;
    huge.tokens[5] = std::string(100'000, 'x');
    EXPECT_EQ(build_error(huge).where, "tokenizer.ggml.tokens[5]");
}

TEST(Vocab, RefusesIdsOutsideTheVocabulary) {
    const TextModel good = testing::chat_text_model().model();
    const auto size = static_cast<TokenId>(good.tokens.size());
    for (const TokenId bad : {-1, size, INT32_MAX}) {
        TextModel model = good;
        model.bos = bad;
        EXPECT_EQ(build_error(model).where, "tokenizer.ggml.bos_token_id");
        model = good;
        model.eos = bad;
        EXPECT_EQ(build_error(model).where, "tokenizer.ggml.eos_token_id");
        model = good;
        model.eot = bad;
        EXPECT_EQ(build_error(model).where, "tokenizer.ggml.eot_token_id");
        model = good;
        model.padding = bad;
        EXPECT_EQ(build_error(model).where, "tokenizer.ggml.padding_token_id");
        model = good;
        model.unknown = bad;
        EXPECT_EQ(build_error(model).where, "tokenizer.ggml.unknown_token_id");
    }
}

TEST(Vocab, RefusesMergesOfUnknownTokens) {
    const TextModel good = testing::chat_text_model().model();
    for (const char* bad : {"h zz", "zz h", "z q", "hello", "", " ", "h ", "  "}) {
        TextModel model = good;
        model.merges[1] = bad;
        EXPECT_EQ(build_error(model).where, "tokenizer.ggml.merges[1]") << "'" << bad << "'";
    }
}

TEST(Vocab, RefusesOtherTokenizerFamilies) {
    TextModel model = testing::chat_text_model().model();
    model.model = "llama";
    EXPECT_EQ(build_error(model).code, ErrorCode::kUnsupported);
    model = testing::chat_text_model().model();
    model.pre = "unheard-of";
    EXPECT_EQ(build_error(model).code, ErrorCode::kUnsupported);
}

TEST(Vocab, WhateverEndsAGenerationIsControl) {
    TinyTextModel tiny;
    tiny.model().eos = tiny.add("<end>", TokenType::kNormal);
    const TokenId marked = tiny.user_defined("<|im_end|>");
    auto vocab = Vocab::build(tiny.model());
    ASSERT_TRUE(vocab);
    EXPECT_TRUE(vocab->is_control(*tiny.model().eos));
    EXPECT_TRUE(vocab->is_control(marked)) << "some files mark it user-defined by mistake";
}

}  // namespace
}  // namespace taproot
