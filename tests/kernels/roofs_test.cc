// SPDX-License-Identifier: Apache-2.0
#include "kernels/roofs.h"

#include <gtest/gtest.h>

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
        ASSERT_EQ(roofs->read_bytes_per_s.size(), 2u);
        for (double rate : roofs->read_bytes_per_s) EXPECT_GT(rate, 1e6);
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
