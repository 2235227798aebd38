// SPDX-License-Identifier: Apache-2.0
#include "config/print.h"

#include <gtest/gtest.h>

#include <functional>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "config/fields.h"
#include "config/load.h"

namespace taproot::config {
namespace {

const std::string kReferencePath = TAPROOT_SOURCE_DIR "/config/reference.yaml";

std::string read(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The defaults, with the two values that a file must give.
Config reference_config() {
    Config config;
    config.model.path = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
    config.workers.emplace_back().name = "worker-0";
    return config;
}

TEST(ReferenceConfig, IsWhatTheTablesSay) {
    if (std::getenv("TAPROOT_UPDATE_REFERENCE") != nullptr)
        std::ofstream(kReferencePath, std::ios::binary) << print_reference();
    EXPECT_EQ(read(kReferencePath), print_reference())
        << "run config_test with TAPROOT_UPDATE_REFERENCE=1 to write it anew";
}

TEST(ReferenceConfig, LoadsAndEqualsTheDefaultsOfTheSchema) {
    const auto loaded = load_file(kReferencePath);
    ASSERT_TRUE(loaded) << loaded.error().describe();
    EXPECT_EQ(*loaded, reference_config());
}

TEST(ReferenceConfig, ShowsEveryKeyOfTheTables) {
    const auto parsed = parse_text(read(kReferencePath), "reference.yaml");
    ASSERT_TRUE(parsed);
    const std::string text = read(kReferencePath);
    const std::function<int(const Table&)> count = [&](const Table& table) {
        int keys = 0;
        for (const Field& field : table.fields) {
            EXPECT_NE(text.find(std::string(field.key) + ":"), std::string::npos) << field.key;
            EXPECT_NE(text.find("# " + std::string(field.help)), std::string::npos) << field.key;
            EXPECT_FALSE(field.help.empty());
            keys += 1 + (field.group != nullptr ? count(field.group()) : 0);
        }
        return keys;
    };
    EXPECT_EQ(count(config_table()), 56);
}

// A member without a row could not be set, printed or documented: changing any byte of a struct
// that the printed form does not show is such a member.
TEST(ReferenceConfig, EveryMemberOfTheSchemaHasARow) {
    Config changed = reference_config();
    const std::function<void(const Table&, void*)> change = [&](const Table& table, void* object) {
        for (const Field& field : table.fields) {
            void* member = field.member(object);
            switch (field.kind) {
                case Kind::kGroup:
                    change(field.group(), member);
                    break;
                case Kind::kGroupList:
                    change(field.group(), field.list_item(member, 0));
                    break;
                case Kind::kTextList:
                    static_cast<std::vector<std::string>*>(member)->push_back("changed-key");
                    break;
                case Kind::kText:
                    *static_cast<std::string*>(member) = "changed";
                    break;
                case Kind::kChoice:
                    *static_cast<std::string*>(member) = field.choices.back();
                    break;
                case Kind::kFlag:
                    *static_cast<bool*>(member) ^= true;
                    break;
                default:
                    field.set_number(object, field.max);
                    break;
            }
        }
    };
    change(config_table(), &changed);
    const auto back = parse_text(print(changed, {.show_secrets = true}), "printed");
    ASSERT_TRUE(back) << back.error().describe();
    EXPECT_EQ(back->config, changed);
    // As many rows as members: a binding of the wrong length does not compile.
    const Model model;
    [[maybe_unused]] const auto& [m1, m2, m3] = model;
    EXPECT_EQ(model_table().fields.size(), 3u);
    const Limits limits;
    [[maybe_unused]] const auto& [l1, l2, l3, l4, l5, l6, l7, l8, l9, l10, l11, l12, l13, l14, l15,
                                  l16, l17] = limits;
    EXPECT_EQ(limits_table().fields.size(), 17u);
    const Gateway gateway;
    [[maybe_unused]] const auto& [g1, g2, g3, g4, g5, g6, g7, g8, g9, g10, g11, g12, g13, g14] =
        gateway;
    EXPECT_EQ(gateway_table().fields.size(), 14u);
    const Worker worker;
    [[maybe_unused]] const auto& [w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15,
                                  w16] = worker;
    EXPECT_EQ(worker_table().fields.size(), 16u);
    const Config config;
    [[maybe_unused]] const auto& [c1, c2, c3, c4, c5] = config;
    EXPECT_EQ(config_table().fields.size(), 5u);
}

TEST(PrintConfig, EffectiveConfigurationReadsBackTheSame) {
    Config config = reference_config();
    config.gateway.listen = "[::1]:0";
    config.gateway.limits.body_bytes = 1'234'567;
    config.gateway.limits.idle_ms = 90'001;
    config.run_dir = "/tmp/with space: \"quotes\" and \\ # hash";
    config.workers.emplace_back().name = "null";
    const auto back = parse_text(print(config), "printed");
    ASSERT_TRUE(back) << back.error().describe() << print(config);
    EXPECT_EQ(back->config, config);
}

TEST(PrintConfig, KeysAreNotShownUnlessAsked) {
    Config config = reference_config();
    config.gateway.api_keys = {"very-secret-key", "another-secret"};
    EXPECT_EQ(print(config).find("secret"), std::string::npos);
    EXPECT_NE(print(config).find("# 2 present, not shown"), std::string::npos);
    const auto back = parse_text(print(config, {.show_secrets = true}), "printed");
    ASSERT_TRUE(back);
    EXPECT_EQ(back->config, config);
}

}  // namespace
}  // namespace taproot::config
