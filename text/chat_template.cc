// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <algorithm>
#include <array>

#include "text/chat_messages.h"
#include "text/chat_probe.h"
#include "text/jinja/search.h"
#include "text/jinja/unicode.h"

namespace taproot {
namespace {

// Variables that belong to the server: a request's template_kwargs may not replace them.
constexpr std::array<std::string_view, 4> kReserved = {"messages", "tools", "add_generation_prompt",
                                                       "continue_final_message"};

std::vector<TextPiece> to_pieces(const jinja::Text& text) {
    std::vector<TextPiece> pieces;
    text.for_each_run([&pieces](std::string_view run, jinja::Origin origin) {
        pieces.push_back({std::string(run), origin == jinja::Origin::kTemplate});
    });
    return pieces;
}

// The last place of `wanted`, preferably where a user's text stands: "end" must not be found inside
// of <|im_end|>.
std::size_t find_message(const jinja::Text& rendered, std::string_view wanted) {
    std::size_t last = std::string_view::npos;
    std::size_t last_by_user = std::string_view::npos;
    for (std::size_t at = jinja::find_bytes(rendered.view(), wanted, 0);
         at != std::string_view::npos;
         at = jinja::find_bytes(rendered.view(), wanted, at + wanted.size())) {
        last = at;
        if (rendered.is_user_range(at, at + wanted.size())) last_by_user = at;
    }
    return last_by_user != std::string_view::npos ? last_by_user : last;
}

const jinja::Value* final_content(const jinja::Value& messages) {
    if (!messages.is_list() || messages.list_data().items.empty()) return nullptr;
    return messages.list_data().items.back().find("content");
}

// The text that continue_final_message leaves open: the string, or the last text part.
std::optional<std::string_view> open_text(const jinja::Value* content) {
    if (content == nullptr) return std::nullopt;
    if (content->is_string()) return content->view();
    if (!content->is_list()) return std::nullopt;
    const auto& parts = content->list_data().items;
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
        const jinja::Value* text = part->find("text");
        if (text != nullptr && text->is_string()) return text->view();
    }
    return std::nullopt;
}

jinja::Value with_final_content(const jinja::Value& messages, std::string content) {
    std::vector<jinja::Value> items = messages.list_data().items;
    jinja::Value last = jinja::Value::dict(items.back().dict_data().entries);
    last.set("content", jinja::Value::user_string(std::move(content)));
    items.back() = std::move(last);
    return jinja::Value::list(std::move(items));
}

}  // namespace

std::string_view default_chat_template() {
    return "{% for message in messages %}"
           "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' "
           "}}"
           "{% endfor %}"
           "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
}

Result<ChatTemplate> ChatTemplate::compile(const std::string& source,
                                           const ChatTemplateTokens& tokens) {
    TAPROOT_TRY(jinja::Template parsed,
                jinja::Template::parse(source.empty() ? default_chat_template()
                                                      : std::string_view(source)));
    ChatTemplate out(std::move(parsed));
    const auto add = [&out](const std::string& name, const std::string& text) {
        out.special_tokens_.emplace_back(name, jinja::Value::template_string(text));
    };
    add("bos_token", tokens.bos_token);
    add("eos_token", tokens.eos_token);
    for (const auto& [name, text] : tokens.others) add(name, text);
    out.traits_ = probe_traits(
        [&out](const ChatRequest& request) { return out.render_text(request, false); });
    return out;
}

Result<jinja::Value> ChatTemplate::make_context(const ChatRequest& request, bool adapt) const {
    jinja::Value context = jinja::Value::dict();
    context.set("messages", adapt ? adapt_messages(request.messages, traits_) : request.messages);
    const bool has_tools = request.tools.is_list() && request.tools.list_data().size() > 0;
    context.set("tools", has_tools ? request.tools : jinja::Value::none());
    context.set("documents", jinja::Value::none());
    context.set("add_generation_prompt", jinja::Value::boolean(request.add_generation_prompt));
    for (const auto& [name, text] : special_tokens_) context.set(name, text);
    if (!request.template_kwargs.is_dict()) return context;
    for (const auto& [key, value] : request.template_kwargs.dict_data().entries) {
        if (!key.is_string())
            return invalid_argument("names must be strings", "chat_template_kwargs");
        const std::string name(key.view());
        bool reserved = std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
        for (const auto& [token, text] : special_tokens_) reserved |= name == token;
        if (reserved) {
            return invalid_argument("'" + name + "' cannot be set by a request",
                                    "chat_template_kwargs");
        }
        context.set(name, value);
    }
    return context;
}

Result<jinja::Text> ChatTemplate::render_text(const ChatRequest& request, bool adapt) const {
    TAPROOT_TRY(jinja::Value context, make_context(request, adapt));
    jinja::RenderOptions options;
    if (request.now) options.now = [now = *request.now] { return now; };
    Result<jinja::Text> text = template_.render(context, options);
    if (text) return text;
    Error error = std::move(text).error();
    error.where = "messages";
    return error;
}

// The prompt up to the end of the last message's text, without what the template writes after it.
Result<jinja::Text> ChatTemplate::render_open(const ChatRequest& request) const {
    if (request.add_generation_prompt) {
        return invalid_argument("excludes add_generation_prompt", "continue_final_message");
    }
    const std::optional<std::string_view> text = open_text(final_content(request.messages));
    if (!text)
        return invalid_argument("the last message has no text to continue",
                                "continue_final_message");
    const std::string_view no_left = text->substr(jinja::skip_space_left(*text));
    const std::string_view stripped = no_left.substr(0, jinja::skip_space_right(no_left));
    if (stripped.empty()) {
        // Nothing to search for: a mark shows where the text would begin.
        ChatRequest marked = request;
        const std::string mark = "\xEE\x80\x80taproot-open-message\xEE\x80\x80";
        marked.messages = with_final_content(request.messages, mark);
        TAPROOT_TRY(jinja::Text rendered, render_text(marked, true));
        const std::size_t at = find_message(rendered, mark);
        if (at == std::string_view::npos) {
            return invalid_argument("the chat template does not show the last message",
                                    "continue_final_message");
        }
        return rendered.slice(0, at);
    }
    TAPROOT_TRY(jinja::Text rendered, render_text(request, true));
    const std::size_t at = find_message(rendered, stripped);
    if (at == std::string_view::npos) {
        return invalid_argument("the chat template does not show the last message as it was given",
                                "continue_final_message");
    }
    // Blanks at the end stay where the template kept them.
    const bool kept = rendered.view().substr(at, no_left.size()) == no_left;
    return rendered.slice(0, at + (kept ? no_left.size() : stripped.size()));
}

Result<std::vector<TextPiece>> ChatTemplate::render(const ChatRequest& request) const {
    TAPROOT_TRY(jinja::Text text,
                request.continue_final_message ? render_open(request) : render_text(request, true));
    return to_pieces(text);
}

}  // namespace taproot
