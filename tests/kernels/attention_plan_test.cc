// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_plan.h"

#include <gtest/gtest.h>

namespace taproot {
namespace {

constexpr KvGeometry kGeometry{2, 3, 64, KvDType::kF16};
constexpr int kHeads = 9;

// A token's K and V of one layer.
constexpr std::int64_t kTokenBytes = 2 * 2 * 3 * 64;

struct Sequences {
    // `count` sequences of `tokens` tokens, one of them new, of which `shared` lie in common
    // blocks.
    Sequences(int count, int tokens, int shared) {
        std::uint32_t next = 1000;
        tables.resize(static_cast<std::size_t>(count));
        for (auto& table : tables)
            for (int token = 0; token < tokens; token += kBlockTokens)
                table.push_back(token < shared
                                    ? BlockId{static_cast<std::uint32_t>(token / kBlockTokens)}
                                    : BlockId{next++});
        for (int i = 0; i < count; ++i)
            list.push_back({i, 1, tokens - 1, tables[static_cast<std::size_t>(i)]});
    }
    std::vector<std::vector<BlockId>> tables;
    std::vector<AttentionSequence> list;
};

TEST(AttentionPlan, CountsThePagesThatAreReadAndTheLeastThereAre) {
    for (int threads : {1, 2, 7}) {
        AttentionPlan plan;
        Sequences apart(4, 320, 0);
        plan.build(kGeometry, kHeads, threads, apart.list);
        EXPECT_EQ(plan.kv_bytes_read(apart.list), 4 * 320 * kTokenBytes);
        EXPECT_EQ(plan.kv_bytes_minimum(apart.list), 4 * 320 * kTokenBytes);

        Sequences together(16, 1040, 1024);
        plan.build(kGeometry, kHeads, threads, together.list);
        EXPECT_EQ(plan.kv_bytes_minimum(together.list), (1024 + 16 * 16) * kTokenBytes);
        EXPECT_EQ(plan.kv_bytes_read(together.list), (1024 + 16 * 16) * kTokenBytes);
    }
}

TEST(AttentionPlan, CountsWholePages) {
    AttentionPlan plan;
    Sequences one(1, 33, 0);
    plan.build(kGeometry, kHeads, 1, one.list);
    EXPECT_EQ(plan.kv_bytes_read(one.list), 48 * kTokenBytes);
}

TEST(AttentionPlan, ARowGroupOfALongPrefillReadsWhatItSees) {
    AttentionPlan plan;
    Sequences one(1, 512, 0);
    one.list[0] = {0, 512, 0, one.tables[0]};
    plan.build(kGeometry, kHeads, 1, one.list);
    std::int64_t tokens = 0;  // 32 new tokens a time
    for (int end = 32; end <= 512; end += 32) tokens += end;
    EXPECT_EQ(plan.kv_bytes_read(one.list), tokens * kTokenBytes);
    EXPECT_EQ(plan.kv_bytes_minimum(one.list), 512 * kTokenBytes);
}

}  // namespace
}  // namespace taproot
