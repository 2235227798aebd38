// SPDX-License-Identifier: Apache-2.0
#include "text/text_model.h"

#include <gtest/gtest.h>

namespace taproot {
namespace {

TextModel model_of(std::vector<std::pair<std::string, TokenType>> tokens) {
    TextModel model;
    for (auto& [text, type] : tokens) {
        model.tokens.push_back(text);
        model.types.push_back(type);
    }
    return model;
}

using enum TokenType;
using Ids = std::vector<TokenId>;

TEST(EndTokens, AreTheUnionOfKeysAndNames) {
    TextModel model = model_of({{"a", kNormal},
                                {"<|endoftext|>", kControl},
                                {"<|im_start|>", kControl},
                                {"<|im_end|>", kControl},
                                {"<|eot_id|>", kUserDefined}});
    model.eos = 3;
    EXPECT_EQ(end_tokens(model), (Ids{1, 3, 4}));
    model.eot = 0;
    EXPECT_EQ(end_tokens(model), (Ids{0, 1, 3, 4}));
}

TEST(EndTokens, OrdinaryTextOfThatNameDoesNotEnd) {
    EXPECT_EQ(end_tokens(model_of({{"</s>", kNormal}, {"<|im_end|>", kUnused}})), Ids{});
    EXPECT_EQ(end_tokens(model_of({{"</s>", kControl}})), Ids{0});
}

TEST(EndTokens, HarmonyMessagesGoOnAfterEnd) {
    EXPECT_EQ(end_tokens(model_of({{"<|end|>", kControl}, {"<|return|>", kControl}})), Ids{1});
    EXPECT_EQ(end_tokens(model_of({{"<|end|>", kControl}})), Ids{0});
}

TEST(EndTokens, WithoutTypesTheNamesCount) {
    TextModel model;
    model.tokens = {"a", "<|im_end|>"};
    EXPECT_EQ(end_tokens(model), Ids{1});
    EXPECT_EQ(end_tokens(TextModel{}), Ids{});
}

}  // namespace
}  // namespace taproot
