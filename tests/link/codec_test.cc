// SPDX-License-Identifier: Apache-2.0
#include "link/codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "link/msgpack.h"
#include "tests/link/random_messages.h"

namespace taproot::link {
namespace {

template <typename Message>
std::string encoded(const Message& message) {
    std::string out;
    encode(message, out);
    return out;
}

Result<ToGateway> decode(std::string_view& frame, const ToGateway*) {
    return decode_to_gateway(frame);
}
Result<ToWorker> decode(std::string_view& frame, const ToWorker*) {
    return decode_to_worker(frame);
}

template <typename Variant>
void expect_round_trip(const Variant& message, std::uint64_t seed) {
    std::string bytes = encoded(message);
    std::string_view rest = bytes;
    auto back = decode(rest, &message);
    ASSERT_TRUE(back) << name_of(message) << " seed " << seed << ": " << back.error().describe();
    EXPECT_TRUE(rest.empty());
    EXPECT_TRUE(*back == message) << name_of(message) << " seed " << seed;
}

TEST(Codec, EveryMessageComesBackAsItWas) {
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        RandomMessages messages(seed);
        for (std::size_t kind = 0; kind < std::variant_size_v<ToGateway>; ++kind) {
            ToGateway message = messages.to_gateway(kind);
            ASSERT_EQ(message.index(), kind);
            expect_round_trip(message, seed);
        }
        for (std::size_t kind = 0; kind < std::variant_size_v<ToWorker>; ++kind) {
            ToWorker message = messages.to_worker(kind);
            ASSERT_EQ(message.index(), kind);
            expect_round_trip(message, seed);
        }
        if (HasFailure()) return;
    }
}

TEST(Codec, ConcreteMessagesHaveTheBytesOfTheirVariant) {
    RandomMessages messages(7);
    StepOutput step = messages.step_output();
    EXPECT_EQ(encoded(step), encoded(ToGateway(step)));
    Load load = messages.load();
    EXPECT_EQ(encoded(load), encoded(ToGateway(load)));
    Generate generate = messages.generate();
    EXPECT_EQ(encoded(generate), encoded(ToWorker(generate)));
}

TEST(Codec, MessagesEndToEndInOneFrameComeBackInOrder) {
    RandomMessages messages(11);
    std::vector<ToGateway> sent;
    std::string frame;
    for (int i = 0; i < 50; ++i) encode(sent.emplace_back(messages.to_gateway()), frame);
    std::string_view rest = frame;
    for (const ToGateway& message : sent) {
        auto back = decode_to_gateway(rest);
        ASSERT_TRUE(back) << back.error().describe();
        EXPECT_TRUE(*back == message);
    }
    EXPECT_TRUE(rest.empty());
}

TEST(Codec, ACutAtAnyByteIsAnErrorWithAPlace) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        RandomMessages messages(seed);
        for (std::size_t kind = 0; kind < std::variant_size_v<ToGateway>; ++kind) {
            std::string bytes = encoded(messages.to_gateway(kind));
            for (std::size_t size = 0; size < bytes.size(); ++size) {
                std::string_view cut = std::string_view(bytes).substr(0, size);
                auto back = decode_to_gateway(cut);
                ASSERT_FALSE(back) << "kind " << kind << " cut at " << size << " seed " << seed;
                EXPECT_EQ(back.error().code, ErrorCode::kDataLoss);
                EXPECT_FALSE(back.error().where.empty());
            }
        }
        for (std::size_t kind = 0; kind < std::variant_size_v<ToWorker>; ++kind) {
            std::string bytes = encoded(messages.to_worker(kind));
            for (std::size_t size = 0; size < bytes.size(); ++size) {
                std::string_view cut = std::string_view(bytes).substr(0, size);
                ASSERT_FALSE(decode_to_worker(cut)) << "kind " << kind << " cut at " << size;
            }
        }
    }
}

// A changed byte either still is a message (then it encodes again) or an error; never more.
TEST(Codec, ChangedBytesNeverCrashOrReadPastTheEnd) {
    for (std::uint64_t seed = 1; seed <= 3'000; ++seed) {
        RandomMessages messages(seed);
        std::string bytes = encoded(messages.to_gateway());
        for (int change = 0; change < 3; ++change)
            bytes[messages.random().below(bytes.size())] ^=
                static_cast<char>(1u << messages.random().below(8));
        std::string_view rest = bytes;
        if (auto back = decode_to_gateway(rest)) {
            std::string again = encoded(*back);
            std::string_view view = again;
            auto twice = decode_to_gateway(view);
            ASSERT_TRUE(twice) << "seed " << seed << ": " << twice.error().describe();
            EXPECT_TRUE(*twice == *back) << "seed " << seed;
        }
    }
}

TEST(Codec, ATokenOfARunningStreamIsSmall) {
    StepOutput step;
    step.step = 1'000;
    TokenOutput token;
    token.request = RequestId{1'000'000};
    token.token = 40'000;
    std::size_t empty = encoded(step).size();
    step.tokens.push_back(token);
    EXPECT_LE(encoded(step).size() - empty, 10u);
}

TEST(Codec, PromptsTravelAsFourBytesPerToken) {
    Generate generate;
    generate.max_tokens = 1;
    generate.prompt.assign(4'000, 49'151);
    EXPECT_LT(encoded(generate).size(), 4'000u * 4 + 120);
}

TEST(Codec, HelloOfAnotherVersionKeepsVersionBuildAndName) {
    std::string bytes;
    MsgpackWriter out(bytes);
    out.array(6);
    out.uint(0);  // tag of Hello
    out.uint(kProtocolVersion + 1);
    out.string("9.9");
    out.string("w7");
    out.map(1);  // a field of the future
    out.string("anything");
    out.array(0);
    out.boolean(true);
    std::string_view rest = bytes;
    auto back = decode_to_gateway(rest);
    ASSERT_TRUE(back) << back.error().describe();
    const auto& hello = std::get<Hello>(*back);
    EXPECT_EQ(hello.version, kProtocolVersion + 1);
    EXPECT_EQ(hello.build, "9.9");
    EXPECT_EQ(hello.worker, "w7");
    EXPECT_TRUE(rest.empty());
}

TEST(Codec, OneFieldTooManyOrTooFewIsRefusedInsideAVersion) {
    for (std::size_t count : {1u, 3u}) {
        std::string bytes;
        MsgpackWriter out(bytes);
        out.array(count);
        out.uint(5);  // Ping
        for (std::size_t i = 1; i < count; ++i) out.uint(i);
        std::string_view rest = bytes;
        auto back = decode_to_worker(rest);
        ASSERT_FALSE(back);
        EXPECT_EQ(back.error().where, "Ping");
    }
}

TEST(Codec, UnknownTagsAndOtherTypesAreErrors) {
    for (const char* text : {"\x92\x20\x01", "\x92\xa1x\x01", "\x90", "\xc0", "\x81\x01\x02", ""}) {
        std::string_view rest = text;
        EXPECT_FALSE(decode_to_worker(rest)) << testing::PrintToString(text);
    }
}

struct BadGenerate {
    const char* where;
    void (*spoil)(Generate&);
};

TEST(Codec, GenerateThatBreaksARuleNamesTheField) {
    const BadGenerate cases[] = {
        {"Generate.prompt", [](Generate& m) { m.prompt.clear(); }},
        {"Generate.prompt", [](Generate& m) { m.prompt[0] = -1; }},
        {"Generate.prompt", [](Generate& m) { m.prompt.assign(kPromptTokensMax + 1, 5); }},
        {"Generate.choices", [](Generate& m) { m.choices = 0; }},
        {"Generate.choices", [](Generate& m) { m.choices = kChoicesMax + 1; }},
        {"Generate.max_tokens",
         [](Generate& m) {
             m.max_tokens = 0;
             m.sampling.prompt_logprobs.reset();
         }},
        {"SamplingParams.temperature", [](Generate& m) { m.sampling.temperature = -0.5f; }},
        {"SamplingParams.temperature", [](Generate& m) { m.sampling.temperature = NAN; }},
        {"SamplingParams.top_p", [](Generate& m) { m.sampling.top_p = 1.5f; }},
        {"SamplingParams.min_p", [](Generate& m) { m.sampling.min_p = -1; }},
        {"SamplingParams.repetition_penalty",
         [](Generate& m) { m.sampling.repetition_penalty = 0; }},
        {"SamplingParams.presence_penalty",
         [](Generate& m) { m.sampling.presence_penalty = INFINITY; }},
        {"SamplingParams.frequency_penalty",
         [](Generate& m) { m.sampling.frequency_penalty = -INFINITY; }},
        {"SamplingParams.logit_bias",
         [](Generate& m) {
             m.sampling.logit_bias.push_back({-1, 0});
         }},
        {"SamplingParams.stop_tokens",
         [](Generate& m) {
             m.sampling.stop_tokens = {3, -4};
         }},
        {"SamplingParams.logprobs", [](Generate& m) { m.sampling.logprobs = 5'000; }},
        {"SamplingParams.prompt_logprobs", [](Generate& m) { m.sampling.prompt_logprobs = 5'000; }},
    };
    for (const BadGenerate& bad : cases) {
        RandomMessages messages(3);
        Generate generate = messages.generate();
        ASSERT_TRUE(validate(generate));
        bad.spoil(generate);
        auto checked = validate(generate);
        ASSERT_FALSE(checked) << bad.where;
        EXPECT_EQ(checked.error().where, bad.where);
        EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
        std::string bytes = encoded(generate);
        std::string_view rest = bytes;
        auto back = decode_to_worker(rest);
        ASSERT_FALSE(back) << bad.where;
        EXPECT_EQ(back.error().where, bad.where);
        EXPECT_EQ(back.error().code, ErrorCode::kDataLoss);
    }
}

TEST(Codec, ListsThatMustMatchInLengthAreChecked) {
    StepOutput step;
    step.prompt_logprobs.push_back({RequestId{1}, 0, {-1.0f, -2.0f}, {{}}});
    std::string bytes = encoded(step);
    std::string_view rest = bytes;
    auto back = decode_to_gateway(rest);
    ASSERT_FALSE(back);
    EXPECT_EQ(back.error().where, "PromptLogprobs.top");
}

TEST(Codec, TextModelComesBackAndHasAStableDigest) {
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        RandomMessages messages(seed);
        TextModel model = messages.text_model();
        std::string bytes = encode_text_model(model);
        auto back = decode_text_model(bytes);
        ASSERT_TRUE(back) << back.error().describe();
        EXPECT_TRUE(*back == model) << "seed " << seed;
        EXPECT_EQ(text_digest(bytes), text_digest(encode_text_model(*back)));
        model.tokens.push_back("one more");
        if (!model.types.empty()) model.types.push_back(TokenType::kNormal);
        EXPECT_NE(text_digest(bytes), text_digest(encode_text_model(model)));
    }
}

TEST(Codec, ATextModelCutAtAnyByteOrLongerIsAnError) {
    RandomMessages messages(5);
    std::string bytes = encode_text_model(messages.text_model());
    for (std::size_t size = 0; size < bytes.size(); ++size)
        ASSERT_FALSE(decode_text_model(std::string_view(bytes).substr(0, size))) << size;
    EXPECT_FALSE(decode_text_model(bytes + '\0'));
}

TEST(Codec, ATextModelWithTypesOfAnotherLengthIsAnError) {
    TextModel model;
    model.tokens = {"a", "b"};
    model.types = {TokenType::kNormal};
    auto back = decode_text_model(encode_text_model(model));
    ASSERT_FALSE(back);
    EXPECT_EQ(back.error().where, "TextModel.types");
}

}  // namespace
}  // namespace taproot::link
