// SPDX-License-Identifier: Apache-2.0
#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace taproot {
namespace {

TEST(BoundedQueue, RefusesWhenFullAndLeavesTheItemWithTheCaller) {
    BoundedQueue<std::unique_ptr<int>> queue(1);
    EXPECT_TRUE(queue.try_push(std::make_unique<int>(1)));
    auto second = std::make_unique<int>(2);
    EXPECT_FALSE(queue.try_push(std::move(second)));
    EXPECT_NE(second, nullptr);
}

TEST(BoundedQueue, DrainKeepsOrderAndMakesRoom) {
    BoundedQueue<int> queue(3);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(queue.try_push(int(i)));
    EXPECT_EQ(queue.drain(), (std::vector<int>{0, 1, 2}));
    EXPECT_TRUE(queue.try_push(3));
}

TEST(BoundedQueue, CloseWakesTheConsumerAndKeepsWhatIsQueued) {
    BoundedQueue<int> queue(4);
    ASSERT_TRUE(queue.try_push(7));
    queue.close();
    EXPECT_FALSE(queue.try_push(8));
    EXPECT_EQ(queue.drain_wait(std::chrono::hours(1)), std::vector<int>{7});
    EXPECT_TRUE(queue.drain_wait(std::chrono::hours(1)).empty());
}

TEST(BoundedQueue, ManyProducersLoseNothing) {
    BoundedQueue<int> queue(1 << 20);
    std::vector<std::thread> producers;
    for (int p = 0; p < 4; ++p)
        producers.emplace_back([&queue] {
            for (int i = 0; i < 5000; ++i) ASSERT_TRUE(queue.try_push(int(i)));
        });
    std::size_t got = 0;
    while (got < 20000) got += queue.drain_wait(std::chrono::seconds(10)).size();
    for (auto& p : producers) p.join();
    EXPECT_EQ(got, 20000u);
}

}  // namespace
}  // namespace taproot
