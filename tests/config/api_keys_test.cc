// SPDX-License-Identifier: Apache-2.0
#include "config/api_keys.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "config/load.h"
#include "tests/config/refusals.h"

namespace taproot::config {
namespace {

using testing::kMinimal;
using Keys = std::vector<std::string>;

class ApiKeysTest : public ::testing::Test {
protected:
    ApiKeysTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "taproot-keys-XXXXXX");
        folder_ = mkdtemp(pattern.data());
    }
    ~ApiKeysTest() override { std::filesystem::remove_all(folder_); }

    std::string file(const std::string& text) {
        const std::string path = folder_ / ("keys" + std::to_string(++files_));
        std::ofstream(path, std::ios::binary) << text;
        return path;
    }
    static Result<Config> load(const std::string& gateway) {
        return load_text(kMinimal + "gateway: " + gateway + "\n", "t.yaml");
    }
    static Keys keys(const std::string& gateway) {
        auto result = load(gateway);
        EXPECT_TRUE(result) << result.error().describe();
        return result ? result->gateway.api_keys : Keys{};
    }
    static void expect_refused(const std::string& gateway, const std::string& part) {
        const auto result = load(gateway);
        ASSERT_FALSE(result) << gateway;
        EXPECT_NE(result.error().describe().find(part), std::string::npos)
            << result.error().describe();
        EXPECT_EQ(result.error().where.substr(0, 9), "t.yaml:4:") << result.error().where;
    }

private:
    std::filesystem::path folder_;
    int files_ = 0;
};

// Case B199, all of this file: nothing that was meant to give keys may quietly give none.
TEST_F(ApiKeysTest, AnOptionThatYieldsNoKeyIsRefused) {
    expect_refused("{api_keys: []}", "gateway.api_keys: is present but holds no key");
    expect_refused("{api_keys: ['']}", "gateway.api_keys[0]: a key has 8..512 characters");
    expect_refused("{api_keys: ['   \\r\\n']}", "gateway.api_keys[0]");
    expect_refused("{api_keys_file: ''}", "gateway.api_keys_file: is present but names no file");
    expect_refused("{api_keys_file: '" + file("") + "'}", "holds no key");
    expect_refused("{api_keys_file: '" + file("\r\n\n   \r\n# none yet\n") + "'}", "holds no key");
    expect_refused("{api_keys_file: /nonexistent/keys}", "No such file");
}

TEST_F(ApiKeysTest, AnUnexpandedVariableIsNoKey) {
    expect_refused("{api_keys: ['${UNSET_KEY}']}", "variables are not expanded");
    expect_refused("{api_keys: ['$TAPROOT_KEY']}", "variables are not expanded");
}

TEST_F(ApiKeysTest, ShortOrBrokenKeysAreRefusedWithoutShowingThem) {
    expect_refused("{api_keys: [s3cret7]}", "this one has 7");
    const auto result = load("{api_keys: [s3cret7]}");
    EXPECT_EQ(result.error().describe().find("s3cret7"), std::string::npos);
    expect_refused("{api_keys: ['two words']}", "no blanks inside");
    expect_refused("{api_keys: ['k\xC3\xA9ykeykey']}", "printable ASCII");
    expect_refused("{api_keys: ['" + std::string(513, 'k') + "']}", "this one has 513");
    expect_refused("{api_keys_file: '" + file("longenough\nshort\n") + "'}", "line 2");
    EXPECT_EQ(keys("{api_keys: [12345678]}"), Keys{"12345678"});
}

TEST_F(ApiKeysTest, LineEndsAndBlanksAroundAKeyAreTrimmed) {
    EXPECT_EQ(keys("{api_keys: [\"abcdefgh\\r\\n\", '  ijklmnop ']}"),
              (Keys{"abcdefgh", "ijklmnop"}));
    EXPECT_EQ(
        keys("{api_keys_file: '" +
             file("\xEF\xBB\xBF# team\r\nabcdefgh\r\n\r\n  ijklmnop\t\r\nlast-without-end") + "'}"),
        (Keys{"abcdefgh", "ijklmnop", "last-without-end"}));
}

TEST_F(ApiKeysTest, KeysOfBothPlacesCountAndEachOnce) {
    EXPECT_EQ(keys("{api_keys: [abcdefgh, abcdefgh], api_keys_file: '" +
                   file("ijklmnop\nabcdefgh\n") + "', listen: '0.0.0.0:80'}"),
              (Keys{"abcdefgh", "ijklmnop"}));
}

TEST_F(ApiKeysTest, NullMeansNoOption) {
    EXPECT_EQ(keys("{api_keys: null, api_keys_file: null}"), Keys{});
    EXPECT_FALSE(load("{api_keys: null, listen: '0.0.0.0:80'}"));
    EXPECT_TRUE(load("{api_keys: null, listen: '0.0.0.0:80', auth: none}"));
}

TEST_F(ApiKeysTest, AHugeKeyFileIsRefused) {
    expect_refused("{api_keys_file: '" + file(std::string((1 << 20) + 1, 'k')) + "'}",
                   "larger than");
}

}  // namespace
}  // namespace taproot::config
