// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "gateway/openai/chat.h"
#include "gateway/openai/json_reader.h"
#include "gateway/openai/parse_common.h"

namespace taproot::gateway {
namespace {

namespace json = boost::json;

constexpr std::uint32_t kDefaultMaxTokens = 16;
constexpr std::int64_t kLegacyLogprobsMax = 5;

bool is_token_array(const json::value& value) {
    return value.is_array() && !value.get_array().empty() && value.get_array()[0].is_number();
}

std::optional<TokenPrompt> to_tokens(const json::array& ids) {
    TokenPrompt out;
    out.reserve(ids.size());
    for (const json::value& id : ids) {
        if (!id.is_int64() || id.get_int64() < 0 ||
            id.get_int64() > std::numeric_limits<TokenId>::max())
            return std::nullopt;
        out.push_back(static_cast<TokenId>(id.get_int64()));
    }
    if (out.empty()) return std::nullopt;
    return out;
}

std::optional<CompletionPrompt> to_prompt(const json::value& value) {
    if (value.is_string() && !value.get_string().empty())
        return CompletionPrompt(std::string(value.get_string().data(), value.get_string().size()));
    if (const json::array* ids = value.if_array())
        if (auto tokens = to_tokens(*ids)) return CompletionPrompt(std::move(*tokens));
    return std::nullopt;
}

void parse_prompts(FieldReader& fields, const config::Limits& limits, GenerateSpec* spec) {
    constexpr std::string_view kShape =
        "'prompt' must be a text, an array of texts, an array of token ids, or an array of those; "
        "none empty";
    const json::value* value = fields.find("prompt");
    if (value == nullptr) {
        fields.fail("prompt", "'prompt' is required");
        return;
    }
    if (value->is_string() || is_token_array(*value)) {
        if (auto prompt = to_prompt(*value))
            spec->prompts.push_back(std::move(*prompt));
        else
            fields.fail("prompt", std::string(kShape));
        return;
    }
    if (!value->is_array() || value->get_array().empty()) {
        fields.fail("prompt", std::string(kShape));
        return;
    }
    const json::array& list = value->get_array();
    if (list.size() > limits.prompts) {
        fields.fail("prompt", fmt::format("'prompt' may hold at most {} prompts", limits.prompts));
        return;
    }
    for (const json::value& one : list) {
        auto prompt = to_prompt(one);
        if (!prompt) {
            fields.fail("prompt", std::string(kShape));
            return;
        }
        spec->prompts.push_back(std::move(*prompt));
    }
}

}  // namespace

Result<GenerateSpec> parse_completions(std::string_view text, const config::Limits& limits) {
    TAPROOT_TRY(json::object body, parse_json_object(text, limits.json_depth));
    GenerateSpec spec;
    spec.endpoint = Endpoint::kCompletions;
    FieldReader fields(body);
    parse_common_fields(fields, limits, &spec);
    parse_prompts(fields, limits, &spec);
    spec.echo = fields.boolean("echo").value_or(false);
    spec.add_special_tokens = fields.boolean("add_special_tokens").value_or(true);
    if (auto top = fields.integer("logprobs", 0,
                                  std::min<std::int64_t>(kLegacyLogprobsMax, limits.top_logprobs)))
        spec.sampling.logprobs = static_cast<std::uint32_t>(*top);
    if (spec.echo && spec.sampling.logprobs) spec.sampling.prompt_logprobs = spec.sampling.logprobs;
    if (!spec.max_tokens) spec.max_tokens = kDefaultMaxTokens;
    if (*spec.max_tokens == 0 && !spec.echo)
        fields.fail("max_tokens",
                    "'max_tokens' must be at least 1 (0 is allowed with 'echo': true)");
    settle_other_fields(fields);
    if (!fields.ok()) return fields.error();
    return spec;
}

}  // namespace taproot::gateway
