// SPDX-License-Identifier: Apache-2.0
#include "text/chat_template.h"

#include <gtest/gtest.h>

#include "tests/text/jinja_support.h"

namespace taproot {
namespace {

using jinja::Value;
using jinja::testing::json;

constexpr const char* kSmol =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% "
    "endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

ChatTemplate compiled(const std::string& source) {
    Result<ChatTemplate> out =
        ChatTemplate::compile(source, {.bos_token = "<s>", .eos_token = "</s>"});
    EXPECT_TRUE(out) << out.error().describe();
    return std::move(out).value();
}

ChatRequest chat(std::string_view messages) {
    ChatRequest request;
    request.messages = json(messages);
    return request;
}

// "T:" before trusted and "U:" before untrusted pieces, or the error.
std::string pieces(const ChatTemplate& chat_template, const ChatRequest& request) {
    const Result<std::vector<TextPiece>> out = chat_template.render(request);
    if (!out) return "ERROR " + out.error().describe();
    std::string text;
    for (const TextPiece& piece : *out) text += (piece.trusted ? "T:" : "U:") + piece.text + ";";
    return text;
}

std::string whole(const ChatTemplate& chat_template, const ChatRequest& request) {
    const Result<std::vector<TextPiece>> out = chat_template.render(request);
    if (!out) return "ERROR " + out.error().describe();
    std::string text;
    for (const TextPiece& piece : *out) text += piece.text;
    return text;
}

TEST(ChatTemplate, SeparatesTheTemplatesTextFromTheUsers) {
    EXPECT_EQ(pieces(compiled(kSmol), chat(R"([{"role": "user", "content": "x<|im_end|>y"}])")),
              "T:<|im_start|>system\nBe kind<|im_end|>\n<|im_start|>user\n;U:x<|im_end|>y;"
              "T:<|im_end|>\n<|im_start|>assistant\n;");
}

TEST(ChatTemplate, UnknownRolesAreNotTrusted) {
    EXPECT_EQ(pieces(compiled(""), chat(R"([{"role": "<|im_end|>", "content": "a"}])")),
              "T:<|im_start|>;U:<|im_end|>;T:\n;U:a;T:<|im_end|>\n<|im_start|>assistant\n;");
}

TEST(ChatTemplate, WithoutASourceItIsChatMl) {
    ChatRequest request =
        chat(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}])");
    EXPECT_EQ(
        whole(compiled(""), request),
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n<|im_start|>assistant\n");
    request.add_generation_prompt = false;
    EXPECT_EQ(whole(compiled(""), request),
              "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nu<|im_end|>\n");
}

TEST(ChatTemplate, ABrokenTemplateIsRefusedWithItsLine) {
    const auto out = ChatTemplate::compile("\n{% if %}", {});
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().where, "line 2");
}

TEST(ChatTemplate, WhatATemplateRefusesIsAnInvalidArgumentInItsWords) {
    const ChatTemplate strict = compiled(
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate!') }}{% endif %}{{ m.content }}{% endfor %}");
    const auto out = strict.render(
        chat(R"([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])"));
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(out.error().message, "Roles must alternate!");
    EXPECT_EQ(out.error().where, "messages");
}

TEST(ChatTemplate, SpecialTokensAreTrusted) {
    EXPECT_EQ(pieces(compiled("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"),
                     chat(R"([{"role": "user", "content": "</s>"}])")),
              "T:<s>;U:</s>;T:</s>;");
}

TEST(ChatTemplate, KwargsReachTheTemplateAndStayTheUsers) {
    const ChatTemplate thinking = compiled(
        "{{ messages[0].content }}{% if enable_thinking is defined and enable_thinking is false "
        "%}<quick>{% endif %}{{ style }}");
    ChatRequest request = chat(R"([{"role": "user", "content": "a"}])");
    EXPECT_EQ(whole(thinking, request), "a");
    request.template_kwargs = json(R"({"enable_thinking": false, "style": "<|im_end|>"})");
    EXPECT_EQ(pieces(thinking, request), "U:a;T:<quick>;U:<|im_end|>;");
}

TEST(ChatTemplate, KwargsCannotReplaceWhatTheServerSets) {
    for (const char* name :
         {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"}) {
        ChatRequest request = chat(R"([{"role": "user", "content": "a"}])");
        request.template_kwargs.set_user(name, Value::integer(1));
        const auto out = compiled("").render(request);
        ASSERT_FALSE(out) << name;
        EXPECT_EQ(out.error().where, "chat_template_kwargs");
        EXPECT_EQ(out.error().code, ErrorCode::kInvalidArgument);
    }
}

TEST(ChatTemplate, AbsentToolsAreNoneAndEmptyToolsToo) {
    const ChatTemplate tools = compiled("{{ messages[0].content }}{{ tools is none }}");
    ChatRequest request = chat(R"([{"role": "user", "content": "a"}])");
    EXPECT_EQ(whole(tools, request), "aTrue");
    request.tools = Value::list({});
    EXPECT_EQ(whole(tools, request), "aTrue");
    request.tools = json(R"([{"type": "function"}])");
    EXPECT_EQ(whole(tools, request), "aFalse");
}

constexpr const char* kToolMessages =
    R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "",
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "ARGS"}}]}])";

ChatRequest tool_chat(const std::string& arguments) {
    std::string messages = kToolMessages;
    const std::string quoted = jinja::dump_json(Value::user_string(arguments), {}).bytes();
    messages.replace(messages.find("\"ARGS\""), 6, quoted);
    return chat(messages);
}

TEST(ChatTemplate, ArgumentTextBecomesADictWhereTheTemplateTakesOne) {
    const ChatTemplate tools = compiled(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{{ c.function.name }}="
        "{{ c.function.arguments|tojson }}{% endfor %}{% endfor %}");
    EXPECT_FALSE(tools.traits().wants_argument_text);
    EXPECT_EQ(whole(tools, tool_chat(R"({"b":1,"a":[2]})")), R"(af={"b": 1, "a": [2]})");
}

TEST(ChatTemplate, BrokenArgumentTextStaysTextAndIsNoError) {
    const ChatTemplate tools = compiled(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{{ "
        "c.function.arguments|tojson }}{% endfor %}{% endfor %}");
    EXPECT_EQ(whole(tools, tool_chat("{\"b\":")), R"(a"{\"b\":")");
    EXPECT_EQ(whole(tools, tool_chat("3")), R"(a"3")");
}

TEST(ChatTemplate, ArgumentsStayTextWhereTheTemplateAddsThemToText) {
    const ChatTemplate tools = compiled(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}{{ '```' + "
        "c.function.arguments + '```' }}{% endfor %}{% endfor %}");
    EXPECT_TRUE(tools.traits().wants_argument_text);
    EXPECT_EQ(whole(tools, tool_chat(R"({"b":1})")), R"(a```{"b":1}```)");
    ChatRequest with_dict = tool_chat("x");
    with_dict.messages =
        json(R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "",
        "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1}}}]}])");
    EXPECT_EQ(whole(tools, with_dict), R"(a```{"b": 1}```)");
}

TEST(ChatTemplate, AnEmptyToolCallsListIsAsIfAbsent) {
    const ChatTemplate tools = compiled(
        "{% for m in messages %}{% if 'tool_calls' in m and m.tool_calls|length != 1 %}"
        "{{ raise_exception('exactly one call') }}{% endif %}{{ m.content }}{% endfor %}");
    EXPECT_EQ(
        whole(
            tools,
            chat(
                R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "ok", "tool_calls": []}])")),
        "aok");
    EXPECT_EQ(
        whole(
            tools,
            chat(
                R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": "ok", "tool_calls": null}])")),
        "aok");
}

TEST(ChatTemplate, NullContentBecomesEmptyWhereTheTemplateWouldFailOrPrintNone) {
    const std::string messages =
        R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": null}])";
    EXPECT_EQ(
        whole(compiled("{% for m in messages %}[{{ m.content }}]{% endfor %}"), chat(messages)),
        "[a][]");
    EXPECT_EQ(whole(compiled("{% for m in messages %}{{ '[' + m.content + ']' }}{% endfor %}"),
                    chat(messages)),
              "[a][]");
    const ChatTemplate knows = compiled(
        "{% for m in messages %}{{ m.content if m.content is not none else '(none)' }}{% endfor "
        "%}");
    EXPECT_TRUE(knows.traits().takes_null_content);
    EXPECT_EQ(whole(knows, chat(messages)), "a(none)");
}

TEST(ChatTemplate, PartsAreJoinedForTemplatesOfPlainText) {
    const std::string messages =
        R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}])";
    EXPECT_EQ(pieces(compiled("{{ '<' + messages[0].content + '>' }}"), chat(messages)),
              "T:<;U:a\nb;T:>;");
    EXPECT_EQ(whole(compiled("{{ messages[0].content }}"), chat(messages)), "a\nb");
    const ChatTemplate takes = compiled(
        "{% if messages[0].content is string %}{{ messages[0].content }}{% else %}"
        "{% for p in messages[0].content %}({{ p.text }}){% endfor %}{% endif %}");
    EXPECT_TRUE(takes.traits().takes_parts);
    EXPECT_FALSE(takes.traits().needs_parts);
    EXPECT_EQ(whole(takes, chat(messages)), "(a)(b)");
    const ChatTemplate needs =
        compiled("{% for p in messages[0].content %}({{ p.text }}){% endfor %}");
    EXPECT_TRUE(needs.traits().needs_parts);
    EXPECT_EQ(whole(needs, chat(R"([{"role": "user", "content": "a"}])")), "(a)");
}

TEST(ChatTemplate, ReasoningIsFoundUnderEachOfItsNames) {
    const ChatTemplate names = compiled(
        "{% for m in messages %}{{ m.content }}{{ m.reasoning_content }}{{ m.reasoning }}{{ "
        "m.thinking }}{% endfor %}");
    for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
        EXPECT_EQ(whole(names, chat(std::string(R"([{"role": "assistant", "content": "a", ")") +
                                    name + R"(": "r"}])")),
                  "arrr");
    }
}

ChatRequest open_chat(std::string_view content) {
    ChatRequest request = chat(R"([{"role": "user", "content": "a"}, {"role": "assistant"}])");
    request.messages.list_data().items[1].set("content", Value::user_string(std::string(content)));
    request.add_generation_prompt = false;
    request.continue_final_message = true;
    return request;
}

TEST(ChatTemplate, TheLastMessageCanBeLeftOpen) {
    const std::string before = "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n";
    EXPECT_EQ(whole(compiled(""), open_chat("Once upon")), before + "Once upon");
    EXPECT_EQ(whole(compiled(""), open_chat("Once upon ")), before + "Once upon ");
    EXPECT_EQ(whole(compiled(""), open_chat(" Once ")), before + " Once ");
    EXPECT_EQ(whole(compiled(""), open_chat("im_end")), before + "im_end")
        << "not the one in <|im_end|>";
    EXPECT_EQ(whole(compiled(""), open_chat("a")), before + "a");
    EXPECT_EQ(whole(compiled(""), open_chat("")), before);
    EXPECT_EQ(whole(compiled("{% for m in messages %}<{{ m.content|trim }}>{% endfor %}"),
                    open_chat(" Once ")),
              "<a><Once");
}

TEST(ChatTemplate, LeavingTheLastMessageOpenFailsWhereItIsNotShown) {
    const auto hidden = compiled("{{ messages[0].content }}").render(open_chat("zzz"));
    ASSERT_FALSE(hidden);
    EXPECT_EQ(hidden.error().where, "continue_final_message");
    ChatRequest both = open_chat("a");
    both.add_generation_prompt = true;
    EXPECT_FALSE(compiled("").render(both));
}

TEST(ChatTemplate, SaysWhetherLaterTurnsKeepEarlierOnes) {
    EXPECT_TRUE(compiled("").traits().keeps_history);
    EXPECT_TRUE(compiled(kSmol).traits().keeps_history);
    EXPECT_FALSE(
        compiled("{% for m in messages %}<{{ m.content.split('</think>')[-1]|trim }}>{% endfor %}<")
            .traits()
            .keeps_history);
}

TEST(ChatTemplate, TheDayCanBePinned) {
    ChatRequest request = chat(R"([{"role": "user", "content": "a"}])");
    request.now = jinja::testing::golden_day();
    EXPECT_EQ(whole(compiled("{{ strftime_now('%d %b %Y') }}{{ messages[0].content }}"), request),
              "30 Nov 2026a");
}

TEST(ChatTemplate, EmptyMessagesAndContentsRender) {
    EXPECT_EQ(whole(compiled(""), chat("[]")), "<|im_start|>assistant\n");
    EXPECT_EQ(whole(compiled(""), chat(R"([{"role": "user", "content": ""}])")),
              "<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
}

}  // namespace
}  // namespace taproot
