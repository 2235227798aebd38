// SPDX-License-Identifier: Apache-2.0
// The engine over the real forward pass (a tiny model): whatever runs beside a request, is cached,
// is chunked or is preempted, the raw bits of its logits are those of a run alone.
#include <gtest/gtest.h>

#include "base/random.h"
#include "tests/support/fuzz_seed.h"
#include "tests/support/tiny_model.h"
#include "tests/worker/engine/engine_harness.h"
#include "worker/engine/executor_cpu.h"

namespace taproot::testing {
namespace {

constexpr std::uint32_t kModelLen = 400;

class EngineOnModel : public ::testing::Test {
protected:
    static void SetUpTestSuite() {
        TempFile file = write_tiny_model();
        auto loaded = load_model(file.path());
        ASSERT_TRUE(loaded) << loaded.error().describe();
        model_ = new LoadedModel(std::move(*loaded));
    }
    static void TearDownTestSuite() { delete model_; }

    static std::unique_ptr<CpuExecutor> executor(std::uint32_t blocks, int threads) {
        CpuExecutorOptions options;
        options.kv_blocks = blocks;
        options.threads = threads;
        options.isa = available_isas().back();
        options.max_rows = 96;
        auto made = CpuExecutor::create(*model_, options);
        EXPECT_TRUE(made);
        return std::move(*made);
    }

    struct Run {
        std::uint32_t blocks = 400;
        std::uint32_t chunk = 512;
        int threads = 1;
    };
    // All requests together; `stagger` steps between arrivals.
    std::map<std::uint64_t, RequestResult> run(const std::vector<link::Generate>& specs, Run how,
                                               int stagger) {
        auto model = executor(how.blocks, how.threads);
        RealClock clock;
        RecordingSink sink;
        EngineOptions options = EngineHarness::engine_options({});
        options.blocks = how.blocks;
        options.end_tokens = {kTinyEos};
        options.scheduler.tokens = kTinyVocabulary;
        options.scheduler.model_len_max = kModelLen;
        options.scheduler.prefill_chunk_tokens = how.chunk;
        Engine engine(std::move(options), *model, clock, sink);
        for (const link::Generate& spec : specs) {
            EXPECT_TRUE(engine.post({ClientId{1}, spec}));
            for (int i = 0; i < stagger; ++i) engine.pump();
        }
        while (engine.pump()) {
        }
        EXPECT_TRUE(engine.scheduler().check_integrity().empty());
        EXPECT_EQ(engine.cache().active_blocks(), 0u);
        preemptions_ += engine.scheduler().counters().preemptions;
        cached_ += engine.scheduler().counters().cached_tokens;
        std::map<std::uint64_t, RequestResult> results;
        for (auto& [key, result] : sink.results) results[key.second] = std::move(result);
        return results;
    }

    static LoadedModel* model_;
    std::uint64_t preemptions_ = 0;
    std::uint64_t cached_ = 0;
};

LoadedModel* EngineOnModel::model_ = nullptr;

std::vector<link::Generate> some_requests(std::uint64_t seed) {
    Random random(seed);
    std::vector<TokenId> family(330);
    for (TokenId& token : family) token = static_cast<TokenId>(random.between(3, 319));
    std::vector<link::Generate> specs;
    for (std::uint64_t id = 1; id <= 10; ++id) {
        std::vector<TokenId> prompt = family;
        prompt.resize(static_cast<std::size_t>(random.between(1, 300)));
        for (std::uint64_t i = random.below(20); i > 0; --i)
            prompt.push_back(static_cast<TokenId>(random.between(3, 319)));
        link::Generate spec =
            greedy(id, prompt, static_cast<std::uint32_t>(random.between(20, 80)));
        if (random.chance(0.5)) spec.sampling.temperature = 1.0f;
        spec.sampling.seed = id;
        spec.choices = random.chance(0.3) ? 3 : 1;
        specs.push_back(std::move(spec));
    }
    return specs;
}

TEST_F(EngineOnModel, BatchesCacheChunksPreemptionAndThreadsChangeNoBit) {
    std::vector<link::Generate> specs = some_requests(fuzz_seed(1));
    std::map<std::uint64_t, RequestResult> alone;
    for (const link::Generate& spec : specs)
        alone[spec.request.value] = run({spec}, {}, 0)[spec.request.value];
    const Run runs[] = {{400, 7, 1}, {400, 64, 2}, {26, 512, 1}};
    for (const Run& how : runs) {
        for (int stagger : {0, 3}) {
            SCOPED_TRACE(::testing::Message() << how.blocks << " blocks, chunk " << how.chunk
                                              << ", " << how.threads << " threads");
            auto together = run(specs, how, stagger);
            for (auto& [id, expected] : alone)
                for (auto& [index, choice] : expected.choices) {
                    EXPECT_EQ(together[id].choices[index].tokens, choice.tokens) << id;
                    EXPECT_EQ(together[id].choices[index].hashes, choice.hashes) << id;
                }
        }
    }
    EXPECT_GT(preemptions_, 0u);
    EXPECT_GT(cached_, 1'000u);
}

}  // namespace
}  // namespace taproot::testing
