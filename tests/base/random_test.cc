// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

#include <set>

namespace taproot {
namespace {

TEST(Random, DrawsDependOnlyOnTheirCoordinates) {
    EXPECT_EQ(counter_random(7, 0, 3), counter_random(7, 0, 3));
    std::set<std::uint64_t> seen;
    for (std::uint64_t seed = 0; seed < 10; ++seed)
        for (std::uint64_t stream = 0; stream < 10; ++stream)
            for (std::uint64_t position = 0; position < 10; ++position)
                seen.insert(counter_random(seed, stream, position));
    EXPECT_EQ(seen.size(), 1000u);
}

TEST(Random, UnitDrawsFillTheirRangeEvenly) {
    Random random(1);
    int buckets[10] = {};
    for (int i = 0; i < 100000; ++i) {
        double u = random.unit();
        ASSERT_GE(u, 0.0);
        ASSERT_LT(u, 1.0);
        ++buckets[static_cast<int>(u * 10)];
    }
    // Binomial(100000, 0.1): sigma = 95; six sigma leaves a false alarm below 1e-8.
    for (int count : buckets) EXPECT_NEAR(count, 10000, 570);
}

TEST(Random, BetweenIncludesBothEnds) {
    Random random(2);
    std::set<std::int64_t> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(random.between(-2, 2));
    EXPECT_EQ(seen, (std::set<std::int64_t>{-2, -1, 0, 1, 2}));
}

}  // namespace
}  // namespace taproot
