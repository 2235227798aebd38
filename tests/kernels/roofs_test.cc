// SPDX-License-Identifier: Apache-2.0
#include "kernels/roofs.h"

#include <gtest/gtest.h>

#include "kernels/aligned_buffer.h"
#include "kernels/cpu_features.h"
#include "kernels/roof_ops.h"

namespace taproot {
namespace {

TEST(Roofs, MeasuresEveryRoofWithEveryInstructionSet) {
    for (Isa isa : available_isas()) {
        const auto roofs =
            measure_roofs({.isa = isa, .threads = 2, .seconds = 0.1, .read_bytes = 4u << 20});
        ASSERT_TRUE(roofs);
        // Physically possible, not fast: other load may slow a test without limit.
        EXPECT_GT(roofs->int8_ops_per_s, 1e6);
        EXPECT_LT(roofs->int8_ops_per_s, 1e15);
        EXPECT_GT(roofs->fp32_flop_per_s, 1e6);
        EXPECT_LT(roofs->fp32_flop_per_s, 1e15);
        EXPECT_GT(roofs->fork_join_ns, 10);
        EXPECT_GT(roofs->memcpy_bytes_per_s, 1e6);
        EXPECT_EQ(roofs->bf16_flop_per_s.has_value(),
                  isa == Isa::kAvx512 && cpu_features().avx512_bf16);
        if (roofs->bf16_flop_per_s) {
            EXPECT_GT(*roofs->bf16_flop_per_s, 1e6);
            EXPECT_LT(*roofs->bf16_flop_per_s, 1e15);
        }
        ASSERT_EQ(roofs->read_bytes_per_s.size(), 2u);
        for (double rate : roofs->read_bytes_per_s) EXPECT_GT(rate, 1e6);
    }
}

// A loop that skipped some of its data would promise too much.
TEST(Roofs, BothReadingLoopsReadEveryWord) {
    std::vector<RoofOps> all = {ref::roof_ops()};
#if defined(__x86_64__)
    if (cpu_features().avx2) all.push_back(avx2::roof_ops());
    if (cpu_features().avx512) all.push_back(avx512::roof_ops());
#endif
    constexpr std::size_t kBytes = 64 * 1024;
    AlignedBuffer buffer(kBytes + 4096);  // prefetches reach beyond what is read
    for (const RoofOps& ops : all) {
        const float zero = ops.read(buffer.data(), kBytes);
        EXPECT_EQ(ops.read_streams(buffer.data(), kBytes), zero);
        // The sums fold 64-byte lines together; the first word of each line shows in the result.
        for (std::size_t line = 0; line < kBytes; line += 64) {
            buffer.as<std::uint32_t>()[line / 4] = 1;
            EXPECT_NE(ops.read(buffer.data(), kBytes), zero) << line;
            EXPECT_NE(ops.read_streams(buffer.data(), kBytes), zero) << line;
            buffer.as<std::uint32_t>()[line / 4] = 0;
        }
    }
}

TEST(Roofs, RefusesOptionsOutOfRangeAndNamesThem) {
    auto where = [](const RoofOptions& options) {
        const auto roofs = measure_roofs(options);
        return roofs ? "accepted" : roofs.error().where;
    };
    EXPECT_EQ(where({.threads = 0}), "threads");
    EXPECT_EQ(where({.seconds = 0.0}), "seconds");
    EXPECT_EQ(where({.read_bytes = 5}), "read_bytes");
}

}  // namespace
}  // namespace taproot
