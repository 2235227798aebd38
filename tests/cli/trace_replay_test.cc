// SPDX-License-Identifier: Apache-2.0
#include "cli/trace_replay.h"

#include <gtest/gtest.h>

#include <fstream>

#include "cli/temporary_folder.h"

namespace taproot::cli {
namespace {

Result<std::vector<TracePrompt>> read(const std::string& text) {
    TemporaryFolder folder("taproot-trace");
    std::string path = folder.path() + "/trace.jsonl";
    std::ofstream(path) << text;
    return read_trace(path);
}

ReplayCounts must_replay(const std::vector<TracePrompt>& prompts, const ReplaySizes& sizes) {
    Result<ReplayCounts> counts = replay_trace(prompts, sizes);
    EXPECT_TRUE(counts.has_value());
    return counts ? *counts : ReplayCounts{};
}

TEST(TraceReplay, ReadsBlockIdsAndNamesTheLineOfWhatIsNotATrace) {
    auto prompts = read("{\"timestamp\": 0, \"hash_ids\": [0, 7]}\n\n{\"hash_ids\": []}\n");
    ASSERT_TRUE(prompts);
    EXPECT_EQ(*prompts, (std::vector<TracePrompt>{{0, 7}, {}}));
    for (const char* bad :
         {"{\"hash_ids\": [1]}\n[]", "{\"hash_ids\": [1]}\n{\"hash_ids\": [-1]}",
          "{\"hash_ids\": [1]}\n{}", "{\"hash_ids\": [1]}\n{\"hash_ids\": [0.5]}"})
        EXPECT_NE(read(bad).error().describe().find("trace.jsonl:2: "), std::string::npos) << bad;
    EXPECT_EQ(read_trace("/nowhere/trace").error().code, ErrorCode::kNotFound);
}

TEST(TraceReplay, AHitIsOnTheDeviceWhileItFitsAndInRamAfterThat) {
    std::vector<TracePrompt> prompts = {{1, 2, 3, 4}, {1, 2, 5}, {6, 7, 8, 9}, {1, 2, 3, 4}};
    ReplayCounts roomy = must_replay(prompts, {.device_blocks = 100, .ram_blocks = 0});
    EXPECT_EQ(roomy.blocks, 15u);
    EXPECT_EQ(roomy.device_hits, 6u);
    EXPECT_EQ(roomy.ideal_hits, 6u);
    ReplayCounts tight = must_replay(prompts, {.device_blocks = 4, .ram_blocks = 100});
    EXPECT_EQ(tight.device_hits + tight.ram_hits, 6u);
    EXPECT_EQ(tight.ram_hits, 4u);  // 1, 2 were on the device once; then all four are in RAM
    EXPECT_EQ(tight.wrong_blocks, 0u);
    ReplayCounts small = must_replay(prompts, {.device_blocks = 4, .ram_blocks = 0});
    EXPECT_EQ(small.device_hits, 2u);
}

TEST(TraceReplay, APromptLargerThanTheDeviceIsAnErrorThatNamesIt) {
    auto counts = replay_trace({{1}, {1, 2, 3, 4, 5}}, {.device_blocks = 4, .ram_blocks = 10});
    ASSERT_FALSE(counts);
    EXPECT_NE(counts.error().describe().find("request 2"), std::string::npos);
}

}  // namespace
}  // namespace taproot::cli
