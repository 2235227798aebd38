// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/tiny_text_model.h"
#include "text/tokenizer.h"

namespace taproot {
namespace {

// Steps, not seconds: the number of table lookups, heap moves and characters looked at.
std::uint64_t steps_for(const Tokenizer& tokenizer, const std::string& text) {
    Tokenizer::Scratch scratch;
    std::vector<TokenId> ids;
    tokenizer.encode(text, false, &ids, scratch);
    EXPECT_EQ(*tokenizer.decode(ids, false), text);
    return scratch.counters().merge_steps + scratch.counters().scan_steps;
}

std::string repeated(std::string_view unit, std::size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += unit;
    text.resize(bytes);
    return text;
}

testing::TinyTextModel run_text_model(const char* pre) {
    testing::TinyTextModel tiny = testing::chat_text_model(pre);
    for (const char* unit : {"x", "_", " ", "\n"}) {
        std::string run = unit;
        for (int doublings = 0; doublings < 6; ++doublings, run += run) tiny.merge(run, run);
    }
    return tiny;
}

// Case B066: one long piece. A loop that rescans the piece per merge needs n^2/2 steps.
TEST(TokenizerCost, StepsGrowInProportionToOneLongPiece) {
    for (const char* pre : {"smollm", "llama-bpe", "qwen2", "gpt-2", "gpt-4o", "deepseek-v3"}) {
        const Tokenizer tokenizer = *Tokenizer::build(run_text_model(pre).model());
        for (const char* unit : {"x", "_", " ", "\n", "hello", "\xE4\xB8\xAD", "\xFF", "a!"}) {
            std::uint64_t before = 0;
            for (std::size_t bytes = std::size_t{1} << 12; bytes <= std::size_t{1} << 15;
                 bytes *= 2) {
                const std::uint64_t steps = steps_for(tokenizer, repeated(unit, bytes));
                EXPECT_LE(steps, 12 * bytes) << pre << " '" << unit << "' x " << bytes;
                if (before != 0) {
                    EXPECT_LE(static_cast<double>(steps), 2.6 * static_cast<double>(before));
                }
                before = steps;
            }
        }
    }
}

TEST(TokenizerCost, AMegabyteOfOneCharacterIsFine) {
    const Tokenizer tokenizer = *Tokenizer::build(run_text_model("smollm").model());
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    for (const char* unit : {"x", " ", "\n", "A", "7", "\xE4\xB8\xAD", "_"})
        EXPECT_LE(steps_for(tokenizer, repeated(unit, kBytes)), 12 * kBytes) << unit;
}

TEST(TokenizerCost, RandomLettersWithoutSpacesAreFine) {
    const Tokenizer tokenizer = *Tokenizer::build(run_text_model("qwen2").model());
    Random random(9);
    std::string text(std::size_t{1} << 19, 'a');
    for (char& c : text) c = "helloworldaax_"[random.below(13)];
    EXPECT_LE(steps_for(tokenizer, text), 12 * text.size());
}

TEST(TokenizerCost, BeginningsOfSpecialTokensAreFine) {
    const Tokenizer tokenizer = *Tokenizer::build(run_text_model("smollm").model());
    for (const char* unit : {"<", "<|im_en", "<|im_start|", "<|im_end|>"}) {
        const std::string text = repeated(unit, std::size_t{1} << 18);
        Tokenizer::Scratch scratch;
        for (const bool trusted : {false, true}) {
            std::vector<TokenId> ids;
            tokenizer.encode(text, trusted, &ids, scratch);
            EXPECT_EQ(*tokenizer.decode(ids, false), text);
        }
    }
}

}  // namespace
}  // namespace taproot
