// SPDX-License-Identifier: Apache-2.0
// The default model against a float32 reference on dequantised weights (shared data,
// smollm2_forward_goldens.json). Bounds: those of the issue that asked for this engine; llama.cpp
// on the same file reaches 0.037 (one prompt), 0.020 (mean) and 0.86 (logits).
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <string>

#include "tests/support/shared_data.h"
#include "tests/worker/model/model_session.h"

namespace taproot {
namespace {

namespace json = boost::json;
using testing::default_model;
using testing::ModelSession;
using testing::must_create;
using testing::must_load;
using testing::shared_dir;

std::filesystem::path goldens_file() {
    return shared_dir() / "data" / "smollm2_forward_goldens.json";
}

std::vector<TokenId> to_tokens(const json::value& list) {
    return json::value_to<std::vector<TokenId>>(list);
}

double log_sum_exp(std::span<const float> logits) {
    double top = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (float logit : logits) sum += std::exp(static_cast<double>(logit) - top);
    return top + std::log(sum);
}

struct Comparison {
    double mean_nll = 0;     // of the prompt's tokens after the first
    double worst_logit = 0;  // largest distance to a listed logit or logsumexp
    std::vector<TokenId> greedy;
};

// Runs one prompt (in chunks of 64, scoring every token) and then greedily.
Comparison compare(CpuExecutor& executor, const json::object& golden, int greedy_tokens) {
    auto prompt = to_tokens(golden.at("prompt_ids"));
    auto vocabulary = static_cast<std::size_t>(executor.vocab_size());
    int blocks = (static_cast<int>(prompt.size()) + greedy_tokens) / kBlockTokens + 1;
    auto session = ModelSession::with_blocks(0, blocks);
    Comparison out;
    std::vector<float> last;
    for (std::size_t begin = 0; begin < prompt.size(); begin += 64) {
        auto chunk =
            std::span(prompt).subspan(begin, std::min<std::size_t>(64, prompt.size() - begin));
        auto logits = testing::feed(executor, session, chunk, 64);
        for (std::size_t i = 0; i < chunk.size(); ++i) {
            std::span<const float> row(&logits[i * vocabulary], vocabulary);
            std::size_t at = begin + i;
            double total = log_sum_exp(row);
            if (at + 1 < prompt.size())
                out.mean_nll +=
                    (total - static_cast<double>(row[static_cast<std::size_t>(prompt[at + 1])])) /
                    static_cast<double>(prompt.size() - 1);
            else
                last.assign(row.begin(), row.end());
            for (const json::value& position : golden.at("positions").as_array()) {
                if (position.at("pos").to_number<std::size_t>() != at) continue;
                out.worst_logit =
                    std::max(out.worst_logit,
                             std::abs(position.at("logsumexp").to_number<double>() - total));
                auto ids = to_tokens(position.at("top_ids"));
                for (std::size_t k = 0; k < ids.size(); ++k) {
                    double expected = position.at("top_logits").as_array()[k].to_number<double>();
                    double got = static_cast<double>(row[static_cast<std::size_t>(ids[k])]);
                    out.worst_logit = std::max(out.worst_logit, std::abs(got - expected));
                }
            }
        }
    }
    for (int i = 0; i < greedy_tokens; ++i) {
        auto next = static_cast<TokenId>(std::max_element(last.begin(), last.end()) - last.begin());
        out.greedy.push_back(next);
        last = testing::feed(executor, session, {&next, 1}, 1);
    }
    return out;
}

void expect_greedy(const std::string& name, const json::object& golden, const Comparison& got) {
    auto expected = to_tokens(golden.at("greedy_ids"));
    const json::array& margins = golden.at("greedy_margin").as_array();
    for (std::size_t i = 0; i < got.greedy.size(); ++i) {
        if (margins[i].to_number<double>() < 0.5) break;
        ASSERT_EQ(got.greedy[i], expected[i]) << name << " greedy token " << i;
    }
}

TEST(ModelGoldens, NativeWeightsStayNearTheFloat32Reference) {
    TAPROOT_NEEDS_FILE(goldens_file());
    TAPROOT_NEEDS_FILE(default_model());
    auto goldens = json::parse(testing::read_file(goldens_file()));
    auto executor = must_create(must_load(default_model()),
                                {.isa = available_isas().back(), .kv_blocks = 100, .max_rows = 64});
    double sum = 0;
    int prompts = 0;
    for (const auto& [name, value] : goldens.at("cases").as_object()) {
        const json::object& golden = value.as_object();
        Comparison got = compare(*executor, golden, 48);
        if (!golden.at("prompt_mean_nll").is_null()) {
            double distance =
                std::abs(got.mean_nll - golden.at("prompt_mean_nll").to_number<double>());
            EXPECT_LE(distance, 0.04) << std::string(name);
            sum += distance;
            ++prompts;
            std::printf("%-14s nll differs by %.4f, logits by %.3f\n", std::string(name).c_str(),
                        distance, got.worst_logit);
        }
        EXPECT_LE(got.worst_logit, 0.9) << std::string(name);
        expect_greedy(std::string(name), golden, got);
    }
    EXPECT_GE(prompts, 8);
    EXPECT_LE(sum / prompts, 0.02);
    std::printf("mean nll difference %.4f over %d prompts\n", sum / prompts, prompts);
}

// Dequantised weights and a float32 cache: what is left is the order of additions.
TEST(ModelGoldens, Float32ModeMatchesTheReference) {
    TAPROOT_NEEDS_FILE(goldens_file());
    TAPROOT_NEEDS_FILE(default_model());
    auto goldens = json::parse(testing::read_file(goldens_file()));
    LoadedModel model = must_load(default_model());
    CpuExecutorOptions options{.isa = available_isas().back(),
                               .kv_blocks = 100,
                               .kv_dtype = KvDType::kF32,
                               .weights = WeightMode::kF32,
                               .max_rows = 64};
    auto executor = must_create(model, options);
    double worst = 0;
    for (const auto& [name, value] : goldens.at("cases").as_object()) {
        const json::object& golden = value.as_object();
        Comparison got = compare(*executor, golden, 0);
        EXPECT_LE(got.worst_logit, 2e-3) << std::string(name);
        worst = std::max(worst, got.worst_logit);
        if (golden.at("prompt_mean_nll").is_null()) continue;
        EXPECT_NEAR(got.mean_nll, golden.at("prompt_mean_nll").to_number<double>(), 1e-4)
            << std::string(name);
    }
    std::printf("largest distance to a reference logit: %.2e\n", worst);

    // The scalar reference itself, on the shortest prompts.
    options.isa = Isa::kRef;
    auto reference = must_create(model, options);
    for (const char* name : {"one_token", "code"}) {
        const json::object& golden = goldens.at("cases").at(name).as_object();
        EXPECT_LE(compare(*reference, golden, 0).worst_logit, 2e-3) << name;
    }
}

// The price of a smaller cache alone: float32 weights, so that the reference differs by nothing
// else.
TEST(ModelGoldens, EveryKvTypeStaysNearTheReference) {
    TAPROOT_NEEDS_FILE(goldens_file());
    TAPROOT_NEEDS_FILE(default_model());
    auto goldens = json::parse(testing::read_file(goldens_file()));
    LoadedModel model = must_load(default_model());
    const struct {
        KvDType dtype;
        double nll_bound, logit_bound;
    } cases[] = {
        {KvDType::kF16, 0.002, 0.05}, {KvDType::kBf16, 0.01, 0.3}, {KvDType::kInt8, 0.02, 0.9}};
    for (const auto& c : cases) {
        auto executor = must_create(model, {.isa = available_isas().back(),
                                            .kv_blocks = 100,
                                            .kv_dtype = c.dtype,
                                            .weights = WeightMode::kF32,
                                            .max_rows = 64});
        double sum = 0, worst = 0;
        int prompts = 0;
        for (const auto& [name, value] : goldens.at("cases").as_object()) {
            const json::object& golden = value.as_object();
            Comparison got = compare(*executor, golden, 0);
            worst = std::max(worst, got.worst_logit);
            if (golden.at("prompt_mean_nll").is_null()) continue;
            sum += std::abs(got.mean_nll - golden.at("prompt_mean_nll").to_number<double>());
            ++prompts;
        }
        std::printf("%-4s cache: nll differs by %.5f in the mean, logits by at most %.4f\n",
                    std::string(to_string(c.dtype)).c_str(), sum / prompts, worst);
        EXPECT_LE(sum / prompts, c.nll_bound) << to_string(c.dtype);
        EXPECT_LE(worst, c.logit_bound) << to_string(c.dtype);
    }
}

TEST(ModelGoldens, LogitsHaveTheSameBitsForEveryInstructionSetChunkAndThreadCount) {
    TAPROOT_NEEDS_FILE(default_model());
    LoadedModel model = must_load(default_model());
    auto tokens = testing::random_tokens(20, model.config.vocabulary, 11);
    auto run = [&](CpuExecutorOptions options, int chunk) {
        options.kv_blocks = 40;
        auto executor = must_create(model, options);
        auto session = ModelSession::with_blocks(0, 40);
        return testing::feed(*executor, session, tokens, chunk);
    };
    auto expected = run({.isa = Isa::kRef}, 20);
    for (Isa isa : available_isas()) {
        EXPECT_TRUE(testing::same_bits(run({.isa = isa}, 1), expected)) << to_string(isa);
        EXPECT_TRUE(testing::same_bits(run({.threads = 2, .isa = isa}, 7), expected))
            << to_string(isa);
    }
    // Long enough for several attention tiles, on the fastest.
    tokens = testing::random_tokens(520, model.config.vocabulary, 12);
    Isa best = available_isas().back();
    auto whole = run({.isa = best, .max_rows = 520}, 520);
    EXPECT_TRUE(testing::same_bits(run({.isa = best}, 64), whole));
    EXPECT_TRUE(testing::same_bits(run({.threads = 2, .isa = best}, 7), whole));
}

}  // namespace
}  // namespace taproot
