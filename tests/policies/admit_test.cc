// SPDX-License-Identifier: Apache-2.0
#include "policies/admit/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/random.h"

namespace taproot {
namespace {

QueueView busy() {
    return {.running = 64,
            .seqs_max = 64,
            .queued_requests = 10,
            .queued_requests_max = 20,
            .queued_uncached_tokens = 5'000,
            .queued_uncached_tokens_max = 10'000,
            .prefill_ms_per_token = 0.5,
            .request_ms = 640};
}

TEST(AdmitTokenBudget, AcceptsWhereASlotIsFreeAndNobodyWaits) {
    const AdmitDecision d = admit_token_budget({.uncached_tokens = 100}, {.running = 63});
    EXPECT_EQ(d.action, AdmitAction::kAccept);
    EXPECT_EQ(admit_token_budget({.uncached_tokens = 100}, {.running = 64}).action,
              AdmitAction::kQueue);
    EXPECT_EQ(admit_token_budget({.sequences = 2}, {.running = 63}).action, AdmitAction::kQueue);
}

TEST(AdmitTokenBudget, QueuesWithThePredictedWait) {
    const AdmitDecision d = admit_token_budget({.uncached_tokens = 100}, busy());
    EXPECT_EQ(d.action, AdmitAction::kQueue);
    EXPECT_DOUBLE_EQ(d.wait_ms, 2'500);  // the backlog; 11 slots would be free in 110 ms
}

TEST(AdmitTokenBudget, TheBoundInRequestsIsExact) {
    QueueView queue = busy();
    queue.queued_requests = 19;
    EXPECT_EQ(admit_token_budget({}, queue).action, AdmitAction::kQueue);
    queue.queued_requests = 20;
    const AdmitDecision d = admit_token_budget({}, queue);
    EXPECT_EQ(d.action, AdmitAction::kReject);
    EXPECT_DOUBLE_EQ(d.retry_after_ms, 125);  // one of 20 has left its share of 2500 ms
    EXPECT_EQ(d.reason, "20 requests wait, 20 may");
}

TEST(AdmitTokenBudget, TheBoundInUncachedTokensIsExact) {
    EXPECT_EQ(admit_token_budget({.uncached_tokens = 5'000}, busy()).action, AdmitAction::kQueue);
    const AdmitDecision d = admit_token_budget({.uncached_tokens = 5'001}, busy());
    EXPECT_EQ(d.action, AdmitAction::kReject);
    EXPECT_DOUBLE_EQ(d.retry_after_ms, 100);  // half a millisecond, raised to the least
    EXPECT_DOUBLE_EQ(admit_token_budget({.uncached_tokens = 6'000}, busy()).retry_after_ms, 500);
}

TEST(AdmitTokenBudget, CachedTokensDoNotCount) {
    QueueView queue = busy();
    queue.queued_uncached_tokens = 10'000;
    EXPECT_EQ(admit_token_budget({.uncached_tokens = 0}, queue).action, AdmitAction::kQueue);
}

TEST(AdmitTokenBudget, ARequestLargerThanTheBoundEntersAnEmptyQueue) {
    QueueView queue = busy();
    queue.queued_requests = 0;
    queue.queued_uncached_tokens = 0;
    EXPECT_EQ(admit_token_budget({.uncached_tokens = 50'000}, queue).action, AdmitAction::kQueue);
    queue.queued_requests = 1;
    queue.queued_uncached_tokens = 10;
    const AdmitDecision d = admit_token_budget({.uncached_tokens = 50'000}, queue);
    EXPECT_EQ(d.action, AdmitAction::kReject);
    EXPECT_DOUBLE_EQ(d.retry_after_ms, 100);  // as soon as the queue is empty
}

TEST(AdmitTokenBudget, UnknownSpeedsStillGiveAFiniteTime) {
    QueueView queue = busy();
    queue.prefill_ms_per_token = std::numeric_limits<double>::quiet_NaN();
    queue.request_ms = 0;
    queue.queued_requests = 20;
    const AdmitDecision d = admit_token_budget({}, queue);
    EXPECT_GE(d.retry_after_ms, 100);
    EXPECT_LE(d.retry_after_ms, 600'000);
    queue.queued_uncached_tokens = 4'000'000'000'000;
    EXPECT_DOUBLE_EQ(admit_token_budget({}, queue).retry_after_ms, 600'000);
    queue.queued_requests_max = 0;
    queue.queued_requests = 0;
    EXPECT_EQ(admit_token_budget({}, queue).action, AdmitAction::kReject);
}

TEST(AdmittedBefore, PriorityThenLeastUncachedWorkThenArrival) {
    const WaitingView big{.uncached_tokens = 900, .arrival = 1};
    const WaitingView small{.uncached_tokens = 10, .arrival = 2};
    const WaitingView small_later{.uncached_tokens = 10, .arrival = 3};
    const WaitingView urgent{.priority = -1, .uncached_tokens = 5000, .arrival = 4};
    EXPECT_TRUE(admitted_before(small, big, 2000));
    EXPECT_TRUE(admitted_before(small, small_later, 2000));
    EXPECT_TRUE(admitted_before(urgent, small, 2000));
    EXPECT_FALSE(admitted_before(big, big, 2000));
}

TEST(AdmittedBefore, WaitingBeatsLessWorkAndInTheEndPriority) {
    WaitingView old{.priority = 0, .uncached_tokens = 9000, .waited_ms = 2000, .arrival = 1};
    const WaitingView fresh{.priority = 0, .uncached_tokens = 1, .arrival = 9};
    const WaitingView urgent{.priority = -5, .uncached_tokens = 1, .arrival = 10};
    EXPECT_TRUE(admitted_before(old, fresh, 2000));
    EXPECT_FALSE(admitted_before(old, urgent, 2000));
    old.waited_ms = 20'000;
    EXPECT_TRUE(admitted_before(old, urgent, 2000));
}

TEST(AdmittedBefore, IsAStrictWeakOrder) {
    Random random(2);
    std::vector<WaitingView> all;
    for (std::uint64_t i = 0; i < 40; ++i) {
        all.push_back({.priority = static_cast<std::int32_t>(random.below(3)),
                       .uncached_tokens = random.below(4),
                       .waited_ms = static_cast<double>(random.below(4)) * 1000,
                       .arrival = i});
    }
    for (const auto& a : all) {
        for (const auto& b : all) {
            const bool ab = admitted_before(a, b, 300);
            ASSERT_FALSE(ab && admitted_before(b, a, 300));
            ASSERT_TRUE(a.arrival == b.arrival || ab || admitted_before(b, a, 300));  // total
            for (const auto& c : all) {
                if (ab && admitted_before(b, c, 300)) {
                    ASSERT_TRUE(admitted_before(a, c, 300));
                }
            }
        }
    }
}

}  // namespace
}  // namespace taproot
