// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja/template.h"
#include "text/jinja/value.h"

// Messages to prompt text, with the model's own template. How Jinja is read: jinja/README.md.
namespace taproot {

// A run of the rendered prompt. Trusted text is the template's: special tokens may be recognised in
// it. Untrusted text came with the request (contents, names, tool schemas) and is always plain
// text.
struct TextPiece {
    std::string text;
    bool trusted = false;

    friend bool operator==(const TextPiece&, const TextPiece&) = default;
};

// The strings a template may write for special tokens, by the names Hugging Face gives them.
struct ChatTemplateTokens {
    std::string bos_token = {};
    std::string eos_token = {};
    std::vector<std::pair<std::string, std::string>> others = {};  // pad_token, unk_token, ...
};

// What a chat request asks to render. Values come from the request: build their strings with
// Value::user_string (or jinja::parse_json with Origin::kUser).
struct ChatRequest {
    // List of dicts with role, content (string, list of parts or none), and where present name,
    // reasoning_content (or reasoning, thinking), tool_calls, tool_call_id. Known role names become
    // trusted text whoever wrote them.
    jinja::Value messages = jinja::Value::list({});
    jinja::Value tools = jinja::Value::none();            // list, as OpenAI's `tools`
    jinja::Value template_kwargs = jinja::Value::dict();  // enable_thinking, reasoning_effort, ...
    bool add_generation_prompt = true;
    // The last message is left open for the model to go on writing; excludes add_generation_prompt.
    bool continue_final_message = false;
    std::optional<std::tm> now = std::nullopt;  // for strftime_now; absent: local time
};

// What a template can take, found out by rendering small probes when it is compiled.
struct ChatTemplateTraits {
    bool takes_parts = false;          // content may be a list of {type, text}
    bool needs_parts = false;          // ... and a plain string is not shown
    bool takes_null_content = true;    // none beside tool_calls is not printed as "None", no error
    bool wants_argument_text = false;  // tool_calls[].function.arguments: JSON text, not a dict
    // A later turn's prompt begins with the earlier prompt and answer, also when the answer had a
    // <think> block. False: the prefix cache misses from the first rewritten message on.
    bool keeps_history = true;
};

// A chat template, compiled once per model. Immutable; copies share; any number of threads render.
class ChatTemplate {
public:
    // An empty source means default_chat_template(). Errors: kInvalidArgument, where = "line N".
    // Cost: about a millisecond (the probes).
    static Result<ChatTemplate> compile(const std::string& source,
                                        const ChatTemplateTokens& tokens);

    // Pieces in order, neighbours differ in `trusted`, none is empty. Before rendering, what
    // differs between the API and the template is adapted: tool-call arguments given as JSON text
    // become dicts where the template wants them (invalid JSON stays text), an empty tool_calls or
    // tools is as if absent, reasoning_content is also found as reasoning and thinking, parts and
    // none contents become what the template takes. Errors: kInvalidArgument where the template
    // refuses (message = its own words) or fails, with where = "messages" or
    // "chat_template_kwargs"; kTooLarge when a limit of the engine is reached. Cost: about 0.1 us
    // per expression, three copies of each content byte.
    [[nodiscard]] Result<std::vector<TextPiece>> render(const ChatRequest& request) const;

    [[nodiscard]] const ChatTemplateTraits& traits() const { return traits_; }

private:
    explicit ChatTemplate(jinja::Template parsed) : template_(std::move(parsed)) {}

    [[nodiscard]] Result<jinja::Value> make_context(const ChatRequest& request, bool adapt) const;
    [[nodiscard]] Result<jinja::Text> render_text(const ChatRequest& request, bool adapt) const;
    [[nodiscard]] Result<jinja::Text> render_open(const ChatRequest& request) const;

    jinja::Template template_;
    std::vector<std::pair<std::string, jinja::Value>> special_tokens_;
    ChatTemplateTraits traits_;
};

// ChatML, for models that bring no template.
std::string_view default_chat_template();

}  // namespace taproot
