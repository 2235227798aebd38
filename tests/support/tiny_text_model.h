// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "text/text_model.h"
#include "text/vocab.h"

namespace taproot::testing {

// A vocabulary that fits a screen: all 256 bytes (id = byte), then the tokens of the merges, then
// specials. Every text can be encoded, so decode(encode(x)) == x holds without exception.
class TinyTextModel {
public:
    explicit TinyTextModel(std::string pre = "gpt-2") {
        model_.model = "gpt2";
        model_.pre = std::move(pre);
        for (unsigned byte = 0; byte < 256; ++byte)
            add(encode_byte_level(std::string(1, static_cast<char>(byte))), TokenType::kNormal);
    }

    TokenId add(std::string text, TokenType type) {
        model_.tokens.push_back(std::move(text));
        model_.types.push_back(type);
        return static_cast<TokenId>(model_.tokens.size() - 1);
    }
    // Adds the merge of two texts that are tokens already, and its result. In plain bytes.
    TokenId merge(const std::string& left, const std::string& right) {
        const std::string a = encode_byte_level(left);
        const std::string b = encode_byte_level(right);
        model_.merges.push_back(a + " " + b);
        for (std::size_t i = 0; i < model_.tokens.size(); ++i)
            if (model_.tokens[i] == a + b) return static_cast<TokenId>(i);
        return add(a + b, TokenType::kNormal);
    }
    TokenId control(std::string text) { return add(std::move(text), TokenType::kControl); }
    TokenId user_defined(std::string text) { return add(std::move(text), TokenType::kUserDefined); }

    TextModel& model() { return model_; }

private:
    TextModel model_;
};

// The one most tests use: a few English merges, "<s>", "</s>", "<|im_start|>", "<|im_end|>".
inline TinyTextModel chat_text_model(std::string pre = "gpt-2") {
    TinyTextModel tiny(std::move(pre));
    tiny.merge("h", "e");
    tiny.merge("l", "l");
    tiny.merge("he", "ll");
    tiny.merge("hell", "o");
    tiny.merge(" ", "w");
    tiny.merge(" w", "o");
    tiny.merge("a", "a");
    tiny.merge("aa", "aa");
    tiny.merge("\n", "\n");
    tiny.merge(" ", " ");
    tiny.merge("\xC3", "\xA9");
    tiny.merge("s", "y");
    tiny.merge("u", "s");
    tiny.merge("us", "e");
    tiny.model().bos = tiny.control("<s>");
    tiny.model().eos = tiny.control("</s>");
    tiny.control("<|im_start|>");
    tiny.control("<|im_end|>");
    return tiny;
}

}  // namespace taproot::testing
