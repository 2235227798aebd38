// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/executor_cpu.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <set>
#include <string>

#include "tests/support/tiny_model.h"
#include "tests/worker/model/model_session.h"
#include "tests/worker/model/naive_llama.h"

namespace taproot {
namespace {

using testing::feed;
using testing::kTinyVocabulary;
using testing::ModelSession;
using testing::must_create;
using testing::must_load;
using testing::random_tokens;
using testing::same_bits;
using testing::TinyModelOptions;

constexpr std::string_view kDtypes[] = {"f32",  "f16",  "bf16",   "q4_0",   "q4_1",    "q5_0",
                                        "q5_1", "q8_0", "mixed",  "q2_k",   "q3_k",    "q4_k",
                                        "q5_k", "q6_k", "iq4_nl", "iq4_xs", "mixed_k", "q4_k_m"};
constexpr int kVocabulary = kTinyVocabulary;

// Rows of whole super-blocks, but for "q4_k_m": there ffn_down's are not.
TinyModelOptions options_for(std::string_view dtype) {
    if (dtype.find("_k") == dtype.npos && !dtype.starts_with("iq4")) return {.dtype = dtype};
    return {.dtype = dtype,
            .embedding_dtype = dtype,
            .embedding = 256,
            .heads = 8,
            .head_dim = 32,
            .feed_forward = dtype == "q4_k_m" ? 288 : 256};
}

LoadedModel load(const TinyModelOptions& options) {
    return must_load(testing::write_tiny_model(options).path());  // unlinked while mapped
}

std::vector<float> run_alone(const LoadedModel& model, CpuExecutorOptions options,
                             const std::vector<TokenId>& tokens, int chunk) {
    options.kv_blocks = 32;
    auto executor = must_create(model, options);
    auto session = ModelSession::with_blocks(0, 32);
    return feed(*executor, session, tokens, chunk);
}

TEST(CpuExecutor, Float32ModeAgreesWithANaiveForwardPassInDouble) {
    for (std::string_view dtype : {"f32", "mixed", "mixed_k", "q4_k_m"}) {
        TinyModelOptions tiny = options_for(dtype);
        tiny.tied = dtype == "f32" || dtype == "q4_k_m";
        tiny.padding_rows = dtype == "f32" ? 0 : 24;
        LoadedModel model = load(tiny);
        auto tokens = random_tokens(40, kVocabulary, 5);
        auto logits =
            run_alone(model, {.kv_dtype = KvDType::kF32, .weights = WeightMode::kF32}, tokens, 9);
        testing::NaiveLlama naive(model);
        for (std::size_t t = 0; t < tokens.size(); ++t) {
            auto expected = naive.step(tokens[t]);
            for (std::size_t i = 0; i < expected.size(); ++i)
                ASSERT_NEAR(logits[t * kVocabulary + i], expected[i], 1e-4)
                    << dtype << " token " << t << " logit " << i;
        }
    }
}

TEST(CpuExecutor, QuantisedModelsStayNearTheirFloat32Mode) {
    for (std::string_view dtype : kDtypes) {
        LoadedModel model = load(options_for(dtype));
        auto tokens = random_tokens(40, kVocabulary, 6);
        auto native = run_alone(model, {}, tokens, 40);
        auto exact =
            run_alone(model, {.kv_dtype = KvDType::kF32, .weights = WeightMode::kF32}, tokens, 40);
        double error = 0, size = 0;
        for (std::size_t i = 0; i < native.size(); ++i) {
            error += std::pow(native[i] - exact[i], 2);
            size += std::pow(exact[i], 2);
        }
        EXPECT_LT(std::sqrt(error / size), 0.05) << dtype;
        EXPECT_GT(size, 1.0) << dtype;
    }
}

TEST(CpuExecutor, LogitsHaveTheSameBitsForEveryChunkingThreadCountAndInstructionSet) {
    for (std::string_view dtype : kDtypes) {
        LoadedModel model = load(options_for(dtype));
        int count = dtype == "q4_1" ? 300 : 140;  // beyond the first attention tile in any case
        auto tokens = random_tokens(count, kVocabulary, 7);
        auto expected = run_alone(model, {.isa = Isa::kRef}, tokens, count);
        for (Isa isa : available_isas()) {
            for (int chunk : {1, 7, 64, count})
                EXPECT_TRUE(same_bits(run_alone(model, {.isa = isa}, tokens, chunk), expected))
                    << dtype << " " << to_string(isa) << " chunk " << chunk;
            for (int threads : {2, 3}) {
                for (int chunk : {33, count})  // together, and in blocks of rows
                    EXPECT_TRUE(
                        same_bits(run_alone(model, {.threads = threads, .isa = isa}, tokens, chunk),
                                  expected))
                        << dtype << " " << to_string(isa) << " threads " << threads << " chunk "
                        << chunk;
            }
            // A step longer than the scratch runs in parts.
            EXPECT_TRUE(
                same_bits(run_alone(model, {.isa = isa, .max_rows = 13}, tokens, count), expected))
                << dtype << " " << to_string(isa);
        }
    }
}

constexpr KvDType kKvTypes[] = {KvDType::kF16, KvDType::kF32, KvDType::kBf16, KvDType::kInt8};

TEST(CpuExecutor, EveryKvTypeGivesTheSameBitsForEveryChunkingAndInstructionSet) {
    LoadedModel model = load({.dtype = "q4_1"});
    auto tokens = random_tokens(300, kVocabulary, 8);
    std::vector<std::vector<float>> results;
    for (KvDType dtype : kKvTypes) {
        auto expected = run_alone(model, {.isa = Isa::kRef, .kv_dtype = dtype}, tokens, 300);
        for (Isa isa : available_isas()) {
            for (int chunk : {1, 5, 64, 300}) {
                CpuExecutorOptions options{.threads = 2, .isa = isa, .kv_dtype = dtype};
                EXPECT_TRUE(same_bits(run_alone(model, options, tokens, chunk), expected))
                    << to_string(dtype) << " " << to_string(isa) << " chunk " << chunk;
            }
        }
        for (const auto& other : results) EXPECT_FALSE(same_bits(expected, other));
        results.push_back(std::move(expected));
    }
}

// With float32 weights, so that nothing but the cache rounds.
TEST(CpuExecutor, SmallerKvTypesStayNearTheFloat32Cache) {
    LoadedModel model = load({.dtype = "f32"});
    auto tokens = random_tokens(100, kVocabulary, 8);
    auto logits = [&](KvDType dtype) {
        return run_alone(model, {.kv_dtype = dtype, .weights = WeightMode::kF32}, tokens, 100);
    };
    auto exact = logits(KvDType::kF32);
    const struct {
        KvDType dtype;
        double bound;
    } cases[] = {{KvDType::kF16, 1e-3}, {KvDType::kBf16, 8e-3}, {KvDType::kInt8, 2e-2}};
    for (const auto& c : cases) {
        auto got = logits(c.dtype);
        double error = 0, size = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
            error += std::pow(got[i] - exact[i], 2);
            size += std::pow(exact[i], 2);
        }
        EXPECT_LT(std::sqrt(error / size), c.bound) << to_string(c.dtype);
        EXPECT_GT(error, 0) << to_string(c.dtype);
    }
}

// Sequences of different lengths and progress share steps; each gets the bits it gets alone.
TEST(CpuExecutor, BatchMatesChangeNoBits) {
    for (std::string_view dtype : {"q4_1", "mixed", "q4_k_m"}) {
        LoadedModel model = load(options_for(dtype));
        std::vector<std::vector<TokenId>> prompts;
        std::vector<std::vector<float>> alone;
        for (int i = 0; i < 6; ++i) {
            prompts.push_back(
                random_tokens(1 + 37 * i, kVocabulary, 100 + static_cast<unsigned>(i)));
            alone.push_back(run_alone(model, {}, prompts.back(), 64));
        }
        for (std::uint64_t seed = 1; seed <= 8; ++seed) {
            Random random(seed);
            auto isas = available_isas();
            CpuExecutorOptions options;
            options.isa = isas[random.below(isas.size())];
            options.threads = static_cast<int>(random.between(1, 2));
            options.max_rows = static_cast<int>(random.between(5, 200));
            options.kv_blocks = 6 * 16;
            auto executor = must_create(model, options);
            std::vector<ModelSession> sessions;
            std::vector<std::vector<float>> got(6);
            for (std::uint32_t i = 0; i < 6; ++i)
                sessions.push_back(ModelSession::with_blocks(i * 16, 16));
            for (bool more = true; more;) {
                std::vector<StepSequence> step;
                std::vector<std::size_t> who;
                more = false;
                for (std::size_t i = 0; i < 6; ++i) {
                    int left = static_cast<int>(prompts[i].size()) - sessions[i].position;
                    more = more || left > 0;
                    if (left == 0 || random.chance(0.3)) continue;
                    int count = static_cast<int>(random.between(1, std::min(left, 50)));
                    std::span<const TokenId> all(prompts[i]);
                    step.push_back({all.subspan(static_cast<std::size_t>(sessions[i].position),
                                                static_cast<std::size_t>(count)),
                                    sessions[i].position, sessions[i].blocks, 0});
                    who.push_back(i);
                    sessions[i].position += count;
                }
                auto logits = executor->run(step);
                for (std::size_t s = 0; s < step.size(); ++s) {
                    std::size_t values = step[s].tokens.size() * kVocabulary;
                    got[who[s]].insert(got[who[s]].end(), logits.begin(),
                                       logits.begin() + static_cast<std::ptrdiff_t>(values));
                    logits = logits.subspan(values);
                }
                EXPECT_TRUE(logits.empty());
            }
            for (std::size_t i = 0; i < 6; ++i)
                EXPECT_TRUE(same_bits(got[i], alone[i])) << "seed " << seed << " prompt " << i;
        }
    }
}

TEST(CpuExecutor, OnlyWantedRowsGetLogitsInTheOrderOfTheStep) {
    LoadedModel model = load({});
    auto a = random_tokens(20, kVocabulary, 1), b = random_tokens(9, kVocabulary, 2);
    auto all_a = run_alone(model, {}, a, 64), all_b = run_alone(model, {}, b, 64);
    auto executor = must_create(model, {.kv_blocks = 8, .max_rows = 7});
    auto first = ModelSession::with_blocks(0, 2), second = ModelSession::with_blocks(2, 2);
    auto third = ModelSession::with_blocks(4, 2);
    StepSequence step[] = {
        {a, 0, first.blocks, 17}, {a, 0, third.blocks, 20}, {b, 0, second.blocks, 8}};
    auto logits = testing::copy(executor->run(step));
    std::vector<float> expected(all_a.begin() + 17 * kVocabulary, all_a.end());
    expected.insert(expected.end(), all_b.begin() + 8 * kVocabulary, all_b.end());
    EXPECT_TRUE(same_bits(logits, expected));
    EXPECT_TRUE(executor->run({}).empty());
}

TEST(CpuExecutor, ACopiedBlockContinuesLikeTheOriginal) {
    LoadedModel model = load({});
    auto tokens = random_tokens(40, kVocabulary, 3);
    for (KvDType dtype : kKvTypes) {
        auto expected = run_alone(model, {.kv_dtype = dtype}, tokens, 40);
        auto executor = must_create(model, {.kv_blocks = 8, .kv_dtype = dtype});
        auto original = ModelSession::with_blocks(0, 3);
        feed(*executor, original, std::span(tokens).first(24), 24);
        // Shares block 0, continues in a copy of block 1 from position 20.
        executor->copy_block(BlockId{1}, BlockId{6});
        ModelSession branch{{BlockId{0}, BlockId{6}, BlockId{5}}, 20};
        auto other = random_tokens(10, kVocabulary, 4);
        ModelSession scratch{{BlockId{0}, BlockId{1}, BlockId{4}}, 24};
        feed(*executor, scratch, other, 10);  // the original's block changes behind its 24 tokens
        auto rest = feed(*executor, branch, std::span(tokens).subspan(20), 20);
        EXPECT_TRUE(same_bits(rest, {expected.begin() + 20 * kVocabulary, expected.end()}))
            << to_string(dtype);
    }
}

TEST(CpuExecutor, PaddingRowsOfTheVocabularyHaveNoLogits) {  // case B190
    auto executor = must_create(load({.padding_rows = 24}), {.kv_blocks = 4});
    EXPECT_EQ(executor->vocab_size(), kVocabulary);
    auto session = ModelSession::with_blocks(0, 4);
    auto tokens = random_tokens(8, kVocabulary, 9);
    EXPECT_EQ(feed(*executor, session, tokens, 8).size(), 8u * kVocabulary);
}

TEST(CpuExecutor, RefusesWhatItCannotRunAndSaysWhat) {
    auto refusal = [](const testing::GgufWriter& writer, CpuExecutorOptions options) {
        testing::TempFile saved(".gguf", writer.finish());
        auto model = load_model(saved.path());
        if (!model) return model.error();
        options.kv_blocks = options.kv_blocks == 0 ? 0 : 4;
        auto executor = CpuExecutor::create(*model, options);
        if (executor) return Error{ErrorCode::kInternal, "accepted"};
        return executor.error();
    };
    CpuExecutorOptions good{.kv_blocks = 4};
    auto expect = [](const Error& error, ErrorCode code, std::string_view part) {
        EXPECT_EQ(error.code, code) << error.describe();
        EXPECT_NE(error.describe().find(part), std::string::npos) << error.describe();
    };
    auto tiny = [] { return testing::tiny_model_writer(); };

    auto writer = tiny();
    writer.drop_tensor("blk.1.ffn_up.weight");
    expect(refusal(writer, good), ErrorCode::kInvalidArgument, "blk.1.ffn_up.weight");
    writer = tiny();
    std::uint64_t bias[] = {64};
    writer.tensor("blk.0.attn_q.bias", bias, 0, std::string(256, '\0'));
    expect(refusal(writer, good), ErrorCode::kUnsupported, "blk.0.attn_q.bias");
    writer = tiny();
    writer.drop_tensor("blk.0.ffn_down.weight");
    std::uint64_t swapped[] = {64, 128};
    writer.tensor("blk.0.ffn_down.weight", swapped, 0, std::string(64 * 128 * 4, '\0'));
    expect(refusal(writer, good), ErrorCode::kInvalidArgument, "[64, 128]");
    writer = testing::tiny_model_writer({.embedding = 256, .heads = 16, .kv_heads = 2});
    writer.drop_tensor("blk.0.attn_k.weight");
    std::uint64_t k_dims[] = {256, 32};
    writer.tensor("blk.0.attn_k.weight", k_dims, 16, std::string(66 * 32, '\0'));
    expect(refusal(writer, good), ErrorCode::kUnsupported,
           "is of type IQ2_XXS; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, "
           "Q5_K, Q6_K, IQ4_NL and IQ4_XS are supported");
    writer = tiny();
    std::uint64_t freqs[] = {8};
    writer.tensor("rope_freqs.weight", freqs, 0, std::string(32, '\0'));
    expect(refusal(writer, good), ErrorCode::kInvalidArgument, "rope_freqs.weight");

    expect(refusal(tiny(), {}), ErrorCode::kInvalidArgument, "kv_blocks");
    expect(refusal(tiny(), {.threads = 0, .kv_blocks = 4}), ErrorCode::kInvalidArgument, "threads");
    expect(refusal(tiny(), {.kv_blocks = 4, .max_rows = 0}), ErrorCode::kInvalidArgument,
           "max_rows");
}

TEST(CpuExecutor, LayoutDigestTellsPoolsApart) {
    LoadedModel model = load({});
    auto digest = [&](CpuExecutorOptions options) {
        options.kv_blocks = 1;
        return must_create(model, options)->kv_layout_digest();
    };
    auto base = digest({});
    EXPECT_EQ(digest({.threads = 2, .max_rows = 7}), base);
    std::set<std::uint64_t> digests;
    for (KvDType dtype : kKvTypes) digests.insert(digest({.kv_dtype = dtype}));
    EXPECT_EQ(digests.size(), std::size(kKvTypes));
    EXPECT_TRUE(digests.contains(base));
    EXPECT_NE(digest({.weights = WeightMode::kF32}), base);
}

TEST(CpuExecutor, ReportsItsMemory) {
    for (std::string_view dtype : kDtypes) {
        LoadedModel other = load(options_for(dtype));
        std::size_t matrices = plan_weights(other, WeightMode::kNative)->payload_bytes;
        auto norms = 5 * static_cast<std::size_t>(other.config.embedding) * sizeof(float);
        EXPECT_EQ(must_create(other, {.kv_blocks = 1})->weight_bytes(), matrices + norms) << dtype;
    }
    LoadedModel model = load({});
    auto executor = must_create(model, {.kv_blocks = 10, .max_positions = 100});
    EXPECT_EQ(executor->max_positions(), 100);
    EXPECT_EQ(executor->kv_blocks(), 10u);
    // 2 layers, 2 kv heads, 16 values, 16 tokens, K and V, 2 bytes.
    EXPECT_EQ(executor->kv_bytes_per_block(), 2 * 2 * 16 * 16 * 2 * 2);
    EXPECT_EQ(executor->kv_bytes_per_block(),
              kv_geometry(model.config, KvDType::kF16).block_bytes());
    auto int8 = must_create(model, {.kv_blocks = 1, .kv_dtype = KvDType::kInt8});
    EXPECT_EQ(int8->kv_bytes_per_block(), 2 * 2 * 2 * 16 * (16 + 4));  // a scale each
    EXPECT_GT(executor->scratch_bytes(), 512u * 64 * 4);
}

}  // namespace
}  // namespace taproot
