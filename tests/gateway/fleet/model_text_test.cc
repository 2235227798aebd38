// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/model_text.h"

#include <gtest/gtest.h>

#include "tests/support/tiny_text_model.h"

namespace taproot::gateway {
namespace {

ChatRequest user_says(const char* text) {
    ChatRequest request;
    jinja::Value message = jinja::Value::dict();
    message.set("role", jinja::Value::user_string("user"));
    message.set("content", jinja::Value::user_string(text));
    request.messages = jinja::Value::list({message});
    return request;
}

TEST(ModelText, HasTheTokenizerAndTheTemplateOfTheModel) {
    auto tiny = taproot::testing::chat_text_model();
    tiny.model().chat_template = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}";
    auto text = ModelText::build(7, tiny.model());
    ASSERT_TRUE(text) << text.error().describe();
    EXPECT_EQ((*text)->digest, 7u);
    EXPECT_EQ((*text)->tokenizer.vocab_size(), tiny.model().tokens.size());
    auto pieces = (*text)->chat_template.render(user_says("<s>"));
    ASSERT_TRUE(pieces) << pieces.error().describe();
    std::vector<TextPiece> expected = {{"<s>", true}, {"<s>", false}, {"</s>", true}};
    EXPECT_EQ(*pieces, expected);
}

TEST(ModelText, ATemplateThatDoesNotCompileRefusesChatsAndSaysWhy) {
    auto tiny = taproot::testing::chat_text_model();
    tiny.model().chat_template = "{% if 'it''s' %}{{ never closed";
    auto text = ModelText::build(7, tiny.model());
    ASSERT_TRUE(text) << text.error().describe();
    auto pieces = (*text)->chat_template.render(user_says("hello"));
    ASSERT_FALSE(pieces);
    EXPECT_EQ(pieces.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(pieces.error().message.find("line 1"), std::string::npos) << pieces.error().message;
}

TEST(ModelText, AVocabularyThatIsNoBytePairEncodingIsAnError) {
    auto tiny = taproot::testing::chat_text_model();
    tiny.model().model = "llama";
    EXPECT_FALSE(ModelText::build(7, tiny.model()));
}

}  // namespace
}  // namespace taproot::gateway
