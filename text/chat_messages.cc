// SPDX-License-Identifier: Apache-2.0
#include "text/chat_messages.h"

#include <algorithm>
#include <array>

#include "text/jinja/json.h"

namespace taproot {

using jinja::Text;
using jinja::Value;
namespace {

constexpr std::array<std::string_view, 6> kRoles = {"system", "user",      "assistant",
                                                    "tool",   "developer", "function"};
constexpr std::array<std::string_view, 3> kReasoningNames = {"reasoning_content", "reasoning",
                                                             "thinking"};

bool is_known_role(const Value& role) {
    return role.is_string() && std::find(kRoles.begin(), kRoles.end(), role.view()) != kRoles.end();
}

bool is_empty_list(const Value& value) {
    return value.is_list() && value.list_data().size() == 0;
}

// A dict that is copied when something in it changes, and only then.
class Draft {
public:
    explicit Draft(const Value& original) : value_(original) {}

    void set(std::string_view key, Value value) {
        copy();
        value_.dict_data().set(Value::template_string(std::string(key)), std::move(value));
    }
    void erase(std::string_view key) {
        copy();
        jinja::DictData& dict = value_.dict_data();
        dict.erase(dict.position(Value::template_string(std::string(key))));
    }
    [[nodiscard]] const Value* find(std::string_view key) const { return value_.find(key); }
    [[nodiscard]] bool changed() const { return changed_; }
    [[nodiscard]] const Value& value() const { return value_; }

private:
    void copy() {
        if (!changed_) value_ = Value::dict(value_.dict_data().entries);
        changed_ = true;
    }

    Value value_;
    bool changed_ = false;
};

Value adapt_arguments(const Value& arguments, bool wants_text) {
    if (wants_text && arguments.is_dict()) {
        return Value::string(jinja::dump_json(arguments, jinja::JsonFormat{}));
    }
    if (!wants_text && arguments.is_string()) {
        Result<Value> parsed =
            jinja::parse_json(arguments.view(), arguments.text().blended_origin());
        if (parsed && parsed->is_dict()) return std::move(parsed).value();
    }
    return arguments;
}

// One tool call; arguments stand in `function`, or beside the name in older forms.
Value adapt_tool_call(const Value& call, bool wants_text) {
    if (!call.is_dict()) return call;
    Draft draft(call);
    if (const Value* arguments = call.find("arguments")) {
        Value adapted = adapt_arguments(*arguments, wants_text);
        if (adapted.kind() != arguments->kind()) draft.set("arguments", std::move(adapted));
    }
    const Value* function = call.find("function");
    if (function != nullptr && function->is_dict()) {
        Value adapted = adapt_tool_call(*function, wants_text);
        if (adapted.identity() != function->identity()) draft.set("function", std::move(adapted));
    }
    return draft.value();
}

void adapt_tool_calls(Draft& message, bool wants_text) {
    const Value* calls = message.find("tool_calls");
    if (calls == nullptr) return;
    if (calls->is_none() || is_empty_list(*calls)) {
        message.erase("tool_calls");
        return;
    }
    if (!calls->is_list()) return;
    std::vector<Value> adapted;
    bool changed = false;
    for (const Value& call : calls->list_data().items) {
        adapted.push_back(adapt_tool_call(call, wants_text));
        changed |= adapted.back().identity() != call.identity();
    }
    if (changed) message.set("tool_calls", Value::list(std::move(adapted)));
}

void adapt_reasoning(Draft& message) {
    const Value* known = nullptr;
    for (const std::string_view name : kReasoningNames) {
        if (known == nullptr || known->is_none()) known = message.find(name);
    }
    if (known == nullptr || known->is_none()) return;
    const Value reasoning = *known;
    for (const std::string_view name : kReasoningNames) {
        const Value* present = message.find(name);
        if (present == nullptr || present->is_none()) message.set(name, reasoning);
    }
}

bool has_only_text(const Value& parts) {
    const auto& items = parts.list_data().items;
    return std::all_of(items.begin(), items.end(), [](const Value& part) {
        const Value* text = part.find("text");
        return part.is_string() || (text != nullptr && text->is_string());
    });
}

void adapt_content(Draft& message, const ChatTemplateTraits& traits) {
    const Value* content = message.find("content");
    if (content == nullptr || content->is_none()) {
        const Value* role = message.find("role");
        const bool assistant = role != nullptr && role->is_string() && role->view() == "assistant";
        if (assistant && !traits.takes_null_content)
            message.set("content", Value::template_string(""));
        return;
    }
    if (content->is_list() && !traits.takes_parts && has_only_text(*content)) {
        message.set("content", Value::string(content_text(*content)));
    } else if (content->is_string() && traits.needs_parts) {
        Value part = Value::dict();
        part.set("type", Value::template_string("text"));
        part.set("text", *content);
        message.set("content", Value::list({std::move(part)}));
    }
}

Value adapt_message(const Value& message, const ChatTemplateTraits& traits) {
    if (!message.is_dict()) return message;
    Draft draft(message);
    const Value* role = message.find("role");
    if (role != nullptr && is_known_role(*role) && role->text().has_user_bytes()) {
        draft.set("role", Value::template_string(role->text().bytes()));
    }
    adapt_tool_calls(draft, traits.wants_argument_text);
    adapt_reasoning(draft);
    adapt_content(draft, traits);
    return draft.value();
}

}  // namespace

Text content_text(const Value& content) {
    if (content.is_string()) return content.text();
    Text text;
    if (!content.is_list()) return text;
    bool first = true;
    for (const Value& part : content.list_data().items) {
        const Value* piece = part.is_string() ? &part : part.find("text");
        if (piece == nullptr || !piece->is_string()) continue;
        if (!first) text.append("\n", jinja::Origin::kUser);
        first = false;
        text.append(piece->text());
    }
    return text;
}

Value adapt_messages(const Value& messages, const ChatTemplateTraits& traits) {
    if (!messages.is_list()) return messages;
    std::vector<Value> adapted;
    adapted.reserve(messages.list_data().items.size());
    bool changed = false;
    for (const Value& message : messages.list_data().items) {
        adapted.push_back(adapt_message(message, traits));
        changed |= adapted.back().identity() != message.identity();
    }
    return changed ? Value::list(std::move(adapted)) : messages;
}

}  // namespace taproot
