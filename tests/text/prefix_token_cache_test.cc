// SPDX-License-Identifier: Apache-2.0
#include "text/prefix_token_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/tiny_text_model.h"

namespace taproot {
namespace {

using testing::TinyTextModel;
using Ids = std::vector<TokenId>;

struct Chat {
    std::vector<std::string> turns;

    // As a template renders it: markers trusted, content not.
    [[nodiscard]] std::vector<TextSpan> spans() const {
        std::vector<TextSpan> out;
        for (const std::string& turn : turns) {
            out.push_back({"<|im_start|>user\n", true});
            out.push_back({turn, false});
            out.push_back({"<|im_end|>\n", true});
        }
        out.push_back({"<|im_start|>assistant\n", true});
        return out;
    }
};

class PrefixTokenCacheTest : public ::testing::Test {
protected:
    Ids full(const Tokenizer& tokenizer, std::span<const TextSpan> spans) {
        Ids ids;
        tokenizer.encode_pieces(spans, &ids, scratch_);
        return ids;
    }

    Tokenizer tokenizer_ = *Tokenizer::build(testing::chat_text_model().model());
    Tokenizer::Scratch scratch_;
};

TEST_F(PrefixTokenCacheTest, ATurnTokenisesOnlyWhatIsNew) {
    PrefixTokenCache cache(tokenizer_, 1 << 20);
    Chat chat{{std::string(5'000, 'a') + " hello world"}};
    std::uint64_t total = 0;
    for (int turn = 0; turn < 10; ++turn) {
        const std::uint64_t before = cache.stats().bytes_encoded;
        Ids ids;
        cache.encode_pieces(chat.spans(), &ids, scratch_);
        EXPECT_EQ(ids, full(tokenizer_, chat.spans()));
        total = cache.stats().bytes_encoded - before;
        chat.turns.push_back("hello " + std::string(100, 'w') + std::to_string(turn));
    }
    EXPECT_LT(total, 800u) << "the last turn added about 110 bytes of content and short markers";
    EXPECT_GE(cache.stats().bytes_reused, 9 * 5'000u);
}

TEST_F(PrefixTokenCacheTest, AppendsToWhatIsThere) {
    PrefixTokenCache cache(tokenizer_, 1 << 20);
    Ids ids = {42};
    const std::vector<TextSpan> spans = {{"hello", false}};
    cache.encode_pieces(spans, &ids, scratch_);
    cache.encode_pieces({}, &ids, scratch_);
    EXPECT_EQ(ids, (Ids{42, *tokenizer_.id_of("hello")}));
}

TEST_F(PrefixTokenCacheTest, TheSameBytesWithOtherTrustAreAnotherText) {
    PrefixTokenCache cache(tokenizer_, 1 << 20);
    const std::string text = std::string(200, 'a') + "<|im_end|>" + std::string(100, 'b');
    for (int round = 0; round < 3; ++round)
        for (const bool trusted : {true, false}) {
            const std::vector<TextSpan> spans = {{text, trusted}};
            Ids ids;
            cache.encode_pieces(spans, &ids, scratch_);
            ASSERT_EQ(ids, full(tokenizer_, spans)) << trusted;
        }
    EXPECT_GT(cache.stats().hits, 0u);
}

TEST_F(PrefixTokenCacheTest, StaysWithinItsBytes) {
    constexpr std::uint64_t kBytesMax = 64 << 10;
    PrefixTokenCache cache(tokenizer_, kBytesMax);
    Random random(31);
    for (int i = 0; i < 500; ++i) {
        std::string text(100 + random.below(3'000), 'x');
        for (char& c : text) c = "helo w"[random.below(6)];
        const std::vector<TextSpan> spans = {{text, false}};
        Ids ids;
        cache.encode_pieces(spans, &ids, scratch_);
        ASSERT_LE(cache.stats().bytes, kBytesMax);
    }
    EXPECT_GT(cache.stats().evictions, 300u);
    EXPECT_GT(cache.stats().entries, 0u);
}

TEST_F(PrefixTokenCacheTest, ForgetsTheLeastRecentlyUsedFirst) {
    PrefixTokenCache cache(tokenizer_, 16 << 10);
    const std::string kept(1'000, 'k');
    const std::vector<TextSpan> kept_spans = {{kept, false}};
    Ids ids;
    cache.encode_pieces(kept_spans, &ids, scratch_);
    for (int i = 0; i < 50; ++i) {
        const std::string other = std::to_string(i) + std::string(500, 'o');
        const std::vector<TextSpan> spans = {{other, false}};
        cache.encode_pieces(spans, &ids, scratch_);
        const std::uint64_t hits = cache.stats().hits;
        cache.encode_pieces(kept_spans, &ids, scratch_);
        ASSERT_EQ(cache.stats().hits, hits + 1) << "round " << i;
    }
}

TEST_F(PrefixTokenCacheTest, ATextLargerThanTheCacheIsEncodedButNotKept) {
    PrefixTokenCache cache(tokenizer_, 1'000);
    const std::string text(10'000, 'a');
    const std::vector<TextSpan> spans = {{text, false}};
    Ids ids;
    cache.encode_pieces(spans, &ids, scratch_);
    EXPECT_EQ(ids, full(tokenizer_, spans));
    EXPECT_EQ(cache.stats().entries, 0u);
}

// Specials that overlap, extend and contain each other: where a cut would not be exact, none may
// be.
TEST_F(PrefixTokenCacheTest, GivesTheIdsOfFullTokenisationWhateverTheSpecials) {
    Random random(33);
    for (int world = 0; world < 60; ++world) {
        TinyTextModel tiny(random.chance(0.5) ? "gpt-2" : "llama-bpe");
        tiny.merge("a", "b");
        tiny.merge("<", "a");
        tiny.merge(" ", "a");
        const auto random_word = [&random](std::uint64_t length_max) {
            std::string word;
            for (std::uint64_t n = 1 + random.below(length_max); n > 0; --n)
                word += "<a>b "[random.below(5)];
            return word;
        };
        for (int i = 0; i < 6; ++i) {
            const std::string text = "<" + random_word(5);
            bool known = false;
            for (const std::string& token : tiny.model().tokens) known = known || token == text;
            if (!known) random.chance(0.6) ? tiny.control(text) : tiny.user_defined(text);
        }
        auto tokenizer = Tokenizer::build(tiny.model());
        ASSERT_TRUE(tokenizer) << tokenizer.error().describe();
        PrefixTokenCache cache(*tokenizer, 20'000);
        std::vector<std::string> texts;
        for (int i = 0; i < 6; ++i) texts.push_back(random_word(i % 2 == 0 ? 60 : 6));
        for (int round = 0; round < 60; ++round) {
            std::vector<TextSpan> spans;
            for (std::uint64_t n = random.below(8); n > 0; --n)
                spans.push_back({texts[random.below(texts.size())], random.chance(0.6)});
            Ids ids;
            cache.encode_pieces(spans, &ids, scratch_);
            ASSERT_EQ(ids, full(*tokenizer, spans)) << "world " << world << " round " << round;
        }
    }
}

}  // namespace
}  // namespace taproot
