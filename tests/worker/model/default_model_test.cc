// SPDX-License-Identifier: Apache-2.0
// The default model as the dump of an independent reader describes it (shared data,
// smollm2_gguf.txt).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/units.h"
#include "tests/support/shared_data.h"
#include "worker/model/loaded_model.h"

namespace taproot {
namespace {

using testing::default_model;
using testing::shared_dir;

// "name=value" at `key` in a line of the dump.
std::uint64_t number_after(const std::string& line, const std::string& key) {
    return std::strtoull(line.c_str() + line.find(key) + key.size(), nullptr, 10);
}

TEST(DefaultModel, TensorsAreWhereTheDumpSaysTheyAre) {
    auto dump = shared_dir() / "data" / "smollm2_gguf.txt";
    TAPROOT_NEEDS_FILE(dump);
    TAPROOT_NEEDS_FILE(default_model());
    auto file = GgufFile::open(default_model());
    ASSERT_TRUE(file) << file.error().describe();
    EXPECT_EQ(file->version(), 3u);
    EXPECT_EQ(file->key_count(), 33u);
    EXPECT_EQ(file->tensors().size(), 272u);
    EXPECT_EQ(file->data_offset(), 1785664u);
    EXPECT_EQ(file->bytes().size(), 98362432u);

    std::ifstream lines(dump);
    std::size_t seen = 0;
    for (std::string line; std::getline(lines, line);) {
        if (line.find("\tn_bytes=") == std::string::npos &&
            line.find("\tne=[") == std::string::npos)
            continue;
        std::istringstream fields(line);
        std::string name, shape, type;
        std::getline(fields, name, '\t');
        std::getline(fields, shape, '\t');
        std::getline(fields, type, '\t');
        const GgufTensor* tensor = file->find_tensor(name);
        ASSERT_NE(tensor, nullptr) << name;
        EXPECT_EQ("ne=" + tensor->shape(), shape) << name;
        EXPECT_EQ(tensor->type->name, type) << name;
        EXPECT_EQ(tensor->elements, number_after(line, "n_elements=")) << name;
        EXPECT_EQ(tensor->bytes.size(), number_after(line, "n_bytes=")) << name;
        EXPECT_EQ(tensor->offset, number_after(line, "file_offset=")) << name;
        ++seen;
    }
    EXPECT_EQ(seen, 272u);
}

TEST(DefaultModel, FirstBytesOfTensorsMatchTheDump) {
    auto dump = shared_dir() / "data" / "smollm2_gguf.txt";
    TAPROOT_NEEDS_FILE(dump);
    TAPROOT_NEEDS_FILE(default_model());
    auto file = GgufFile::open(default_model());
    ASSERT_TRUE(file) << file.error().describe();
    std::ifstream lines(dump);
    std::string name;
    int seen = 0;
    for (std::string line; std::getline(lines, line);) {
        const std::string label = "   first raw bytes: ";
        if (line.rfind(label, 0) != 0) {
            name = line.substr(0, line.find(' '));
            continue;
        }
        const GgufTensor* tensor = file->find_tensor(name);
        ASSERT_NE(tensor, nullptr) << name;
        std::string hex;
        for (std::size_t i = 0; i < (line.size() - label.size()) / 2; ++i) {
            constexpr char digits[] = "0123456789abcdef";
            auto byte = std::to_integer<unsigned>(tensor->bytes[i]);
            hex += {digits[byte >> 4], digits[byte & 15]};
        }
        EXPECT_EQ(hex, line.substr(label.size())) << name;
        ++seen;
    }
    EXPECT_GE(seen, 6);
}

TEST(DefaultModel, LoadsWithTheNumbersOfItsCard) {
    TAPROOT_NEEDS_FILE(default_model());
    auto model = load_model(default_model());
    ASSERT_TRUE(model) << model.error().describe();
    EXPECT_EQ(model->config.layers, 30);
    EXPECT_EQ(model->config.embedding, 576);
    EXPECT_EQ(model->config.feed_forward, 1536);
    EXPECT_EQ(model->config.heads, 9);
    EXPECT_EQ(model->config.kv_heads, 3);
    EXPECT_EQ(model->config.head_dim, 64);
    EXPECT_EQ(model->config.context, 8192);
    EXPECT_EQ(model->config.vocabulary, 49152);
    EXPECT_EQ(model->config.rope_base, 100000.0);
    EXPECT_EQ(model->text.tokens.size(), 49152u);
    EXPECT_EQ(model->text.merges.size(), 48900u);
    EXPECT_EQ(model->text.tokens[216], "Ġ");
    EXPECT_EQ(model->text.eos, 2);
    EXPECT_EQ(model->text.bos, 1);
    EXPECT_EQ(model->text.unknown, 0);
    auto again = load_model(default_model());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->digest, model->digest);
    EXPECT_NE(model->digest, 0u);
}

}  // namespace
}  // namespace taproot
