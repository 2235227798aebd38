// SPDX-License-Identifier: Apache-2.0
#include "text/text_model.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace taproot {
namespace {

// Names under which model makers end a turn or a text. A name counts only for a token that its file
// marks as special: in some vocabularies "</s>" is also ordinary text (HTML).
constexpr std::array<std::string_view, 19> kEndNames = {"<|im_end|>",
                                                        "<|eot_id|>",
                                                        "<|eom_id|>",
                                                        "<|end|>",
                                                        "<|endoftext|>",
                                                        "<|end_of_text|>",
                                                        "<|end_of_turn|>",
                                                        "<|endofturn|>",
                                                        "<end_of_turn>",
                                                        "<turn|>",
                                                        "<end_of_utterance>",
                                                        "<|return|>",
                                                        "<|call|>",
                                                        "<|eot|>",
                                                        "<EOT>",
                                                        "<|END_OF_TURN_TOKEN|>",
                                                        "[EOT]",
                                                        "</s>",
                                                        "<\xEF\xBD\x9C"
                                                        "end\xE2\x96\x81"
                                                        "of\xE2\x96\x81"
                                                        "sentence\xEF\xBD\x9C>"};

bool is_marked_special(const TextModel& model, std::size_t id) {
    if (model.types.empty()) return true;
    if (id >= model.types.size()) return false;
    const TokenType type = model.types[id];
    return type == TokenType::kControl || type == TokenType::kUserDefined ||
           type == TokenType::kUnknown;
}

}  // namespace

std::vector<TokenId> end_tokens(const TextModel& model) {
    std::vector<TokenId> ids;
    if (model.eos) ids.push_back(*model.eos);
    if (model.eot) ids.push_back(*model.eot);
    std::optional<TokenId> end_of_message;  // "<|end|>"
    bool has_return = false;
    for (std::size_t id = 0; id < model.tokens.size(); ++id) {
        const std::string_view text = model.tokens[id];
        if (text.empty() || (text[0] != '<' && text[0] != '[')) continue;
        if (std::find(kEndNames.begin(), kEndNames.end(), text) == kEndNames.end()) continue;
        if (!is_marked_special(model, id)) continue;
        if (text == "<|end|>") {
            end_of_message = static_cast<TokenId>(id);
            continue;
        }
        has_return = has_return || text == "<|return|>";
        ids.push_back(static_cast<TokenId>(id));
    }
    // In the harmony format <|end|> ends one channel's message and the turn goes on to <|return|>.
    if (end_of_message && !has_return) ids.push_back(*end_of_message);
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    return ids;
}

}  // namespace taproot
