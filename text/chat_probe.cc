// SPDX-License-Identifier: Apache-2.0
#include "text/chat_probe.h"

#include <optional>

namespace taproot {

using jinja::Text;
using jinja::Value;
namespace {

constexpr const char* kNeedle = "taproot-needle";

Value text(const char* bytes) {
    return Value::user_string(bytes);
}

Value message(const char* role, Value content) {
    Value out = Value::dict();
    out.set("role", Value::template_string(role));
    out.set("content", std::move(content));
    return out;
}

Value parts(const char* bytes) {
    Value part = Value::dict();
    part.set("type", text("text"));
    part.set("text", text(bytes));
    return Value::list({std::move(part)});
}

// user, assistant with one tool call, tool. The id is what Mistral's templates insist on.
Value tool_conversation(Value content, Value arguments) {
    Value function = Value::dict();
    function.set("name", text("look"));
    function.set("arguments", std::move(arguments));
    Value call = Value::dict();
    call.set("id", text("abcdefghi"));
    call.set("type", text("function"));
    call.set("function", std::move(function));
    Value assistant = message("assistant", std::move(content));
    assistant.set("tool_calls", Value::list({std::move(call)}));
    Value result = message("tool", text("seen"));
    result.set("name", text("look"));
    result.set("tool_call_id", text("abcdefghi"));
    return Value::list({message("user", text("hi")), std::move(assistant), std::move(result)});
}

class Prober {
public:
    explicit Prober(const std::function<Result<Text>(const ChatRequest&)>& render)
        : render_(render) {}

    ChatTemplateTraits run() {
        ChatTemplateTraits traits;
        probe_parts(traits);
        probe_arguments(traits);
        probe_null_content(traits);
        traits.keeps_history = keeps("an answer") && keeps("<think>\nwhy\n</think>\n\nan answer");
        return traits;
    }

private:
    std::optional<std::string> prompt(Value messages, bool generation = true) {
        ChatRequest request;
        request.messages = std::move(messages);
        request.add_generation_prompt = generation;
        request.now = std::tm{};
        request.now->tm_mday = 1;
        request.now->tm_year = 100;
        Result<Text> rendered = render_(request);
        if (!rendered) return std::nullopt;
        return rendered->bytes();
    }

    static bool shows(const std::optional<std::string>& rendered, std::string_view wanted) {
        return rendered && rendered->find(wanted) != std::string::npos;
    }

    void probe_parts(ChatTemplateTraits& traits) {
        const auto as_text = prompt(Value::list({message("user", text(kNeedle))}));
        const auto as_parts = prompt(Value::list({message("user", parts(kNeedle))}));
        // A list printed as Python or JSON would is not understood.
        const bool printed = shows(as_parts, "'text'") || shows(as_parts, "\"text\"");
        traits.takes_parts = shows(as_parts, kNeedle) && !printed;
        traits.needs_parts = traits.takes_parts && !shows(as_text, kNeedle);
    }

    void probe_arguments(ChatTemplateTraits& traits) {
        Value dict = Value::dict();
        dict.set_user(kNeedle, Value::integer(1));
        const auto with_dict = prompt(tool_conversation(text(""), dict));
        const auto with_text = prompt(tool_conversation(text(""), text("{\"taproot-needle\": 1}")));
        const bool dict_works = shows(with_dict, kNeedle) && !shows(with_dict, "{'taproot-needle'");
        traits.wants_argument_text = !dict_works && shows(with_text, "{\"taproot-needle\": 1}");
    }

    void probe_null_content(ChatTemplateTraits& traits) {
        Value dict = Value::dict();
        dict.set_user(kNeedle, Value::integer(1));
        const Value arguments = traits.wants_argument_text ? text("{\"taproot-needle\": 1}") : dict;
        const auto with_empty = prompt(tool_conversation(text(""), arguments));
        const auto with_null = prompt(tool_conversation(Value::none(), arguments));
        if (!with_empty) return;
        traits.takes_null_content =
            with_null && (!shows(with_null, "None") || shows(with_empty, "None"));
    }

    bool keeps(const char* answer) {
        const Value question = message("user", text("a question"));
        const auto before = prompt(Value::list({question}));
        const auto after = prompt(Value::list(
            {question, message("assistant", text(answer)), message("user", text("another"))}));
        if (!before || !after) return true;  // the template does not tell
        return after->starts_with(*before + answer);
    }

    const std::function<Result<Text>(const ChatRequest&)>& render_;
};

}  // namespace

ChatTemplateTraits probe_traits(const std::function<Result<Text>(const ChatRequest&)>& render) {
    return Prober(render).run();
}

}  // namespace taproot
