// SPDX-License-Identifier: Apache-2.0
#include "worker/worker_app.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <map>

#include "base/units.h"
#include "link/codec.h"
#include "link/link.h"
#include "tests/support/loop.h"
#include "tests/support/tiny_model.h"

namespace taproot::testing {
namespace {

config::Config tiny_config(const TempFile& model) {
    config::Config config;
    config.model.path = model.path();
    config.model.name = "tiny";
    config::Worker worker;
    worker.name = "w0";
    worker.link = "127.0.0.1:0";
    worker.threads = 1;
    worker.kv_bytes = 4_MiB;
    config.workers.push_back(worker);
    return config;
}

// Asks one worker one thing, as a gateway would.
std::vector<TokenId> ask(const WorkerApp& app, const link::Generate& spec, link::Hello* hello,
                         TextModel* text) {
    asio::io_context io{1};
    auto dialled = await(io, link::dial(io, app.address(), {}, std::chrono::seconds(20)));
    EXPECT_TRUE(dialled) << dialled.error().describe();
    std::vector<TokenId> tokens;
    bool finished = false;
    link::LinkConnection::GatewayEnd end;
    end.on_message = [&](link::ToGateway&& message) {
        if (auto* found = std::get_if<link::Hello>(&message)) *hello = *found;
        if (auto* bundle = std::get_if<link::TextBundle>(&message)) {
            auto decoded = link::decode_text_model(bundle->bytes);
            EXPECT_TRUE(decoded);
            *text = *decoded;
        }
        auto* output = std::get_if<link::StepOutput>(&message);
        if (output == nullptr) return;
        for (const link::TokenOutput& token : output->tokens) {
            if (token.has_token) tokens.push_back(token.token);
            finished |= token.finish != link::FinishReason::kNone;
        }
    };
    (*dialled)->start(std::move(end));
    (*dialled)->send(link::ToWorker(link::FetchText{0})).ignore("the test times out");
    (*dialled)->send(link::ToWorker(spec)).ignore("the test times out");
    EXPECT_TRUE(run_until(io, [&] { return finished && !text->tokens.empty(); }));
    (*dialled)->abandon();
    return tokens;
}

TEST(WorkerApp, ServesAModelFileAndTwoProcessesWorthOfWorkersAgree) {
    TempFile model = write_tiny_model();
    config::Config config = tiny_config(model);
    config.workers.push_back(config.workers[0]);
    config.workers[1].name = "w1";
    config.workers[1].threads = 2;
    config.workers[1].prefill_chunk_tokens = 7;
    auto one = WorkerApp::create(config, "w0");
    auto two = WorkerApp::create(config, "w1");
    ASSERT_TRUE(one) << one.error().describe();
    ASSERT_TRUE(two) << two.error().describe();
    ASSERT_TRUE((*one)->start());
    ASSERT_TRUE((*two)->start());

    link::Generate spec;
    spec.request = RequestId{1};
    for (TokenId i = 0; i < 90; ++i) spec.prompt.push_back(3 + i % 200);
    spec.max_tokens = 30;
    spec.sampling.temperature = 0.7f;
    spec.sampling.seed = 4;
    spec.sampling.ignore_eos = true;
    link::Hello hello_one, hello_two;
    TextModel text_one, text_two;
    std::vector<TokenId> tokens = ask(**one, spec, &hello_one, &text_one);
    EXPECT_EQ(tokens.size(), 30u);
    EXPECT_EQ(ask(**one, spec, &hello_one, &text_one), tokens);  // warm
    EXPECT_EQ(ask(**two, spec, &hello_two, &text_two), tokens);
    EXPECT_EQ(hello_one.model, "tiny");
    EXPECT_NE(hello_one.epoch, hello_two.epoch);
    EXPECT_EQ(hello_one.model_digest, hello_two.model_digest);
    EXPECT_EQ(hello_one.kv_layout_digest, hello_two.kv_layout_digest);
    EXPECT_EQ(hello_one.max_model_len, 2'048u);
    EXPECT_GT(hello_one.prefill_ms_per_token, 0);
    EXPECT_EQ(text_one.tokens.size(), static_cast<std::size_t>(kTinyVocabulary));
    (*one)->stop();
    (*one)->stop();  // twice does no harm
}

TEST(WorkerApp, KvTypeDecidesHowManyTokensThePoolHolds) {
    TempFile model = write_tiny_model();
    std::map<std::string, link::Hello> hello;
    std::map<std::string, std::vector<TokenId>> tokens;
    for (std::string dtype : {"f16", "bf16", "f32", "int8"}) {
        config::Config config = tiny_config(model);
        config.workers[0].kv_dtype = dtype;
        auto app = WorkerApp::create(config, "w0");
        ASSERT_TRUE(app) << app.error().describe();
        ASSERT_TRUE((*app)->start());
        link::Generate spec;
        spec.request = RequestId{1};
        for (TokenId i = 0; i < 90; ++i) spec.prompt.push_back(3 + i % 200);
        spec.max_tokens = 20;
        spec.sampling.ignore_eos = true;
        TextModel text;
        tokens[dtype] = ask(**app, spec, &hello[dtype], &text);
        EXPECT_EQ(tokens[dtype].size(), 20u);
        EXPECT_EQ(ask(**app, spec, &hello[dtype], &text), tokens[dtype]) << dtype << " warm";
    }
    EXPECT_EQ(hello["bf16"].blocks_total, hello["f16"].blocks_total);
    EXPECT_EQ(hello["f32"].blocks_total, hello["f16"].blocks_total / 2);
    // 16 values and a scale: 20 bytes against 32.
    EXPECT_EQ(hello["int8"].blocks_total, 4_MiB / (2 * 2 * 2 * 16 * 20));
    EXPECT_NE(hello["int8"].kv_layout_digest, hello["f16"].kv_layout_digest);
}

TEST(WorkerApp, ARamTierKeepsWhatASmallPoolCannot) {
    TempFile model = write_tiny_model();
    config::Config config = tiny_config(model);
    config.model.max_model_len = 128;
    auto answers = [&](std::uint64_t kv_bytes, std::uint64_t kv_ram_bytes) {
        config.workers[0].kv_bytes = kv_bytes;
        config.workers[0].kv_ram_bytes = kv_ram_bytes;
        auto app = WorkerApp::create(config, "w0");
        EXPECT_TRUE(app) << app.error().describe();
        EXPECT_TRUE((*app)->start());
        std::vector<std::vector<TokenId>> out;
        for (int pass = 0; pass < 2; ++pass)
            for (TokenId first : {3, 40, 77}) {
                link::Generate spec;
                spec.request = RequestId{out.size() + 1};
                for (TokenId i = 0; i < 90; ++i) spec.prompt.push_back(3 + (first + i) % 200);
                spec.max_tokens = 8;
                spec.sampling.ignore_eos = true;
                link::Hello hello;
                TextModel text;
                out.push_back(ask(**app, spec, &hello, &text));
                EXPECT_EQ(out.back().size(), 8u);
            }
        return out;
    };
    const std::uint64_t page = 2 * 2 * 16 * 16 * 2 * 2;
    auto small = answers(8 * page, 1_MiB);
    EXPECT_EQ(small, answers(4_MiB, 0));
    EXPECT_TRUE(std::equal(small.begin(), small.begin() + 3, small.begin() + 3));
    config.workers[0].kv_ram_bytes = 100;
    EXPECT_EQ(WorkerApp::create(config, "w0").error().where, "kv_ram_bytes");
}

TEST(WorkerApp, SharesWeightsInMemoryOrInAFileAndAnswersTheSame) {
    TempFile model = write_tiny_model({.dtype = "mixed"});
    config::Config config = tiny_config(model);
    link::Generate spec;
    spec.request = RequestId{1};
    for (TokenId i = 0; i < 40; ++i) spec.prompt.push_back(3 + i % 100);
    spec.max_tokens = 8;
    spec.sampling.temperature = 0;
    spec.sampling.ignore_eos = true;
    auto answer = [&](int shared_weights) {
        link::Hello hello;
        TextModel text;
        auto app = WorkerApp::create(config, "w0", shared_weights);
        EXPECT_TRUE(app) << app.error().describe();
        EXPECT_TRUE((*app)->start());
        return ask(**app, spec, &hello, &text);
    };
    std::vector<TokenId> alone = answer(-1);
    int memory = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    EXPECT_EQ(answer(memory), alone);
    EXPECT_NE(::fcntl(memory, F_GET_SEALS) & F_SEAL_WRITE, 0);
    EXPECT_EQ(answer(memory), alone);
    ::close(memory);

    std::string cache = model.path().string() + ".taproot-weights";
    EXPECT_FALSE(std::filesystem::exists(cache));
    config.workers[0].weights_cache = "auto";
    EXPECT_EQ(answer(-1), alone);
    EXPECT_TRUE(std::filesystem::exists(cache));
    EXPECT_EQ(answer(-1), alone);
    std::filesystem::rename(cache, cache + ".moved");
    config.workers[0].weights_cache = cache + ".moved";
    EXPECT_EQ(answer(-1), alone);
    EXPECT_FALSE(std::filesystem::exists(cache));
    std::filesystem::remove(cache + ".moved");
}

TEST(WorkerApp, RefusesWhatItCannotServe) {
    TempFile model = write_tiny_model();
    config::Config config = tiny_config(model);
    EXPECT_EQ(WorkerApp::create(config, "nobody").error().code, ErrorCode::kNotFound);

    config.model.max_model_len = 100'000;
    EXPECT_EQ(WorkerApp::create(config, "w0").error().where, "model.max_model_len");
    config.model.max_model_len = 0;
    config.workers[0].kv_bytes = 1ull << 60;
    auto huge = WorkerApp::create(config, "w0");
    ASSERT_FALSE(huge);
    EXPECT_EQ(huge.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(huge.error().message.find("available"), std::string::npos);
    config.workers[0].kv_bytes = 4_MiB;
    config.workers[0].kv_dtype = "fp8";
    EXPECT_EQ(WorkerApp::create(config, "w0").error().where, "kv_dtype");
    config.workers[0].kv_dtype = "f16";
    auto no_memory = WorkerApp::create(config, "w0", 987);
    ASSERT_FALSE(no_memory);
    EXPECT_EQ(no_memory.error().where, "shared weights");
    config.model.path = "/nonexistent.gguf";
    EXPECT_FALSE(WorkerApp::create(config, "w0"));
}

}  // namespace
}  // namespace taproot::testing
