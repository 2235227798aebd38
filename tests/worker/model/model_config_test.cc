// SPDX-License-Identifier: Apache-2.0
#include "worker/model/model_config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/tiny_model.h"

namespace taproot {
namespace {

using testing::GgufWriter;

Result<ModelConfig> config_of(const GgufWriter& writer) {
    std::string bytes = writer.finish();
    auto file = GgufFile::parse(std::as_bytes(std::span(bytes)), "m.gguf");
    if (!file) return file.error();
    return read_model_config(*file);
}

template <typename Change>
void expect_refused(Change change, ErrorCode code, std::vector<std::string> parts) {
    GgufWriter writer = testing::tiny_model_writer();
    change(writer);
    auto config = config_of(writer);
    ASSERT_FALSE(config) << "accepted; expected: " << parts[0];
    std::string message = config.error().describe();
    EXPECT_EQ(config.error().code, code) << message;
    for (const std::string& part : parts)
        EXPECT_NE(message.find(part), std::string::npos) << message << " lacks " << part;
}

constexpr ErrorCode kBad = ErrorCode::kInvalidArgument;
constexpr ErrorCode kNo = ErrorCode::kUnsupported;

TEST(ModelConfig, ReadsALlamaFile) {
    auto config = config_of(testing::tiny_model_writer());
    ASSERT_TRUE(config) << config.error().describe();
    EXPECT_EQ(config->layers, 2);
    EXPECT_EQ(config->embedding, 64);
    EXPECT_EQ(config->feed_forward, 128);
    EXPECT_EQ(config->heads, 4);
    EXPECT_EQ(config->kv_heads, 2);
    EXPECT_EQ(config->head_dim, 16);
    EXPECT_EQ(config->rotary_dim, 16);
    EXPECT_EQ(config->context, 2048);
    EXPECT_EQ(config->vocabulary, testing::kTinyVocabulary);
    EXPECT_EQ(config->rope_pairs, RopePairs::kInterleaved);
    EXPECT_EQ(config->rope_scaling.kind, RopeScaling::Kind::kNone);
}

TEST(ModelConfig, AbsentKeysTakeTheFormatsDefaults) {
    GgufWriter writer = testing::tiny_model_writer();
    for (const char* key :
         {"llama.attention.head_count_kv", "llama.attention.key_length",
          "llama.attention.value_length", "llama.rope.dimension_count", "llama.rope.freq_base"})
        writer.drop(key);
    auto config = config_of(writer);
    ASSERT_TRUE(config) << config.error().describe();
    EXPECT_EQ(config->kv_heads, 4);     // = heads
    EXPECT_EQ(config->head_dim, 16);    // = embedding / heads
    EXPECT_EQ(config->rotary_dim, 16);  // = head size
    EXPECT_EQ(config->rope_base, 10000.0);
}

TEST(ModelConfig, OtherArchitecturesAndVariantsAreNamed) {
    expect_refused([](GgufWriter& w) { w.string("general.architecture", "gemma3"); }, kNo,
                   {"'gemma3'", "llama"});
    expect_refused([](GgufWriter& w) { w.drop("general.architecture"); }, kBad, {"missing"});
    expect_refused([](GgufWriter& w) { w.number("llama.expert_count", 8); }, kNo,
                   {"llama.expert_count"});
    expect_refused([](GgufWriter& w) { w.number("llama.attention.sliding_window", 4096); }, kNo,
                   {"sliding_window"});
    expect_refused([](GgufWriter& w) { w.number("split.count", 3); }, kNo, {"split.count", "3"});
    expect_refused([](GgufWriter& w) { w.number("llama.attention.value_length", 32); }, kNo,
                   {"value_length"});
    std::vector<std::uint32_t> uneven = {128, 64};
    expect_refused(
        [&](GgufWriter& w) { w.array<std::uint32_t>("llama.feed_forward_length", uneven); }, kNo,
        {"differs between layers"});
    GgufWriter even = testing::tiny_model_writer();
    std::vector<std::uint32_t> same = {128, 128};
    even.array<std::uint32_t>("llama.feed_forward_length", same);
    auto config = config_of(even);
    ASSERT_TRUE(config) << config.error().describe();
    EXPECT_EQ(config->feed_forward, 128);
}

TEST(ModelConfig, NumbersOutOfRangeNameTheKeyAndTheRange) {
    for (const char* key :
         {"block_count", "embedding_length", "feed_forward_length", "context_length",
          "attention.head_count", "attention.head_count_kv", "rope.dimension_count"}) {
        std::string full = std::string("llama.") + key;
        expect_refused([&](GgufWriter& w) { w.number(full, 0); }, kBad, {full, "is 0", ".."});
        expect_refused([&](GgufWriter& w) { w.number(full, 4294967295u); }, kBad, {full});
        expect_refused([&](GgufWriter& w) { w.signed_number(full, -1); }, kBad, {full, "-1"});
        expect_refused([&](GgufWriter& w) { w.string(full, "64"); }, kBad, {full, "string"});
    }
    expect_refused([](GgufWriter& w) { w.drop("llama.block_count"); }, kBad, {"missing"});
    expect_refused([](GgufWriter& w) { w.number("llama.attention.head_count_kv", 3); }, kBad,
                   {"3", "4 heads"});
    expect_refused([](GgufWriter& w) { w.number("llama.rope.dimension_count", 15); }, kBad,
                   {"odd"});
    expect_refused([](GgufWriter& w) { w.number("llama.attention.key_length", 24); }, kNo,
                   {"24", "multiples of 16"});
    for (float bad : {0.0f, -1e-5f, std::nanf(""), 2.0f})
        expect_refused(
            [&](GgufWriter& w) { w.real("llama.attention.layer_norm_rms_epsilon", bad); }, kBad,
            {"layer_norm_rms_epsilon"});
    for (float bad : {0.0f, -1.0f, INFINITY, std::nanf("")})
        expect_refused([&](GgufWriter& w) { w.real("llama.rope.freq_base", bad); }, kBad,
                       {"freq_base"});
}

TEST(ModelConfig, RopeScalingFollowsItsKeys) {
    auto scaling = [](auto change) {
        GgufWriter writer = testing::tiny_model_writer();
        change(writer);
        auto config = config_of(writer);
        if (!config) ADD_FAILURE() << config.error().describe();
        return config ? config->rope_scaling : RopeScaling{};
    };
    using Kind = RopeScaling::Kind;
    EXPECT_EQ(scaling([](GgufWriter& w) { w.string("llama.rope.scaling.type", "none"); }).kind,
              Kind::kNone);
    // "linear" without a factor scales nothing; a factor without a type is linear.
    EXPECT_EQ(scaling([](GgufWriter& w) { w.string("llama.rope.scaling.type", "linear"); }).kind,
              Kind::kNone);
    RopeScaling linear = scaling([](GgufWriter& w) { w.real("llama.rope.scaling.factor", 4.0f); });
    EXPECT_EQ(linear.kind, Kind::kLinear);
    EXPECT_EQ(linear.factor, 4.0f);
    EXPECT_EQ(scaling([](GgufWriter& w) { w.real("llama.rope.scale_linear", 8.0f); }).factor, 8.0f);
    RopeScaling yarn = scaling([](GgufWriter& w) {
        w.string("llama.rope.scaling.type", "yarn");
        w.real("llama.rope.scaling.factor", 4.0f);
        w.number("llama.rope.scaling.original_context_length", 512);
        w.real("llama.rope.scaling.yarn_beta_fast", 16.0f);
    });
    EXPECT_EQ(yarn.kind, Kind::kYarn);
    EXPECT_EQ(yarn.original_context, 512.0f);
    EXPECT_EQ(yarn.beta_fast, 16.0f);
    EXPECT_EQ(yarn.beta_slow, 1.0f);
    EXPECT_EQ(yarn.attention_factor, 0.0f);  // derived
    expect_refused(
        [](GgufWriter& w) {
            w.string("llama.rope.scaling.type", "yarn");
            w.real("llama.rope.scaling.factor", 4.0f);
        },
        kBad, {"original_context_length", "missing"});
    expect_refused([](GgufWriter& w) { w.string("llama.rope.scaling.type", "longrope"); }, kNo,
                   {"longrope"});
    expect_refused([](GgufWriter& w) { w.real("llama.rope.scaling.factor", 0.5f); }, kNo,
                   {"factor"});
}

// Case B190.
TEST(ModelConfig, EmbeddingRowsBeyondTheTokensArePaddingAndFewerAreRefused) {
    auto padded = config_of(testing::tiny_model_writer({.padding_rows = 1}));
    ASSERT_TRUE(padded) << padded.error().describe();
    EXPECT_EQ(padded->vocabulary, testing::kTinyVocabulary);
    auto short_table = config_of(testing::tiny_model_writer({.padding_rows = -1}));
    ASSERT_FALSE(short_table);
    std::string message = short_table.error().describe();
    EXPECT_NE(message.find("319"), std::string::npos) << message;
    EXPECT_NE(message.find("320"), std::string::npos) << message;

    // The head obeys the same rule by itself.
    auto head = [](std::uint64_t rows) {
        GgufWriter writer = testing::tiny_model_writer();
        std::uint64_t dims[] = {64, rows};
        writer.tensor("output.weight", dims, 0, std::string(64 * 4 * rows, '\0'));
        return config_of(writer);
    };
    EXPECT_TRUE(head(321));
    ASSERT_FALSE(head(319));
    EXPECT_NE(head(319).error().describe().find("output.weight"), std::string::npos);
}

}  // namespace
}  // namespace taproot
