// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "prefix_index_twin.h"

namespace taproot {
namespace {

using testing::PrefixIndexTwin;
using testing::RandomSource;

TEST(PrefixIndexModel, AgreesWithOneMapPerWorkerOverRandomEvents) {
    const testing::Seeds seeds = testing::seeds(200);
    std::uint64_t matches = 0;
    for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
        RandomSource source(seed, 4000);
        PrefixIndexTwin twin(source, {});
        const std::string failure = twin.run();
        ASSERT_EQ(failure, "") << "replay with TAPROOT_SEED=" << seed;
        matches += twin.matches();
    }
    EXPECT_GT(matches, 100u);
}

TEST(PrefixIndexModel, NeverClaimsTooMuchBelowATightByteBudget) {
    const testing::Seeds seeds = testing::seeds(12);
    std::uint64_t dropped = 0;
    for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
        RandomSource source(seed, 30'000);
        PrefixIndexTwin twin(source, {.workers = {0, 1, 2, 3, 4, 5, 6, 7},
                                      .hashes = 6'000,
                                      .batch_max = 100,
                                      .bytes_max = 1,  // raised to the least allowed
                                      .reservations_max = 20,
                                      .exact = false});
        const std::string failure = twin.run();
        ASSERT_EQ(failure, "") << "replay with TAPROOT_SEED=" << seed;
        dropped += twin.stats().dropped_for_budget;
    }
    if (seeds.count > 1) {
        EXPECT_GT(dropped, 0u);
    }
}

}  // namespace
}  // namespace taproot
