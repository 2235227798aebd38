// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "tests/support/tiny_text_model.h"

namespace taproot {
namespace {

using testing::TinyTextModel;
using Ids = std::vector<TokenId>;

Ids encode(const Tokenizer& tokenizer, std::string_view text, bool parse_special = false) {
    Tokenizer::Scratch scratch;
    Ids ids;
    tokenizer.encode(text, parse_special, &ids, scratch);
    return ids;
}

std::string random_text(Random& random) {
    static const std::vector<std::string> kParts = {"hello",
                                                    " world",
                                                    "a",
                                                    "aaaa",
                                                    " ",
                                                    "  ",
                                                    "\n",
                                                    "\n\n",
                                                    "\xC3\xA9",
                                                    "\xC3",
                                                    "\xFF",
                                                    "<|im_end|>",
                                                    "<|im_start|>",
                                                    "<s>",
                                                    "<|im_",
                                                    "|>",
                                                    "'s",
                                                    "12",
                                                    "!",
                                                    "user",
                                                    "system",
                                                    std::string("\0", 1),
                                                    "\xF0\x9F\xA6\x99",
                                                    "h",
                                                    "e",
                                                    "l",
                                                    "o",
                                                    "w"};
    std::string text;
    for (std::uint64_t n = random.below(12); n > 0; --n)
        text += kParts[random.below(kParts.size())];
    return text;
}

// The definition, as slow as it reads: repeat the lowest-ranked merge, leftmost first.
Ids merge_naively(const TextModel& model, std::string_view piece) {
    std::map<std::string, std::size_t> rank;
    for (std::size_t i = 0; i < model.merges.size(); ++i) rank.emplace(model.merges[i], i);
    std::map<std::string, TokenId> ids;
    for (std::size_t i = 0; i < model.tokens.size(); ++i)
        ids.emplace(model.tokens[i], static_cast<TokenId>(i));
    std::vector<std::string> symbols;
    for (const char byte : piece) symbols.push_back(encode_byte_level(std::string(1, byte)));
    while (true) {
        std::size_t best = SIZE_MAX;
        std::size_t at = 0;
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
            const auto found = rank.find(symbols[i] + " " + symbols[i + 1]);
            if (found == rank.end() || found->second >= best) continue;
            best = found->second;
            at = i;
        }
        if (best == SIZE_MAX) break;
        symbols[at] += symbols[at + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    Ids out;
    for (const std::string& symbol : symbols) out.push_back(ids.at(symbol));
    return out;
}

TEST(Tokenizer, MergesByRankNotFromTheLeft) {
    TinyTextModel tiny;
    const TokenId bc = tiny.merge("b", "c");
    tiny.merge("a", "b");
    const Tokenizer tokenizer = *Tokenizer::build(tiny.model());
    EXPECT_EQ(encode(tokenizer, "abc"), (Ids{'a', bc}));
}

TEST(Tokenizer, MergesLikeTheNaiveDefinitionOnShortAndLongPieces) {
    Random random(3);
    for (int round = 0; round < 400; ++round) {
        TinyTextModel tiny;
        std::vector<std::string> texts = {"a", "b", "c"};
        for (int i = 0; i < 12; ++i) {
            const std::string left = texts[random.below(texts.size())];
            const std::string right = texts[random.below(texts.size())];
            const std::size_t before = tiny.model().tokens.size();
            tiny.merge(left, right);
            if (tiny.model().tokens.size() > before) texts.push_back(left + right);
        }
        const Tokenizer tokenizer = *Tokenizer::build(tiny.model());
        std::string piece(1 + random.below(round % 2 == 0 ? 32 : 200), 'a');
        for (char& c : piece) c = "aabc"[random.below(4)];
        ASSERT_EQ(encode(tokenizer, piece), merge_naively(tiny.model(), piece))
            << "round " << round << " piece " << piece;
    }
}

TEST(Tokenizer, RoundTripsAnyBytes) {
    for (const char* pre : {"smollm", "llama-bpe", "qwen2", "gpt-2", "deepseek-r1-qwen",
                            "deepseek-v3", "gpt-4o", "tekken", "default"}) {
        const Tokenizer tokenizer = *Tokenizer::build(testing::chat_text_model(pre).model());
        Random random(5);
        for (int round = 0; round < 300; ++round) {
            std::string text = random_text(random);
            if (random.chance(0.3))
                for (char& c : text) c = static_cast<char>(random.below(256));
            const Ids ids = encode(tokenizer, text, random.chance(0.5));
            ASSERT_EQ(*tokenizer.decode(ids, false), text) << pre << " round " << round;
        }
    }
}

TEST(Tokenizer, CacheNeverChangesTheIds) {
    const Tokenizer tokenizer = *Tokenizer::build(testing::chat_text_model().model());
    const Tokenizer other = *Tokenizer::build(testing::chat_text_model("llama-bpe").model());
    Tokenizer::Scratch shared;
    Random random(6);
    for (int round = 0; round < 2'000; ++round) {
        const std::string text = random_text(random);
        const Tokenizer& used = random.chance(0.1) ? other : tokenizer;
        Ids ids;
        used.encode(text, true, &ids, shared);
        ASSERT_EQ(ids, encode(used, text, true)) << "round " << round;
    }
    EXPECT_GT(shared.counters().cached_pieces, 100u);
}

TEST(Tokenizer, AppendsToWhatIsThere) {
    const Tokenizer tokenizer = *Tokenizer::build(testing::chat_text_model().model());
    Tokenizer::Scratch scratch;
    Ids ids = {7};
    tokenizer.encode("hello", false, &ids, scratch);
    tokenizer.encode("", false, &ids, scratch);
    EXPECT_EQ(ids, (Ids{7, *tokenizer.id_of("hello")}));
}

TEST(Tokenizer, BytesWithoutATokenAreDropped) {
    TinyTextModel tiny;
    tiny.merge("a", "b");
    tiny.model().tokens[0x04] = "unused";
    const Tokenizer tokenizer = *Tokenizer::build(tiny.model());
    EXPECT_EQ(encode(tokenizer, "\x04"), Ids{});
    EXPECT_EQ(encode(tokenizer, "x\x04y"), (Ids{'x', 'y'}));
}

TEST(Tokenizer, IgnoreMergesTakesAWholePieceFromTheVocabulary) {
    const auto with = [](const char* pre) {
        TinyTextModel tiny(pre);
        tiny.merge("a", "b");
        tiny.add("abc", TokenType::kNormal);  // no merge leads here
        return Tokenizer::build(tiny.model());
    };
    auto llama = with("llama-bpe");
    ASSERT_TRUE(llama);
    EXPECT_EQ(encode(*llama, "abc"), Ids{*llama->id_of("abc")});
    auto qwen = with("qwen2");
    ASSERT_TRUE(qwen);
    EXPECT_EQ(encode(*qwen, "abc"), (Ids{*qwen->id_of("ab"), 'c'}));
}

TEST(Tokenizer, AddsBosAndEosOnceAndOnlyWhenTheModelAsks) {
    TinyTextModel tiny = testing::chat_text_model();
    const TokenId bos = *tiny.model().bos;
    const TokenId eos = *tiny.model().eos;
    const Tokenizer plain = *Tokenizer::build(tiny.model());
    Ids ids = {1};
    plain.add_bos(&ids);
    plain.add_eos(&ids);
    EXPECT_EQ(ids, Ids{1});
    tiny.model().add_bos = true;
    tiny.model().add_eos = true;
    const Tokenizer asks = *Tokenizer::build(tiny.model());
    for (int twice = 0; twice < 2; ++twice) {
        asks.add_bos(&ids);
        asks.add_eos(&ids);
        EXPECT_EQ(ids, (Ids{bos, 1, eos})) << "a doubled BOS degrades every answer";
    }
    Ids empty;
    asks.add_bos(&empty);
    EXPECT_EQ(empty, Ids{bos});
}

TEST(Tokenizer, KnowsTheFewestTokensOfALength) {
    const Tokenizer tokenizer = *Tokenizer::build(testing::chat_text_model().model());
    const std::string densest(1'000, 'x');
    EXPECT_LE(tokenizer.tokens_at_least(densest.size()), encode(tokenizer, densest).size());
    std::string markers;
    for (int i = 0; i < 50; ++i) markers += "<|im_start|>";  // the longest token
    EXPECT_EQ(tokenizer.tokens_at_least(markers.size()), encode(tokenizer, markers, true).size());
    EXPECT_EQ(tokenizer.tokens_at_least(0), 0u);
}

// Case B072.
TEST(Tokenizer, DecodeNamesTheFirstBadId) {
    const Tokenizer tokenizer = *Tokenizer::build(testing::chat_text_model().model());
    const auto size = static_cast<TokenId>(tokenizer.vocab_size());
    for (const TokenId bad : {-1, size, INT32_MAX, INT32_MIN}) {
        const Ids ids = {'a', 'b', bad, -7};
        const auto decoded = tokenizer.decode(ids, false);
        ASSERT_FALSE(decoded);
        EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidArgument);
        EXPECT_EQ(decoded.error().where, "tokens[2]");
        EXPECT_NE(decoded.error().message.find("0.." + std::to_string(size - 1)),
                  std::string::npos);
    }
}

TEST(Tokenizer, ManyThreadsShareOneTokenizer) {
    const Tokenizer tokenizer = *Tokenizer::build(testing::chat_text_model().model());
    const Ids expected = encode(tokenizer, "hello world <|im_end|> 12", true);
    std::vector<std::thread> threads;
    std::vector<int> wrong(4, 0);
    for (std::size_t t = 0; t < wrong.size(); ++t)
        threads.emplace_back([&tokenizer, &expected, &wrong, t] {
            Tokenizer::Scratch scratch;
            for (int i = 0; i < 200; ++i) {
                Ids ids;
                tokenizer.encode("hello world <|im_end|> 12", true, &ids, scratch);
                wrong[t] += ids != expected;
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, (std::vector<int>{0, 0, 0, 0}));
}

TEST(Tokenizer, SurvivesAMove) {
    TinyTextModel tiny("llama-bpe");
    tiny.add("abc", TokenType::kNormal);
    auto made = Tokenizer::build(tiny.model());
    ASSERT_TRUE(made);
    const Tokenizer moved = std::move(*made);
    const auto on_heap = std::make_unique<Tokenizer>(*Tokenizer::build(tiny.model()));
    EXPECT_EQ(encode(moved, "abc"), encode(*on_heap, "abc"));
    EXPECT_EQ(encode(moved, "abc").size(), 1u);
}

}  // namespace
}  // namespace taproot
