// SPDX-License-Identifier: Apache-2.0
#include "gateway/stream/choice_stream.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_text_model.h"

namespace taproot::gateway {
namespace {

using link::FinishReason;
using taproot::testing::TinyTextModel;

class ChoiceStreamTest : public ::testing::Test {
protected:
    ChoiceStreamTest() {
        for (const char* text : {"one ", "tw", "o th", "re", "e four", "foo", "Obs", "erver"})
            tokens_[text] = add(text);
        end_ = tiny_.control("<|end|>");
        vocab_.emplace(*Vocab::build(tiny_.model()));
    }
    TokenId add(const std::string& text) {
        return tiny_.add(encode_byte_level(text), TokenType::kNormal);
    }
    TokenId id(const std::string& text) {
        auto it = tokens_.find(text);
        return it != tokens_.end() ? it->second
                                   : static_cast<TokenId>(static_cast<unsigned char>(text.at(0)));
    }
    static link::TokenOutput token(TokenId id, FinishReason finish = FinishReason::kNone) {
        link::TokenOutput out;
        out.token = id;
        out.finish = finish;
        if (finish == FinishReason::kStop) out.stop_token = id;
        return out;
    }
    std::vector<std::string> deltas(ChoiceStream& stream, const std::vector<std::string>& texts,
                                    FinishReason last) {
        std::vector<std::string> out;
        for (std::size_t i = 0; i < texts.size(); ++i) {
            stream.push(token(id(texts[i]), i + 1 == texts.size() && last == FinishReason::kLength
                                                ? last
                                                : FinishReason::kNone));
            out.push_back(stream.take().text);
        }
        if (last == FinishReason::kStop) {
            stream.push(token(end_, last));
            out.push_back(stream.take().text);
        }
        return out;
    }

    TinyTextModel tiny_;
    std::map<std::string, TokenId> tokens_;
    TokenId end_ = 0;
    std::optional<Vocab> vocab_;
    GenerateSpec spec_;
};

TEST_F(ChoiceStreamTest, EmitsOnlyWholeCharacters) {  // B032
    ChoiceStream stream(*vocab_, spec_);
    EXPECT_EQ(
        deltas(stream, {"o", "k", "\xF0", "\x9F", "\xAB", "\xA0", "!"}, FinishReason::kLength),
        (std::vector<std::string>{"o", "k", "", "", "", "\xF0\x9F\xAB\xA0", "!"}));
}

TEST_F(ChoiceStreamTest, ACharacterCutByTheLimitIsReplacedOnce) {  // B033
    ChoiceStream stream(*vocab_, spec_);
    EXPECT_EQ(deltas(stream, {"A", "\xF0", "\x9F"}, FinishReason::kLength),
              (std::vector<std::string>{"A", "", "\xEF\xBF\xBD"}));
    EXPECT_EQ(stream.finish(), FinishReason::kLength);
    EXPECT_EQ(stream.completion_tokens(), 3u);
}

TEST_F(ChoiceStreamTest, TheEndTokenIsCountedButNeverShown) {
    spec_.skip_special_tokens = false;
    ChoiceStream stream(*vocab_, spec_);
    deltas(stream, {"foo"}, FinishReason::kStop);
    EXPECT_EQ(stream.completion_tokens(), 2u);
    EXPECT_EQ(stream.finish(), FinishReason::kStop);
    EXPECT_FALSE(stream.stop_token());  // the model's own end is no stop_reason
}

TEST_F(ChoiceStreamTest, AStopStringEndsTheTextAndTellsTheCaller) {  // B029
    spec_.stop = {"two three"};
    ChoiceStream stream(*vocab_, spec_);
    EXPECT_EQ(deltas(stream, {"one ", "tw", "o th", "re"}, FinishReason::kNone),
              (std::vector<std::string>{"one ", "", "", ""}));
    EXPECT_TRUE(stream.push(token(id("e four"))).stop_string_matched);
    EXPECT_EQ(stream.take().text, "");
    EXPECT_EQ(stream.stop_string(), "two three");
    EXPECT_EQ(stream.finish(), FinishReason::kStop);
    // The worker was a step ahead: what still comes is ignored.
    stream.push(token(id("foo")));
    EXPECT_TRUE(stream.take().empty());
    EXPECT_EQ(stream.completion_tokens(), 5u);
}

TEST_F(ChoiceStreamTest, HeldTextComesOutAtTheEnd) {  // B030
    spec_.stop = {"\n<|endoftext|>", "Observation:"};
    for (FinishReason last : {FinishReason::kStop, FinishReason::kLength}) {
        ChoiceStream stream(*vocab_, spec_);
        std::string all;
        for (const std::string& delta : deltas(stream, {"\n", "foo", "Obs", "erver"}, last))
            all += delta;
        EXPECT_EQ(all, "\nfooObserver");
        EXPECT_FALSE(stream.stop_string());
    }
}

TEST_F(ChoiceStreamTest, StopStringsWaitForMinTokens) {
    spec_.stop = {"foo"};
    spec_.sampling.min_tokens = 3;
    ChoiceStream stream(*vocab_, spec_);
    std::string all;
    for (const std::string& delta : deltas(stream, {"foo", "foo", "foo"}, FinishReason::kNone))
        all += delta;
    EXPECT_EQ(all, "foofoo");
    EXPECT_TRUE(stream.finished());
}

TEST_F(ChoiceStreamTest, EveryTokenKeepsItsLogprobEntryWhileTextIsHeld) {  // B026
    spec_.stop = {"two threeX"};
    spec_.sampling.logprobs = 0;
    ChoiceStream stream(*vocab_, spec_);
    std::vector<TokenId> seen;
    for (const char* text : {"one ", "tw", "o th", "re", "e four"}) {
        stream.push(token(id(text)));
        for (const LogprobEntry& entry : stream.take().logprobs) seen.push_back(entry.token);
    }
    EXPECT_EQ(seen,
              (std::vector<TokenId>{id("one "), id("tw"), id("o th"), id("re"), id("e four")}));
}

TEST_F(ChoiceStreamTest, NamesTheStopTokenTheClientAskedFor) {
    spec_.sampling.stop_tokens = {id("foo")};
    ChoiceStream stream(*vocab_, spec_);
    stream.push(token(id("foo"), FinishReason::kStop));
    EXPECT_EQ(stream.stop_token(), id("foo"));
    EXPECT_EQ(stream.take().text, "");
}

}  // namespace
}  // namespace taproot::gateway
