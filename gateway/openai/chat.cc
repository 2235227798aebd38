// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/chat.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "gateway/openai/errors.h"
#include "gateway/openai/json_reader.h"
#include "gateway/openai/parse_common.h"

namespace taproot::gateway {
namespace {

namespace json = boost::json;

constexpr std::size_t kMessagesMax = 16'384;
constexpr std::array<std::string_view, 6> kRoles = {"system",    "developer", "user",
                                                    "assistant", "tool",      "function"};

std::string message_path(std::size_t index, std::string_view field) {
    return fmt::format("messages[{}]{}{}", index, field.empty() ? "" : ".", field);
}

// Text parts joined by newlines: templates of text models take one string.
std::optional<std::string> flatten_parts(FieldReader& fields, const json::array& parts,
                                         const std::string& where) {
    std::string out;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const json::object* part = parts[i].if_object();
        const json::value* type = part != nullptr ? part->if_contains("type") : nullptr;
        if (type == nullptr || !type->is_string()) {
            fields.fail(where, fmt::format("'{}[{}]' must be an object with a 'type'", where, i));
            return std::nullopt;
        }
        std::string_view kind(type->get_string().data(), type->get_string().size());
        std::string_view key = kind == "refusal" ? "refusal" : "text";
        if (kind != "text" && kind != "input_text" && kind != "output_text" && kind != "refusal") {
            fields.fail(
                where,
                fmt::format("'{}[{}].type' must be \"text\"; '{}' is not supported by this model",
                            where, i, bounded_echo(kind, 40)));
            return std::nullopt;
        }
        const json::value* text = part->if_contains(json::string_view(key.data(), key.size()));
        if (text == nullptr || !text->is_string()) {
            fields.fail(where, fmt::format("'{}[{}].{}' must be a string", where, i, key));
            return std::nullopt;
        }
        if (i > 0) out += '\n';
        out.append(text->get_string().data(), text->get_string().size());
    }
    return out;
}

void parse_content(FieldReader& fields, FieldReader& message, std::size_t index, bool may_be_absent,
                   jinja::Value* out) {
    const json::value* content = message.find("content");
    std::string where = message_path(index, "content");
    if (content == nullptr) {
        if (!may_be_absent)
            fields.fail(where, fmt::format("'{}' must be a string or an array of parts", where));
        else
            out->set("content", jinja::Value::none());
    } else if (content->is_string()) {
        const json::string& text = content->get_string();
        out->set("content", jinja::Value::user_string(std::string(text.data(), text.size())));
    } else if (content->is_array()) {
        if (auto text = flatten_parts(fields, content->get_array(), where))
            out->set("content", jinja::Value::user_string(std::move(*text)));
    } else {
        fields.fail(where, fmt::format("'{}' must be a string or an array of parts, not {}", where,
                                       json_kind(*content)));
    }
}

void parse_tool_calls(FieldReader& fields, const json::array& calls, std::size_t index,
                      jinja::Value* out) {
    std::string where = message_path(index, "tool_calls");
    for (std::size_t i = 0; i < calls.size(); ++i) {
        const json::object* call = calls[i].if_object();
        const json::value* function = call != nullptr ? call->if_contains("function") : nullptr;
        const json::value* name = function != nullptr && function->is_object()
                                      ? function->get_object().if_contains("name")
                                      : nullptr;
        if (name == nullptr || !name->is_string()) {
            fields.fail(where, fmt::format("'{}[{}].function.name' must be a string", where, i));
            return;
        }
    }
    out->set("tool_calls", to_template_value(calls));
}

void parse_message(FieldReader& fields, const json::value& value, std::size_t index,
                   jinja::Value* out) {
    const json::object* object = value.if_object();
    if (object == nullptr) {
        fields.fail(message_path(index, ""),
                    fmt::format("'{}' must be an object, not {}", message_path(index, ""),
                                json_kind(value)));
        return;
    }
    FieldReader message(*object, message_path(index, ""));
    std::optional<std::string> role = message.string("role", 64);
    if (message.ok() && (!role || std::find(kRoles.begin(), kRoles.end(), *role) == kRoles.end())) {
        std::string where = message_path(index, "role");
        fields.fail(
            where,
            fmt::format("'{}' must be one of system, developer, user, assistant, tool", where));
        return;
    }
    *out = jinja::Value::dict();
    out->set("role", jinja::Value::template_string(role.value_or("")));
    const json::array* calls = message.array("tool_calls");
    bool may_be_absent = role == "assistant" && calls != nullptr && !calls->empty();
    parse_content(fields, message, index, may_be_absent, out);
    for (std::string_view name : {"name", "tool_call_id", "reasoning_content"})
        if (auto text = message.string(name, std::numeric_limits<std::int32_t>::max()))
            out->set(std::string(name), jinja::Value::user_string(std::move(*text)));
    if (auto reasoning = message.string("reasoning", std::numeric_limits<std::int32_t>::max());
        reasoning && out->find("reasoning_content") == nullptr)
        out->set("reasoning_content", jinja::Value::user_string(std::move(*reasoning)));
    if (calls != nullptr && !calls->empty()) parse_tool_calls(fields, *calls, index, out);
    if (!message.ok()) fields.fail(message.error().where, message.error().message);
}

void parse_template_kwargs(FieldReader& fields, ChatPrompt* prompt) {
    prompt->template_kwargs = jinja::Value::dict();
    if (const json::object* kwargs = fields.object("chat_template_kwargs"))
        prompt->template_kwargs = to_template_value(*kwargs);
    if (auto effort = fields.string("reasoning_effort", 32);
        effort && prompt->template_kwargs.find("reasoning_effort") == nullptr)
        prompt->template_kwargs.set("reasoning_effort",
                                    jinja::Value::user_string(std::move(*effort)));
}

void parse_chat_logprobs(FieldReader& fields, const config::Limits& limits, GenerateSpec* spec) {
    bool logprobs = fields.boolean("logprobs").value_or(false);
    auto top = fields.integer("top_logprobs", 0, limits.top_logprobs);
    if (top && !logprobs)
        fields.fail("top_logprobs", "'top_logprobs' is only allowed with 'logprobs': true");
    if (logprobs) spec->sampling.logprobs = static_cast<std::uint32_t>(top.value_or(0));
}

}  // namespace

void parse_chat_prompt(FieldReader& fields, ChatPrompt* prompt) {
    const json::array* messages = fields.array("messages");
    if (messages == nullptr) {
        fields.fail("messages", "'messages' is required: an array of at least one message");
        return;
    }
    if (messages->empty() || messages->size() > kMessagesMax) {
        fields.fail("messages", fmt::format("'messages' must hold 1..{} messages", kMessagesMax));
        return;
    }
    std::vector<jinja::Value> items(messages->size());
    for (std::size_t i = 0; i < messages->size(); ++i) {
        parse_message(fields, (*messages)[i], i, &items[i]);
        if (!fields.ok()) return;
    }
    prompt->messages = jinja::Value::list(std::move(items));
    prompt->add_generation_prompt = fields.boolean("add_generation_prompt").value_or(true);
    prompt->continue_final_message = fields.boolean("continue_final_message").value_or(false);
    const json::object& last = messages->back().get_object();
    if (prompt->continue_final_message) {
        if (fields.find("add_generation_prompt") != nullptr && prompt->add_generation_prompt)
            fields.fail("continue_final_message",
                        "'continue_final_message' and 'add_generation_prompt' exclude each other");
        if (last.at("role") != "assistant")
            fields.fail("continue_final_message",
                        "'continue_final_message' needs a last message of the assistant");
        prompt->add_generation_prompt = false;
    }
    parse_template_kwargs(fields, prompt);
}

Result<GenerateSpec> parse_chat(std::string_view text, const config::Limits& limits) {
    TAPROOT_TRY(json::object body, parse_json_object(text, limits.json_depth));
    GenerateSpec spec;
    spec.endpoint = Endpoint::kChat;
    FieldReader fields(body);
    parse_common_fields(fields, limits, &spec);
    // The new name wins; zero is refused for both (a chat without an answer is no request).
    auto completion =
        fields.integer("max_completion_tokens", 1, std::numeric_limits<std::int64_t>::max());
    if (completion)
        spec.max_tokens = static_cast<std::uint32_t>(
            std::min<std::int64_t>(*completion, std::numeric_limits<std::int32_t>::max()));
    if (spec.max_tokens && *spec.max_tokens == 0)
        fields.fail("max_tokens", "'max_tokens' must be at least 1");
    parse_chat_logprobs(fields, limits, &spec);
    parse_chat_prompt(fields, &spec.chat);
    settle_other_fields(fields);
    if (!fields.ok()) return fields.error();
    return spec;
}

}  // namespace taproot::gateway
