// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "gateway/openai/chat.h"
#include "gateway/openai/errors.h"

namespace taproot::gateway {
namespace {

const config::Limits kLimits;

std::string chat_with(const std::string& more) {
    return R"({"messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) +
           "}";
}

// "field: message" of a refused chat body, "" when it was taken.
std::string refused(const std::string& body) {
    auto spec = parse_chat(body, kLimits);
    return spec ? "" : spec.error().where;
}
std::string refused_completion(const std::string& body) {
    auto spec = parse_completions(body, kLimits);
    return spec ? "" : spec.error().where;
}

TEST(ParseChat, FillsInTheDefaultsOfTheApi) {
    auto spec = parse_chat(chat_with(""), kLimits);
    ASSERT_TRUE(spec);
    EXPECT_EQ(spec->sampling.temperature, 1.0f);
    EXPECT_EQ(spec->sampling.top_p, 1.0f);
    EXPECT_EQ(spec->choices, 1);
    EXPECT_FALSE(spec->stream);
    EXPECT_FALSE(spec->max_tokens);
    EXPECT_FALSE(spec->seed_given);
    EXPECT_FALSE(spec->sampling.logprobs);
    EXPECT_TRUE(spec->chat.add_generation_prompt);
}

TEST(ParseChat, AnExplicitNullIsTheSameAsAbsent) {  // B005
    std::string nulls;
    for (const char* name : {"max_tokens",
                             "max_completion_tokens",
                             "stop",
                             "n",
                             "temperature",
                             "top_p",
                             "logit_bias",
                             "seed",
                             "stream",
                             "stream_options",
                             "tools",
                             "tool_choice",
                             "response_format",
                             "logprobs",
                             "top_logprobs",
                             "user",
                             "min_p",
                             "top_k",
                             "frequency_penalty",
                             "presence_penalty"})
        nulls += (nulls.empty() ? "\"" : ",\"") + std::string(name) + "\":null";
    EXPECT_EQ(refused(chat_with(nulls)), "");
}

TEST(ParseChat, NamesTheFieldThatIsOutOfRange) {
    struct Case {
        const char* field;
        std::vector<const char*> bad;
        std::vector<const char*> good;
    };
    // B001, B007, B008, B009, B017
    const std::vector<Case> cases = {
        {"temperature",
         {"-0.1", "2.1", "\"1\"", "[]", "true", "1e308"},
         {"0", "2", "1", "0.5", "1e-30", "5e-324"}},
        {"top_p", {"0", "-1", "1.01", "\"x\""}, {"1", "0.1", "1e-300"}},
        {"min_p", {"-0.1", "1.1", "{}"}, {"0", "1"}},
        {"top_k",
         {"-2", "1.5", "\"5\"", "1e30", "[]", "true", "-2147483648", "9223372036854775807"},
         {"-1", "0", "40", "2147483647"}},
        {"presence_penalty", {"-2.1", "2.1"}, {"-2", "2"}},
        {"frequency_penalty", {"-2.1", "2.1"}, {"-2", "2"}},
        {"repetition_penalty", {"0", "-1", "101"}, {"1", "0.5", "2"}},
        {"n", {"0", "-1", "17", "5000000", "1.5", "\"2\""}, {"1", "16", "2.0"}},
        {"max_tokens",
         {"0", "-1", "1.5", "\"5\"", "1e30"},
         {"1", "2147483647", "9007199254740993"}},
        {"max_completion_tokens", {"0", "-5", "{}"}, {"1"}},
        {"min_tokens", {"-1", "2.5", "1e30"}, {"0", "3"}},
        {"seed",
         {"1.5", "\"x\"", "1e30", "[]", "18446744073709551615"},
         {"0", "-9223372036854775808", "9223372036854775807"}},
        {"priority", {"2147483648", "1.5", "\"1\""}, {"0", "-5"}},
        {"stop", {"\"\"", "[\"\"]", "[1]", "5", "{}"}, {"\"a\"", "[\"a\",\"b\"]", "[]"}},
        {"logit_bias",
         {"{\"-1\":5}", "{\"4294967296\":1}", "{\"abc\":1}", "{\"5\":1000}", "{\"5\":null}", "[]",
          "{\"\":1}", "{\"5\":1,\"05\":2}"},
         {"{\"5\":-100}", "{\"5\":100}", "{}"}},
        {"stream", {"1", "\"true\""}, {"true", "false"}},
        {"ignore_eos", {"1", "\"x\""}, {"true"}},
        {"stop_token_ids", {"[-1]", "[1.5]", "5", "[\"1\"]"}, {"[]", "[3]"}},
        {"cache_salt", {"1"}, {"\"tenant\""}},
        {"logprobs", {"1", "\"x\""}, {"true", "false"}},
    };
    for (const Case& c : cases) {
        for (const char* value : c.bad)
            EXPECT_EQ(refused(chat_with("\"" + std::string(c.field) + "\":" + value)), c.field)
                << value;
        for (const char* value : c.good)
            EXPECT_EQ(refused(chat_with("\"" + std::string(c.field) + "\":" + value)), "")
                << c.field << " " << value;
    }
}

TEST(ParseChat, BoundsListsBeforeItLooksAtThem) {  // B008
    std::string many = "\"stop\":[";
    for (int i = 0; i < 17; ++i) many += i == 0 ? "\"x\"" : ",\"x\"";
    EXPECT_EQ(refused(chat_with(many + "]")), "stop");
    EXPECT_EQ(refused(chat_with("\"stop\":\"" + std::string(257, 'x') + "\"")), "stop");
    EXPECT_EQ(refused(chat_with("\"stop\":\"" + std::string(256, 'x') + "\"")), "");
    std::string bias = "\"logit_bias\":{";
    for (int i = 0; i < 1025; ++i) bias += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":1";
    EXPECT_EQ(refused(chat_with(bias + "}")), "logit_bias");
}

TEST(ParseChat, OneStopStringAndAListOfOneAreTheSame) {  // B014, B016
    auto one = parse_chat(chat_with("\"stop\":\"STOP\""), kLimits);
    auto list = parse_chat(chat_with("\"stop\":[\"STOP\"]"), kLimits);
    ASSERT_TRUE(one && list);
    EXPECT_EQ(one->stop, list->stop);
    auto none = parse_chat(chat_with("\"stop\":[]"), kLimits);
    ASSERT_TRUE(none);
    EXPECT_TRUE(none->stop.empty());
}

TEST(ParseChat, LogprobsNeedTheirSwitch) {  // B009
    EXPECT_EQ(refused(chat_with(R"("top_logprobs":3)")), "top_logprobs");
    EXPECT_EQ(refused(chat_with(R"("logprobs":true,"top_logprobs":21)")), "top_logprobs");
    EXPECT_EQ(refused(chat_with(R"("logprobs":true,"top_logprobs":-1)")), "top_logprobs");
    EXPECT_EQ(refused(chat_with(R"("logprobs":true,"top_logprobs":1000000000)")), "top_logprobs");
    EXPECT_EQ(refused(chat_with(R"("logprobs":true,"top_logprobs":20)")), "");
    EXPECT_EQ(refused(chat_with(R"("logprobs":true,"top_logprobs":0)")), "");
}

TEST(ParseChat, StreamOptionsNeedAStream) {  // B036
    EXPECT_EQ(refused(chat_with(R"("stream_options":{"include_usage":true})")), "stream_options");
    EXPECT_EQ(refused(chat_with(R"("stream":true,"stream_options":{"include_usage":1})")),
              "stream_options");
    auto spec =
        parse_chat(chat_with(R"("stream":true,"stream_options":{"include_usage":true})"), kLimits);
    ASSERT_TRUE(spec);
    EXPECT_TRUE(spec->include_usage);
}

TEST(ParseChat, NamesTheMessageAtFault) {  // B046
    auto where = [](const std::string& messages) {
        return refused("{\"messages\":" + messages + "}");
    };
    EXPECT_EQ(where(R"({"role":"user","content":"hi"})"), "messages");
    EXPECT_EQ(where("[]"), "messages");
    EXPECT_EQ(refused("{}"), "messages");
    EXPECT_EQ(where("[1]"), "messages[0]");
    EXPECT_EQ(where(R"([{"content":"hi"}])"), "messages[0].role");
    EXPECT_EQ(where(R"([{"role":"wizard","content":"hi"}])"), "messages[0].role");
    EXPECT_EQ(where(R"([{"role":"user"}])"), "messages[0].content");
    EXPECT_EQ(where(R"([{"role":"user","content":123}])"), "messages[0].content");
    EXPECT_EQ(where(R"([{"role":"user","content":[{"type":"text"}]}])"), "messages[0].content");
    EXPECT_EQ(where(R"([{"role":"user","content":[{"type":"hologram"}]}])"), "messages[0].content");
    EXPECT_EQ(where(R"([{"role":"user","content":"a"},{"role":"user","content":[5]}])"),
              "messages[1].content");
    EXPECT_EQ(where(R"([{"role":"user","content":""}])"), "");  // B084: an empty text is a text
    EXPECT_EQ(
        where(
            R"([{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{not json"}}]}])"),
        "");
}

TEST(ParseChat, TextPartsBecomeOneText) {
    auto spec = parse_chat(
        R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]})",
        kLimits);
    ASSERT_TRUE(spec);
    EXPECT_EQ(spec->chat.messages.list_data().items[0].find("content")->view(), "a\nb");
}

TEST(ParseChat, RefusesWhatWouldChangeTheTextAndIgnoresTheRest) {  // B021, B087
    for (const char* field :
         {R"("tools":[{"type":"function"}])", R"("tool_choice":"required")",
          R"("response_format":{"type":"json_schema","json_schema":{}})",
          R"("response_format":{"type":"json_object"})", R"("response_format":"text")",
          R"("guided_json":{})", R"("guided_regex":"((((")",
          R"("structured_outputs":{"regex":"a"})", R"("modalities":["audio"])",
          R"("use_beam_search":true)", R"("bad_words":["x"])", R"("truncate_prompt_tokens":5)",
          R"("mirostat":2)", R"("n_keep":-1)"}) {
        std::string name = std::string(field).substr(1, std::string(field).find('"', 1) - 1);
        EXPECT_EQ(refused(chat_with(field)), name);
    }
    for (const char* field :
         {R"("response_format":{"type":"text"})", R"("tool_choice":"none")", R"("store":true)",
          R"("metadata":{"a":"b"})", R"("service_tier":"auto")", R"("parallel_tool_calls":true)",
          R"("user":"me")", R"("cache_prompt":true)", R"("use_beam_search":false)",
          R"("whatever":{"deep":[1]})"})
        EXPECT_EQ(refused(chat_with(field)), "") << field;
}

TEST(ParseChat, ContinuingAMessageNeedsOneOfTheAssistant) {
    EXPECT_EQ(refused(chat_with(R"("continue_final_message":true)")), "continue_final_message");
    EXPECT_EQ(
        refused(
            R"({"messages":[{"role":"assistant","content":"so"}],"continue_final_message":true})"),
        "");
    EXPECT_EQ(
        refused(
            R"({"messages":[{"role":"assistant","content":"so"}],"continue_final_message":true,"add_generation_prompt":true})"),
        "continue_final_message");
}

TEST(ParseChat, AnErrorIsShortWhateverTheInput) {  // B079, B047
    std::string body = "{\"messages\":[";
    for (int i = 0; i < 12000; ++i)
        body += (i == 0 ? "" : ",") + std::string(R"({"role":7,"content":"some long text here"})");
    auto spec = parse_chat(body + "]}", kLimits);
    ASSERT_FALSE(spec);
    EXPECT_LT(error_body(to_api_error(spec.error())).size(), 4096u);
    spec = parse_chat(chat_with("\"logit_bias\":{\"" + std::string(60000, 'x') + "\":1}"), kLimits);
    ASSERT_FALSE(spec);
    EXPECT_LT(error_body(to_api_error(spec.error())).size(), 1024u);
}

TEST(ParseCompletions, TakesTheFourFormsOfAPrompt) {
    auto count = [](const std::string& prompt) -> int {
        auto spec = parse_completions("{\"prompt\":" + prompt + "}", kLimits);
        return spec ? static_cast<int>(spec->prompts.size()) : -1;
    };
    EXPECT_EQ(count("\"a\""), 1);
    EXPECT_EQ(count("[\"a\",\"b\"]"), 2);
    EXPECT_EQ(count("[1,2,3]"), 1);
    EXPECT_EQ(count("[[1,2],[3]]"), 2);
}

TEST(ParseCompletions, RefusesPromptsThatAreNone) {  // B010, B011, B085
    for (const char* prompt : {"[[-1]]", "[-1]", "[[1],[\"x\"]]", "[1.5]", "[]", "[[]]", "5", "{}",
                               "[1,\"a\"]", "\"\"", "[\"\"]", "[2147483648]", "null"})
        EXPECT_EQ(refused_completion("{\"prompt\":" + std::string(prompt) + "}"), "prompt")
            << prompt;
    EXPECT_EQ(refused_completion("{}"), "prompt");
    std::string many = "[";
    for (int i = 0; i < 129; ++i) many += i == 0 ? "\"a\"" : ",\"a\"";
    EXPECT_EQ(refused_completion("{\"prompt\":" + many + "]}"), "prompt");
}

TEST(ParseCompletions, ScoringWithoutGeneratingNeedsEcho) {
    EXPECT_EQ(refused_completion(R"({"prompt":"a","max_tokens":0})"), "max_tokens");
    auto spec =
        parse_completions(R"({"prompt":"a","max_tokens":0,"echo":true,"logprobs":1})", kLimits);
    ASSERT_TRUE(spec);
    EXPECT_EQ(spec->sampling.prompt_logprobs, 1u);
    EXPECT_EQ(refused_completion(R"({"prompt":"a","logprobs":6})"), "logprobs");  // B009
    EXPECT_EQ(refused_completion(R"({"prompt":"a","suffix":"b"})"), "suffix");
}

}  // namespace
}  // namespace taproot::gateway
