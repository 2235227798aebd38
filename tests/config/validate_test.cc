// SPDX-License-Identifier: Apache-2.0
#include "config/validate.h"

#include <gtest/gtest.h>

namespace taproot::config {
namespace {

Config good() {
    Config config;
    config.model.path = "m.gguf";
    config.workers.resize(2);
    config.workers[0].name = "a";
    config.workers[1].name = "b";
    return config;
}

// The first problem as "key: message"; "" when there is none.
std::string problem(const Config& config) {
    const auto problems = find_problems(config);
    return problems.empty() ? "" : problems[0].key + ": " + problems[0].message;
}

void expect_problem(const Config& config, const std::string& part) {
    EXPECT_NE(problem(config).find(part), std::string::npos) << problem(config);
}

TEST(ValidateConfig, AcceptsTheShortestDeployment) {
    EXPECT_EQ(problem(good()), "");
    EXPECT_TRUE(validate(good()));
}

TEST(ValidateConfig, NeedsAWorker) {
    Config config = good();
    config.workers.clear();
    expect_problem(config, "workers: at least one worker");
}

// Case B194: two workers with the same name or address.
TEST(ValidateConfig, WorkerNamesAreUnique) {
    Config config = good();
    config.workers[1].name = "a";
    expect_problem(config, "workers[1].name: 'a' is the name of workers[0] too");
}

TEST(ValidateConfig, WorkerNamesAreUsableAsFileNamesAndLabels) {
    for (const char* bad : {"", "a b", "../x", ".hidden", "a/b", "\xC3\xA9", "a\n"}) {
        Config config = good();
        config.workers[0].name = bad;
        expect_problem(config, "workers[0].name: is required");
    }
    Config config = good();
    config.workers[0].name = std::string(65, 'x');
    expect_problem(config, "workers[0].name");
    config.workers[0].name = "Node-1.cpu_0";
    EXPECT_EQ(problem(config), "");
}

TEST(ValidateConfig, AllWorkersStoreKvAlike) {
    Config config = good();
    config.workers[1].kv_dtype = "int8";
    expect_problem(config, "workers[1].kv_dtype: is int8, and f16 in workers[0]");
    config.workers[0].kv_dtype = "int8";
    EXPECT_EQ(problem(config), "");
}

TEST(ValidateConfig, LinkAddressesAreDistinct) {
    Config config = good();
    config.workers[0].link = "127.0.0.1:7001";
    config.workers[1].link = "localhost:7001";
    expect_problem(config, "workers[1].link: '127.0.0.1:7001' is the address of workers[0].link");
    config.workers[1].link = ":7001";
    expect_problem(config, "workers[1].link");
    config.workers[1].link = "127.0.0.1:7002";
    EXPECT_EQ(problem(config), "");
    config.run_dir = "/run/t";
    config.workers[0].link = "unix:/run/t/b.sock";
    config.workers[1].link = "";
    expect_problem(config, "is the address of workers[0].link too");
}

TEST(ValidateConfig, AWorkerIsNotOnTheGatewaysPort) {
    Config config = good();
    config.workers[0].link = "127.0.0.1:8080";
    expect_problem(config, "workers[0].link: '127.0.0.1:8080' is the address of gateway.listen");
    config.gateway.listen = "0.0.0.0:8080";
    config.gateway.auth = "none";
    expect_problem(config, "is the address of gateway.listen");
}

TEST(ValidateConfig, LinksHaveAFixedPort) {
    Config config = good();
    for (const char* bad : {"127.0.0.1:0", "127.0.0.1", "host:65536", "host:-1", "host:x", "::1:80",
                            "[::1]", "unix:", "a b:80", "host:"}) {
        config.workers[0].link = bad;
        EXPECT_NE(problem(config).find("workers[0].link"), std::string::npos) << bad;
    }
    for (const char* fine : {"h:1", "h:65535", "[::1]:9001", "unix:/tmp/w.sock", "unix:w.sock"}) {
        config.workers[0].link = fine;
        EXPECT_EQ(problem(config), "") << fine;
    }
    config.workers[0].link = "unix:/" + std::string(107, 'p');
    expect_problem(config, "1..107 bytes");
}

// Case B198: a base URL is refused with a hint, so no /v1/v1 can come of it.
TEST(ValidateConfig, AUrlIsNoLink) {
    for (const char* url : {"http://127.0.0.1:9001", "http://127.0.0.1:9001/",
                            "http://127.0.0.1:9001/v1", "https://h:1/v1/"}) {
        Config config = good();
        config.workers[0].link = url;
        expect_problem(config, "workers[0].link: is a link to a worker, not a URL");
    }
}

TEST(ValidateConfig, SocketPathsInTheRunDirFit) {
    Config config = good();
    config.run_dir = "/" + std::string(120, 'r');
    expect_problem(config, "run_dir: too long");
}

TEST(ValidateConfig, ListenIsHostAndPort) {
    Config config = good();
    for (const char* bad : {"8080", "", "127.0.0.1:", "127.0.0.1:65536", "::1:8080", "h:8080x"}) {
        config.gateway.listen = bad;
        expect_problem(config, "gateway.listen: must be host:port");
    }
    for (const char* fine : {"127.0.0.1:0", "127.0.0.1:65535", "[::1]:8080", "localhost:1"}) {
        config.gateway.listen = fine;
        EXPECT_EQ(problem(config), "") << fine;
    }
}

TEST(ValidateConfig, APublicAddressNeedsKeysOrAuthNone) {
    for (const char* address : {"0.0.0.0:8080", ":8080", "[::]:8080", "10.0.0.1:80", "example:80",
                                "[::ffff:10.0.0.1]:80", "128.0.0.1:80"}) {
        Config config = good();
        config.gateway.listen = address;
        expect_problem(config, "can be reached from other hosts");
        config.gateway.api_keys = {"0123456789"};
        EXPECT_EQ(problem(config), "") << address;
        config.gateway.api_keys.clear();
        config.gateway.auth = "none";
        EXPECT_EQ(problem(config), "") << address;
        EXPECT_EQ(warnings(config).size(), 1u);
    }
    for (const char* address : {"127.0.0.1:80", "127.9.9.9:80", "[::1]:80", "localhost:80"}) {
        Config config = good();
        config.gateway.listen = address;
        EXPECT_EQ(problem(config), "") << address;
        EXPECT_TRUE(warnings(config).empty());
    }
}

TEST(ValidateConfig, AuthNoneContradictsKeys) {
    Config config = good();
    config.gateway.auth = "none";
    config.gateway.api_keys = {"0123456789"};
    expect_problem(config, "gateway.auth: 'none' contradicts");
}

TEST(ValidateConfig, AModelIsNeededWhereAWorkerRuns) {
    Config config = good();
    config.model.path.clear();
    expect_problem(config, "model.path: is required");
    config.workers[0].link = "10.0.0.1:7001";
    config.workers[1].link = "10.0.0.2:7001";
    EXPECT_EQ(problem(config), "") << "workers elsewhere bring their own";
    config.workers[1].link = ":7001";
    expect_problem(config, "model.path: is required");
}

TEST(ValidateConfig, TheLongestPromptFitsEachQueue) {
    Config config = good();
    config.model.max_model_len = 8'192;
    config.workers[1].queue_tokens = 8'191;
    expect_problem(config, "workers[1].queue_tokens: is less than model.max_model_len (8192)");
    config.workers[1].queue_tokens = 8'192;
    EXPECT_EQ(problem(config), "");
    config.gateway.limits.queue_uncached_tokens = 8'191;
    expect_problem(config, "gateway.limits.queue_uncached_tokens");
}

TEST(ValidateConfig, CodeMadeConfigurationsGiveOneError) {
    Config config = good();
    config.workers.clear();
    config.gateway.listen = "x";
    const auto result = validate(config);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().where, "configuration");
    EXPECT_NE(result.error().message.find("workers:"), std::string::npos);
    EXPECT_NE(result.error().message.find("gateway.listen:"), std::string::npos);
}

}  // namespace
}  // namespace taproot::config
