// SPDX-License-Identifier: Apache-2.0
#include "worker/model/text_from_gguf.h"

#include <fmt/format.h>

#include <string>
#include <unordered_set>
#include <utility>

#include "base/log.h"

namespace taproot {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";
constexpr std::string_view kBos = "tokenizer.ggml.bos_token_id";
constexpr std::string_view kEos = "tokenizer.ggml.eos_token_id";

Error bad(const GgufFile& file, std::string_view key, std::string message) {
    return file.key_error(ErrorCode::kInvalidArgument, key, std::move(message));
}

Error length_differs(const GgufFile& file, std::string_view key, std::size_t length,
                     std::size_t tokens) {
    return bad(file, key, fmt::format("has {} elements, {} has {}", length, kTokens, tokens));
}

Result<std::vector<TokenType>> read_types(const GgufFile& file, std::size_t tokens) {
    TAPROOT_TRY(auto stored, file.find_integers(kTypes));
    std::vector<TokenType> out;
    if (!stored) return out;
    if (stored->size() != tokens) return length_differs(file, kTypes, stored->size(), tokens);
    out.reserve(tokens);
    for (std::int64_t type : *stored) {
        if (type < 0 || type > static_cast<std::int64_t>(TokenType::kByte))
            return bad(file, kTypes,
                       fmt::format("element {} is {}, 0..6 are defined", out.size(), type));
        out.push_back(static_cast<TokenType>(type));
    }
    return out;
}

// Byte-level BPE has no use for scores, but a file that contradicts itself is refused.
Result<void> check_scores(const GgufFile& file, std::size_t tokens) {
    const GgufValue* scores = file.find(kScores);
    if (scores == nullptr) return {};
    if (scores->type != GgufType::kArray || scores->element != GgufType::kF32)
        return bad(file, kScores,
                   fmt::format("is {}{}, array of f32 is required", to_string(scores->type),
                               scores->type == GgufType::kArray
                                   ? fmt::format(" of {}", to_string(scores->element))
                                   : ""));
    if (scores->count != tokens) return length_differs(file, kScores, scores->count, tokens);
    return {};
}

Result<void> check_merges(const GgufFile& file, const std::vector<std::string_view>& merges,
                          const std::unordered_set<std::string_view>& known) {
    std::string whole;
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
        std::string_view merge = merges[rank];
        auto fail = [&](std::string_view why) {
            return bad(file, kMerges, fmt::format("merge {} {}", rank, why));
        };
        // A left part may itself begin with a space, but never be empty.
        std::size_t space = merge.find(' ', 1);
        if (space == std::string_view::npos || space + 1 == merge.size())
            return fail("is not two tokens separated by a space");
        std::string_view left = merge.substr(0, space);
        std::string_view right = merge.substr(space + 1);
        whole.assign(left).append(right);
        if (!known.contains(left)) return fail("has a left part that is no token");
        if (!known.contains(right)) return fail("has a right part that is no token");
        if (!known.contains(whole)) return fail("makes a text that is no token");
    }
    return {};
}

Result<std::optional<TokenId>> read_id(const GgufFile& file, std::string_view key,
                                       std::size_t tokens) {
    TAPROOT_TRY(auto id, file.find_integer(key));
    if (!id) return std::optional<TokenId>();
    if (*id < 0 || *id >= static_cast<std::int64_t>(tokens))
        return bad(file, key,
                   fmt::format("is {}, which is not in the vocabulary of {} tokens", *id, tokens));
    return std::optional<TokenId>(static_cast<TokenId>(*id));
}

Result<void> read_special_tokens(const GgufFile& file, TextModel* text) {
    std::size_t tokens = text->tokens.size();
    TAPROOT_TRY(text->bos, read_id(file, kBos, tokens));
    TAPROOT_TRY(text->eos, read_id(file, kEos, tokens));
    TAPROOT_TRY(text->eot, read_id(file, "tokenizer.ggml.eot_token_id", tokens));
    TAPROOT_TRY(text->unknown, read_id(file, "tokenizer.ggml.unknown_token_id", tokens));
    TAPROOT_TRY(text->padding, read_id(file, "tokenizer.ggml.padding_token_id", tokens));
    constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
    constexpr std::string_view kAddEos = "tokenizer.ggml.add_eos_token";
    TAPROOT_TRY(auto add_bos, file.find_bool(kAddBos));
    TAPROOT_TRY(auto add_eos, file.find_bool(kAddEos));
    // What the converters of these families leave out when it is true.
    bool bos_is_usual = text->bos && (text->pre == "llama-bpe" || text->pre == "tekken");
    text->add_bos = add_bos.value_or(bos_is_usual);
    text->add_eos = add_eos.value_or(false);
    if (text->add_bos && !text->bos)
        return bad(file, kAddBos, fmt::format("is true, but there is no {}", kBos));
    if (text->add_eos && !text->eos)
        return bad(file, kAddEos, fmt::format("is true, but there is no {}", kEos));
    if (!text->eos)
        log_warn("{}: no {}: answers end by length unless a token is known as an end by name",
                 file.name(), kEos);
    return {};
}

}  // namespace

Result<TextModel> text_model_from_gguf(const GgufFile& file) {
    constexpr std::string_view kModel = "tokenizer.ggml.model";
    TextModel text;
    TAPROOT_TRY(auto model, file.find_string(kModel));
    if (!model) return bad(file, kModel, "is missing");
    if (*model != "gpt2")
        return file.key_error(
            ErrorCode::kUnsupported, kModel,
            fmt::format("is '{}'; byte-level BPE ('gpt2') is supported", model->substr(0, 64)));
    TAPROOT_TRY(auto pre, file.find_string("tokenizer.ggml.pre"));
    text.model = *model;
    text.pre = pre.value_or("");

    TAPROOT_TRY(auto tokens, file.find_strings(kTokens));
    if (!tokens || tokens->empty()) return bad(file, kTokens, "is missing or empty");
    std::unordered_set<std::string_view> known;
    known.reserve(tokens->size());
    for (std::size_t id = 0; id < tokens->size(); ++id)
        if (!known.insert((*tokens)[id]).second)
            return bad(file, kTokens, fmt::format("token {} has the text of an earlier token", id));
    text.tokens.assign(tokens->begin(), tokens->end());
    TAPROOT_TRY(text.types, read_types(file, tokens->size()));
    TAPROOT_CHECK_OK(check_scores(file, tokens->size()));

    TAPROOT_TRY(auto merges, file.find_strings(kMerges));
    if (!merges) return bad(file, kMerges, "is missing; byte-level BPE needs it");
    TAPROOT_CHECK_OK(check_merges(file, *merges, known));
    text.merges.assign(merges->begin(), merges->end());
    TAPROOT_CHECK_OK(read_special_tokens(file, &text));
    TAPROOT_TRY(auto chat_template, file.find_string("tokenizer.chat_template"));
    text.chat_template = chat_template.value_or("");
    return text;
}

}  // namespace taproot
