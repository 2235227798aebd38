// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/model_text.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/log.h"
#include "gateway/fleet/model_table.h"

namespace taproot::gateway {
namespace {

std::string text_of(const TextModel& model, std::optional<TokenId> id) {
    if (!id || static_cast<std::size_t>(*id) >= model.tokens.size()) return {};
    return model.tokens[static_cast<std::size_t>(*id)];
}

// Special tokens are stored as they read, so their vocabulary text is what a template writes.
ChatTemplateTokens template_tokens(const TextModel& model) {
    ChatTemplateTokens out;
    out.bos_token = text_of(model, model.bos);
    out.eos_token = text_of(model, model.eos);
    for (const auto& [name, id] :
         {std::pair{"unk_token", model.unknown}, std::pair{"pad_token", model.padding}}) {
        std::string text = text_of(model, id);
        if (!text.empty()) out.others.emplace_back(name, std::move(text));
    }
    return out;
}

// A template that only says why the model's own cannot be used. Falling back to another format
// would answer, and answer wrongly.
std::string refusing_template(const Error& error) {
    std::string why = error.describe();
    for (char& c : why)
        if (c == '\'' || c == '\\' || c == '{' || c == '}' || c == '%' || c == '\n') c = ' ';
    return fmt::format(
        "{{{{ raise_exception('this model has a chat template that cannot be used ({}); "
        "/v1/completions works') }}}}",
        why);
}

}  // namespace

Result<std::shared_ptr<const ModelText>> ModelText::build(std::uint64_t digest,
                                                          const TextModel& model) {
    TAPROOT_TRY(Tokenizer tokenizer, Tokenizer::build(model));
    ChatTemplateTokens tokens = template_tokens(model);
    Result<ChatTemplate> chat_template = ChatTemplate::compile(model.chat_template, tokens);
    if (!chat_template) {
        log_warn("chat template of the model: {}; chat requests will be refused",
                 chat_template.error().describe());
        std::string refusing = refusing_template(chat_template.error());
        chat_template = ChatTemplate::compile(refusing, tokens);
        if (!chat_template) return std::move(chat_template).error();
    }
    ModelText out{digest, std::move(tokenizer), std::move(*chat_template)};
    return std::shared_ptr<const ModelText>(std::make_shared<ModelText>(std::move(out)));
}

Result<std::shared_ptr<const ModelText>> build_model_text(std::uint64_t digest,
                                                          const TextModel& model) {
    return ModelText::build(digest, model);
}

}  // namespace taproot::gateway
