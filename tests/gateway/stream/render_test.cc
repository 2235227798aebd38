// SPDX-License-Identifier: Apache-2.0
#include "gateway/stream/render.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "gateway/openai/json_writer.h"
#include "tests/support/tiny_text_model.h"

namespace taproot::gateway {
namespace {

namespace json = boost::json;

class RenderTest : public ::testing::Test {
protected:
    RenderTest() { vocab_.emplace(*Vocab::build(taproot::testing::chat_text_model().model())); }

    AnswerWriter writer() {
        return AnswerWriter(*vocab_, spec_, {"chatcmpl-1", 1700000000, "m\"1", "fp"});
    }
    static std::vector<json::value> events(const std::string& stream) {
        std::vector<json::value> out;
        std::size_t begin = 0, end;
        while ((end = stream.find("\n\n", begin)) != std::string::npos) {
            std::string_view line(stream.data() + begin, end - begin);
            EXPECT_TRUE(line.starts_with("data: "));
            EXPECT_EQ(line.find('\n'), std::string_view::npos);
            EXPECT_LE(line.size(), AnswerWriter::kSseLineBytesMax);
            line.remove_prefix(6);
            if (line != "[DONE]")
                out.push_back(json::parse(json::string_view(line.data(), line.size())));
            begin = end + 2;
        }
        EXPECT_EQ(begin, stream.size());
        return out;
    }

    std::optional<Vocab> vocab_;
    GenerateSpec spec_;
};

TEST_F(RenderTest, AChatStreamHasRoleDeltasFinishUsageDone) {  // B036, B037
    spec_.stream = true;
    spec_.include_usage = true;
    AnswerWriter w = writer();
    std::string out;
    w.write_first(out, 0, nullptr);
    w.write_delta(out, 0, {"hel\"lo\n", {}, {}}, nullptr);
    w.write_finish(out, 0, link::FinishReason::kLength, std::nullopt, std::nullopt, nullptr);
    w.write_usage(out, {10, 2, 8});
    AnswerWriter::write_done(out);
    EXPECT_TRUE(out.ends_with("data: [DONE]\n\n"));
    std::vector<json::value> all = events(out);
    ASSERT_EQ(all.size(), 4u);
    for (const json::value& event : all) {
        EXPECT_EQ(event.at("id"), "chatcmpl-1");
        EXPECT_EQ(event.at("object"), "chat.completion.chunk");
        EXPECT_EQ(event.at("model"), "m\"1");
    }
    EXPECT_EQ(all[0].at("choices").at(0).at("delta").at("role"), "assistant");
    EXPECT_TRUE(all[0].at("usage").is_null());
    EXPECT_EQ(all[1].at("choices").at(0).at("delta").at("content"), "hel\"lo\n");
    EXPECT_EQ(all[2].at("choices").at(0).at("finish_reason"), "length");
    EXPECT_TRUE(all[3].at("choices").as_array().empty());
    EXPECT_EQ(all[3].at("usage").at("total_tokens"), 12);
    EXPECT_EQ(all[3].at("usage").at("prompt_tokens_details").at("cached_tokens"), 8);
}

TEST_F(RenderTest, LongDeltasAreSplitAtCharacters) {  // B043
    spec_.stream = true;
    std::string text;
    while (text.size() < 300 * 1024) text += "\xC3\xA9\n";
    std::string out;
    writer().write_delta(out, 0, {text, {}, {}}, nullptr);
    std::string joined;
    for (const json::value& event : events(out))
        joined += event.at("choices").at(0).at("delta").at("content").as_string().c_str();
    EXPECT_EQ(joined, text);
}

TEST_F(RenderTest, LogprobsCarryTheBytesOfEachToken) {  // B027, B023
    spec_.sampling.logprobs = 1;
    ChoiceAnswer answer;
    answer.all.logprobs = {{0xF0, -0.5f, {{0xF0, -0.5f}}, 0},
                           {0x9F, -std::numeric_limits<float>::infinity(), {}, 0}};
    answer.finish = link::FinishReason::kStop;
    std::string out;
    writer().write_whole(out, {answer}, {});
    json::value body = json::parse(out);
    const json::value& content = body.at("choices").at(0).at("logprobs").at("content");
    EXPECT_EQ(content.at(0).at("bytes").at(0), 0xF0);
    EXPECT_EQ(content.at(0).at("token"), "\xEF\xBF\xBD");
    EXPECT_EQ(content.at(0).at("top_logprobs").at(0).at("logprob").as_double(), -0.5);
    EXPECT_EQ(content.at(1).at("logprob").as_double(), -9999.0);
}

TEST_F(RenderTest, LegacyLogprobsHaveFourListsOfOneLength) {
    spec_.endpoint = Endpoint::kCompletions;
    spec_.sampling.logprobs = 2;
    ChoiceAnswer answer;
    answer.all.logprobs = {{'h', std::numeric_limits<float>::quiet_NaN(), {}, 0},
                           {'e', -1.0f, {{'e', -1.0f}, {'x', -2.0f}}, 1}};
    std::string out;
    writer().write_whole(out, {answer}, {});
    json::value body = json::parse(out);
    const json::value& logprobs = body.at("choices").at(0).at("logprobs");
    EXPECT_TRUE(logprobs.at("token_logprobs").at(0).is_null());
    EXPECT_TRUE(logprobs.at("top_logprobs").at(0).is_null());
    EXPECT_EQ(logprobs.at("top_logprobs").at(1).as_object().size(), 2u);
    EXPECT_EQ(logprobs.at("text_offset").at(1), 1);
    EXPECT_EQ(logprobs.at("tokens").as_array().size(), 2u);
}

TEST_F(RenderTest, AFailedStreamSaysSoInAnOrdinaryEvent) {  // B038
    std::string out;
    AnswerWriter::write_error(
        out, R"({"error":{"message":"x","type":"server_error","param":null,"code":null}})");
    EXPECT_TRUE(out.starts_with("data: {\"error\""));
    EXPECT_TRUE(out.ends_with("}\n\n"));
}

TEST(JsonWriter, EscapesWhatJsonNeedsAndNothingElse) {
    std::string out;
    append_json_string(out, "a\"\\\n\t\x01\xC3\xA9/");
    EXPECT_EQ(out, "\"a\\\"\\\\\\n\\t\\u0001\xC3\xA9/\"");
    std::string all;
    for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
    out.clear();
    append_json_string(out, all);
    EXPECT_EQ(std::string(std::string_view(json::parse(out).as_string())), all);
}

}  // namespace
}  // namespace taproot::gateway
