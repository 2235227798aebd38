// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/flights.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace taproot::gateway {
namespace {

// Random operations; after each the sums must equal a recount.
TEST(Flights, SumsStayEqualToARecountUnderRandomOperations) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Random random(seed);
        Flights flights(3);
        std::uint64_t next = 1;
        for (int step = 0; step < 400; ++step) {
            RequestId id{1 + random.below(next)};
            switch (random.below(5)) {
                case 0: {
                    Flight flight;
                    flight.worker = WorkerId{static_cast<std::uint32_t>(random.below(3))};
                    flight.model = random.below(2);
                    flight.prompt_tokens = 1 + static_cast<std::uint32_t>(random.below(1'000));
                    flight.expected_cached_tokens =
                        static_cast<std::uint32_t>(random.below(flight.prompt_tokens));
                    flight.open_choices.assign(1 + random.below(3), true);
                    flight.open_count = flight.open_choices.size();
                    flights.add(RequestId{next++}, std::move(flight));
                    break;
                }
                case 1:
                    if (Flight* flight = flights.find(id)) flights.mark_started(*flight);
                    break;
                case 2:
                    if (Flight* flight = flights.find(id)) flights.mark_token(*flight);
                    break;
                case 3:
                    if (Flight* flight = flights.find(id)) {
                        std::size_t open = flight->open_count;
                        bool closed = flights.close_choice(
                            *flight, static_cast<std::uint16_t>(random.below(4)));
                        EXPECT_EQ(flight->open_count, open - (closed ? 1 : 0));
                    }
                    break;
                default:
                    flights.remove(id);
                    EXPECT_EQ(flights.find(id), nullptr);
            }
            ASSERT_TRUE(flights.check()) << "seed " << seed << " step " << step;
        }
        for (std::uint32_t worker = 0; worker < 3; ++worker)
            for (RequestId id : flights.of_worker(WorkerId{worker})) flights.remove(id);
        EXPECT_EQ(flights.size(), 0u);
        for (std::uint32_t worker = 0; worker < 3; ++worker) {
            EXPECT_EQ(flights.at_worker(WorkerId{worker}).requests, 0u);
            EXPECT_EQ(flights.at_worker(WorkerId{worker}).unstarted_uncached_tokens, 0u);
        }
    }
}

}  // namespace
}  // namespace taproot::gateway
