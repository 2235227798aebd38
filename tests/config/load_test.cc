// SPDX-License-Identifier: Apache-2.0
#include "config/load.h"

#include <gtest/gtest.h>

#include <functional>

#include "config/fields.h"
#include "tests/config/refusals.h"

namespace taproot::config {
namespace {

using testing::expect_refused;
using testing::kMinimal;
using testing::refusal;

Config parsed(const std::string& yaml) {
    auto result = parse_text(yaml, "t.yaml");
    EXPECT_TRUE(result) << result.error().describe();
    return result ? result->config : Config{};
}

TEST(LoadConfig, AnEmptyFileIsAllDefaults) {
    EXPECT_EQ(parsed(""), Config{});
    EXPECT_EQ(parsed("# only a comment\n"), Config{});
    EXPECT_EQ(parsed("---\n"), Config{});
    EXPECT_EQ(parsed("gateway:\nworkers: null\nlog: {}\n"), Config{});
}

TEST(LoadConfig, ReadsEveryKindOfValue) {
    const Config config = parsed(
        "model: {path: 'm.gguf', name: smol, max_model_len: 2048}\n"
        "gateway:\n"
        "  listen: \"[::1]:0\"\n"
        "  api_keys: [aaaaaaaa, \"bbbb bbbb\"]\n"
        "  limits:\n"
        "    body_bytes: 2 MiB\n"
        "    idle_ms: 1.5s\n"
        "    n: 4\n"
        "  route_policy: session_hash\n"
        "workers:\n"
        "  - name: a\n"
        "    kv_bytes: 512MiB\n"
        "  - {name: b, link: 'unix:/tmp/b.sock', step_ms_target: 20}\n"
        "log: {level: off}\n");
    EXPECT_EQ(config.model.path, "m.gguf");
    EXPECT_EQ(config.model.max_model_len, 2'048u);
    EXPECT_EQ(config.gateway.listen, "[::1]:0");
    EXPECT_EQ(config.gateway.api_keys, (std::vector<std::string>{"aaaaaaaa", "bbbb bbbb"}));
    EXPECT_EQ(config.gateway.limits.body_bytes, 2_MiB);
    EXPECT_EQ(config.gateway.limits.idle_ms, 1'500u);
    EXPECT_EQ(config.gateway.limits.n, 4u);
    EXPECT_EQ(config.gateway.limits.stop_bytes, Limits{}.stop_bytes) << "the rest keeps defaults";
    EXPECT_EQ(config.gateway.route_policy, "session_hash");
    ASSERT_EQ(config.workers.size(), 2u);
    EXPECT_EQ(config.workers[0].kv_bytes, 512_MiB);
    EXPECT_EQ(config.workers[1].link, "unix:/tmp/b.sock");
    EXPECT_EQ(config.workers[1].step_ms_target, 20u);
    EXPECT_EQ(config.log.level, "off") << "not a boolean";
}

// Case B192: what is written is what is effective; null is the default.
TEST(LoadConfig, FalseZeroAndEmptyAreValuesAndNullIsTheDefault) {
    const Config config = parsed(
        "gateway: {retries: 0, token_cache_bytes: 0, drain_ms: 0, route_history: 0,\n"
        "          limits: {stop_strings: 0, n: null}, listen: null, api_keys: null}\n"
        "run_dir: ''\n"
        "workers: []\n");
    EXPECT_EQ(config.gateway.retries, 0u);
    EXPECT_EQ(config.gateway.token_cache_bytes, 0u);
    EXPECT_EQ(config.gateway.drain_ms, 0u);
    EXPECT_EQ(config.gateway.route_history, 0u);
    EXPECT_EQ(config.gateway.limits.stop_strings, 0u);
    EXPECT_EQ(config.gateway.limits.n, Limits{}.n);
    EXPECT_EQ(config.gateway.listen, Gateway{}.listen);
    EXPECT_TRUE(config.workers.empty());
    expect_refused("gateway: {api_keys_file: false}\n", "t.yaml:1:26",
                   "gateway.api_keys_file: must be text, not true or false");
    expect_refused("gateway: {retries: false}\n", "t.yaml:1:20", "gateway.retries: 'false' is not");
}

// Case B193.
TEST(LoadConfig, UnknownKeysAreRefusedWithTheNearestOne) {
    expect_refused("gateway:\n  limts: {n: 2}\n", "t.yaml:2:3",
                   "gateway.limts: unknown key; did you mean 'limits'?");
    expect_refused("workers:\n- name: a\n  kv_byte: 1GiB\n", "t.yaml:3:3",
                   "workers[0].kv_byte: unknown key; did you mean 'kv_bytes'?");
    expect_refused("workers:\n- name: a\n  max-num-seqs: 8\n", "t.yaml:3:3",
                   "did you mean 'max_num_seqs'?");
    expect_refused("max_num_seqs: 8\n", "t.yaml:1:1", "did you mean 'workers[].max_num_seqs'?");
    expect_refused("gateway: {body_bytes: 1MiB}\n", "t.yaml:1:11",
                   "did you mean 'gateway.limits.body_bytes'?");
    expect_refused("wrokers: []\n", "t.yaml:1:1", "did you mean 'workers'?");
    expect_refused("Workers: []\n", "t.yaml:1:1", "did you mean 'workers'?");
    expect_refused("workers: [{kv: 1GiB}]\n", "t.yaml:1:12", "did you mean 'kv_bytes'?");
    expect_refused("log: {colour: red}\n", "t.yaml:1:7",
                   "log.colour: unknown key; known here: level");
    expect_refused("\"\": 1\n", "t.yaml:1:1", "unknown key");
    expect_refused(std::string(500, 'k') + ": 1\n", "t.yaml:1:1", "unknown key");
}

TEST(LoadConfig, AnUnknownKvTypeNamesTheKnownOnes) {
    expect_refused("workers:\n- name: a\n  kv_dtype: fp8\n", "t.yaml:3:13",
                   "workers[0].kv_dtype: 'fp8' is not one of f16, bf16, f32, int8");
    expect_refused("workers:\n- name: a\n  kv_dtype: INT8\n", "t.yaml:3:13", "kv_dtype");
}

TEST(LoadConfig, AWrongTypeNamesWhatIsAllowed) {
    expect_refused("gateway: [1]\n", "t.yaml:1:10", "gateway: must be a mapping, not a list");
    expect_refused("workers: {name: a}\n", "t.yaml:1:10",
                   "workers: must be a list of mappings, not a mapping");
    expect_refused("workers: [a]\n", "t.yaml:1:11",
                   "workers[0]: must be a mapping, not a single value");
    expect_refused("gateway: {api_keys: abcdefgh}\n", "t.yaml:1:21",
                   "gateway.api_keys: must be a list of texts, not a single value");
    expect_refused("gateway: {api_keys: [null]}\n", "t.yaml:1:22",
                   "gateway.api_keys[0]: must be text");
    expect_refused("gateway: {listen: {a: 1}}\n", "t.yaml:1:19",
                   "gateway.listen: must be text, not a mapping");
    expect_refused("gateway: {retries: two}\n", "t.yaml:1:20",
                   "gateway.retries: 'two' is not a number in 0..16");
    expect_refused("gateway: {retries: 1.5}\n", "t.yaml:1:20", "'1.5' is not a number");
    expect_refused("gateway: {retries: 1e1}\n", "t.yaml:1:20", "'1e1' is not a number");
    expect_refused("gateway: {retries: 0x1}\n", "t.yaml:1:20", "'0x1' is not a number");
    expect_refused("just text\n", "t.yaml:1:1", "must be a mapping, not a single value");
    expect_refused("- a\n", "t.yaml:1:1", "must be a mapping, not a list");
}

TEST(LoadConfig, OutOfRangeValuesNameTheRange) {
    expect_refused("gateway: {limits: {body_bytes: 100}}\n", "t.yaml:1:32",
                   "gateway.limits.body_bytes: '100' is not a size in 1KiB..1GiB");
    expect_refused("gateway: {limits: {body_bytes: 2GiB}}\n", "t.yaml:1:32", "1KiB..1GiB");
    expect_refused("gateway: {limits: {idle_ms: 0}}\n", "t.yaml:1:29", "a time in 10ms..24h");
    expect_refused("gateway: {limits: {n: -1}}\n", "t.yaml:1:23",
                   "'-1' is not a number in 1..1024");
    expect_refused("gateway: {limits: {n: 99999999999999999999999}}\n", "t.yaml:1:23", "1..1024");
    expect_refused("gateway: {limits: {n: 4294967297}}\n", "t.yaml:1:23", "1..1024");
    expect_refused("gateway: {limits: {idle_ms: 10 parsecs}}\n", "t.yaml:1:29", "a time in");
    expect_refused("gateway: {route_policy: fastest}\n", "t.yaml:1:25",
                   "'fastest' is not one of cost, round_robin, least_loaded, prefix_first, "
                   "session_hash");
    expect_refused("log: {level: ~x}\n", "t.yaml:1:14", "one of debug, info");
}

TEST(LoadConfig, EveryNumberIsCheckedAtItsEdges) {
    const auto yaml_for = [](const std::string& path, const std::string& value) {
        std::string yaml;
        std::string indent;
        for (std::size_t begin = 0; begin < path.size();) {
            const std::size_t dot = std::min(path.find('.', begin), path.size());
            const bool is_list = path.substr(begin, dot - begin) == "workers";
            yaml += indent + path.substr(begin, dot - begin) + ":";
            yaml += dot == path.size() ? " " + value + "\n" : "\n";
            indent += "  ";
            if (is_list) {
                yaml += indent + "-\n";
                indent += "  ";
            }
            begin = dot + 1;
        }
        return yaml;
    };
    int checked = 0;
    const std::function<void(const Table&, const std::string&)> walk = [&](const Table& table,
                                                                           const std::string& at) {
        for (const Field& field : table.fields) {
            const std::string path = at + std::string(field.key);
            if (field.group != nullptr) walk(field.group(), path + ".");
            if (field.kind != Kind::kCount && field.kind != Kind::kSize &&
                field.kind != Kind::kTime)
                continue;
            for (const std::uint64_t value : {field.min, field.max})
                EXPECT_EQ(refusal(yaml_for(path, std::to_string(value))), "") << path;
            EXPECT_NE(refusal(yaml_for(path, std::to_string(field.max + 1))), "") << path;
            if (field.min > 0) {
                EXPECT_NE(refusal(yaml_for(path, std::to_string(field.min - 1))), "") << path;
            }
            EXPECT_NE(refusal(yaml_for(path, "-1")), "") << path;
            ++checked;
        }
    };
    walk(config_table(), "");
    EXPECT_GE(checked, 30);
}

// Case B194.
TEST(LoadConfig, ARepeatedKeyNamesBothLines) {
    expect_refused("run_dir: /a\nlog: {level: warn}\nrun_dir: /b\n", "t.yaml:3:1",
                   "run_dir: is here twice; the first is in line 1");
    expect_refused("gateway:\n  limits: {n: 1}\n  retries: 1\n  limits: {n: 2}\n", "t.yaml:4:3",
                   "gateway.limits: is here twice; the first is in line 2");
    expect_refused("gateway: {retries: 1, \"retries\": 2}\n", "t.yaml:1:23", "line 1");
}

TEST(LoadConfig, TellsSeveralProblemsAtOnceButNotAll) {
    const std::string two = refusal("runn_dir: x\nlog: {level: loud}\n");
    EXPECT_NE(two.find("t.yaml:1:1: runn_dir: unknown key"), std::string::npos) << two;
    EXPECT_NE(two.find("\nt.yaml:2:14: log.level: 'loud' is not"), std::string::npos) << two;
    std::string many;
    for (int i = 0; i < 1'000; ++i) many += "zzz" + std::to_string(i) + ": 1\n";
    const std::string bounded = refusal(many);
    EXPECT_LT(bounded.size(), 4'000u);
    EXPECT_NE(bounded.find("... and 990 more"), std::string::npos);
}

TEST(LoadConfig, LongValuesAreClippedInMessages) {
    const std::string text = refusal("gateway: {retries: " + std::string(100'000, '7') + "}\n");
    EXPECT_LT(text.size(), 300u);
    EXPECT_NE(refusal("run_dir: " + std::string(5'000, 'x') + "\n"), "");
    EXPECT_NE(refusal("run_dir: \"a\\x00b\"\n"), "");
    EXPECT_NE(refusal("run_dir: \"a\\nb\"\n"), "");
}

TEST(LoadConfig, AMissingFileIsAnErrorWithItsName) {
    const auto result = load_file("/nonexistent/taproot.yaml");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().where, "/nonexistent/taproot.yaml");
    EXPECT_EQ(result.error().code, ErrorCode::kIo);
    EXPECT_FALSE(load_file("/")) << "a folder";
}

TEST(LoadConfig, AliasesStandForWhatTheyName) {
    const Config config = parsed(
        "workers:\n- &w\n  name: a\n  kv_bytes: &kv 64MiB\n- {name: b, kv_bytes: *kv}\n- *w\n");
    ASSERT_EQ(config.workers.size(), 3u);
    EXPECT_EQ(config.workers[1].kv_bytes, 64_MiB);
    EXPECT_EQ(config.workers[2].name, "a");
}

TEST(LoadConfig, CrossFieldProblemsPointIntoTheFile) {
    const auto result = load_text(kMinimal + "- name: a\n", "t.yaml");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().where, "t.yaml:4:9");
    EXPECT_EQ(result.error().message.substr(0, 16), "workers[1].name:");
}

TEST(LoadConfig, ExamplesLoad) {
    for (const char* name : {"two_replicas.yaml", "one_machine.yaml"}) {
        const auto result = load_file(std::string(TAPROOT_SOURCE_DIR "/config/examples/") + name);
        ASSERT_TRUE(result) << result.error().describe();
        EXPECT_EQ(result->gateway.listen, "127.0.0.1:8080") << name;
        EXPECT_EQ(result->workers.size(), std::string(name) == "two_replicas.yaml" ? 2u : 1u);
    }
}

}  // namespace
}  // namespace taproot::config
