// SPDX-License-Identifier: Apache-2.0
#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/tiny_text_model.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

namespace taproot {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

class DetokenizerTest : public ::testing::Test {
protected:
    Tokenizer tokenizer_ = *Tokenizer::build(testing::chat_text_model().model());

    std::string decode_bytes(std::string_view bytes) {
        Detokenizer detokenizer(tokenizer_.vocab(), {});
        std::string out;
        for (const char byte : bytes) {
            detokenizer.push(tokenizer_.vocab().byte_token(static_cast<std::uint8_t>(byte)), &out);
            EXPECT_TRUE(is_valid_utf8(out)) << "half a character";
            EXPECT_LE(detokenizer.pending_bytes(), 3u);
        }
        detokenizer.flush(&out);
        return out;
    }
};

TEST_F(DetokenizerTest, HoldsACharacterBackUntilItIsWhole) {
    Detokenizer detokenizer(tokenizer_.vocab(), {});
    std::string out;
    for (const char* byte : {"\xF0", "\x9F", "\xA6"}) {
        detokenizer.push(tokenizer_.vocab().byte_token(static_cast<std::uint8_t>(*byte)), &out);
        EXPECT_EQ(out, "");
    }
    EXPECT_EQ(detokenizer.pending_bytes(), 3u);
    detokenizer.push(tokenizer_.vocab().byte_token(0x99), &out);
    EXPECT_EQ(out, "\xF0\x9F\xA6\x99");
    EXPECT_EQ(detokenizer.pending_bytes(), 0u);
}

TEST_F(DetokenizerTest, FlushesAnUnfinishedCharacterAsOneReplacement) {
    EXPECT_EQ(decode_bytes("a\xF0\x9F\xA6"), std::string("a") + kReplacement);
    EXPECT_EQ(decode_bytes("\xE4"), kReplacement);
    EXPECT_EQ(decode_bytes(""), "");
}

// Expected values: Python's bytes.decode("utf-8", "replace").
TEST_F(DetokenizerTest, ReplacesInvalidBytesLikeAWholeTextDecoder) {
    const std::string r = kReplacement;
    EXPECT_EQ(decode_bytes("a\x80"
                           "b"),
              "a" + r + "b");
    EXPECT_EQ(decode_bytes("\xC0\x80"), r + r);
    EXPECT_EQ(decode_bytes("\xED\xA0\x80"), r + r + r);
    EXPECT_EQ(decode_bytes("\xE4\xBD"
                           "a"),
              r + "a");
    EXPECT_EQ(decode_bytes("\xF0\x9F\xF0\x9F\xA6\x99"), r + "\xF0\x9F\xA6\x99");
    EXPECT_EQ(decode_bytes("\xF4\x90\x80\x80"), r + r + r + r);
    EXPECT_EQ(decode_bytes("\xE0\x9F\xBF"), r + r + r);
    EXPECT_EQ(decode_bytes("\xEF\xBF\xBD"), r) << "a genuine U+FFFD passes";
}

TEST_F(DetokenizerTest, SkipsControlTokensOnlyWhenAsked) {
    const TokenId end = *tokenizer_.id_of("<|im_end|>");
    const TokenId hello = *tokenizer_.id_of("hello");
    std::string skipped;
    Detokenizer skip(tokenizer_.vocab(), {.skip_special_tokens = true});
    std::string kept;
    Detokenizer keep(tokenizer_.vocab(), {.skip_special_tokens = false});
    for (const TokenId id : {hello, end, hello}) {
        skip.push(id, &skipped);
        keep.push(id, &kept);
    }
    EXPECT_EQ(skipped, "hellohello");
    EXPECT_EQ(kept, "hello<|im_end|>hello");
}

TEST_F(DetokenizerTest, IdsOutsideTheVocabularyHaveNoText) {
    Detokenizer detokenizer(tokenizer_.vocab(), {.skip_special_tokens = false});
    std::string out;
    for (const TokenId id : {-1, INT32_MAX, static_cast<TokenId>(tokenizer_.vocab_size())})
        detokenizer.push(id, &out);
    detokenizer.flush(&out);
    EXPECT_EQ(out, "");
}

// Case B069: no fixed buffer on the way, however long a token is.
TEST_F(DetokenizerTest, LongTokensComeBackWhole) {
    testing::TinyTextModel tiny;
    const std::string spaces(64, ' ');
    tiny.user_defined(spaces);
    tiny.user_defined(std::string(100, 'q'));
    const Tokenizer tokenizer = *Tokenizer::build(tiny.model());
    Tokenizer::Scratch scratch;
    for (const std::string& text : {spaces, std::string(128, ' '), std::string(40, ' ') + "return;",
                                    std::string(100, 'q'), std::string(333, 'q') + spaces}) {
        std::vector<TokenId> ids;
        tokenizer.encode(text, false, &ids, scratch);
        std::string out;
        Detokenizer detokenizer(tokenizer.vocab(), {});
        for (const TokenId id : ids) detokenizer.push(id, &out);
        detokenizer.flush(&out);
        EXPECT_EQ(out, text);
        EXPECT_EQ(*tokenizer.decode(ids, true), text);
    }
}

TEST_F(DetokenizerTest, ValidTextComesBackWhateverTheTokens) {
    Random random(11);
    Tokenizer::Scratch scratch;
    for (int round = 0; round < 500; ++round) {
        std::string text;
        for (std::uint64_t n = random.below(30); n > 0; --n) {
            const auto c =
                static_cast<char32_t>(random.below(random.chance(0.5) ? 0x80 : 0x110000));
            if (c < 0xD800 || c > 0xDFFF) append_utf8(c, &text);
        }
        std::vector<TokenId> ids;
        tokenizer_.encode(text, false, &ids, scratch);
        std::string out;
        Detokenizer detokenizer(tokenizer_.vocab(), {});
        for (const TokenId id : ids) {
            detokenizer.push(id, &out);
            ASSERT_TRUE(is_valid_utf8(out));
        }
        ASSERT_EQ(detokenizer.pending_bytes(), 0u);
        ASSERT_EQ(out, text) << "round " << round;
    }
}

TEST_F(DetokenizerTest, AnyGroupingOfBytesGivesTheSameText) {
    Random random(12);
    for (int round = 0; round < 500; ++round) {
        std::string bytes(random.below(40), '\0');
        const std::string_view likely = "\xF0\x9F\xA6\x99\xE4\xB8\xAD\xC3\xA9\xED\xA0\xF4\x90 a";
        for (char& c : bytes) c = likely[random.below(likely.size())];
        Utf8Assembler whole;
        std::string expected;
        whole.push(bytes, &expected);
        whole.flush(&expected);
        Utf8Assembler parts;
        std::string out;
        for (std::size_t pos = 0; pos < bytes.size();) {
            const std::size_t n = 1 + random.below(4);
            parts.push(std::string_view(bytes).substr(pos, n), &out);
            ASSERT_TRUE(is_valid_utf8(out));
            pos += n;
        }
        parts.flush(&out);
        ASSERT_EQ(out, expected) << "round " << round;
    }
}

}  // namespace
}  // namespace taproot
