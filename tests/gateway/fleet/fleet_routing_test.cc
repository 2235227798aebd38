// SPDX-License-Identifier: Apache-2.0
// The fleet between index, policy and limits: who is chosen, who waits, who is believed.
#include <gtest/gtest.h>

#include <algorithm>

#include "gateway/fleet/fleet.h"
#include "tests/gateway/fleet/fleet_fixture.h"

namespace taproot::gateway {
namespace {

using link::FinishReason;
using taproot::testing::FakeWorker;

TEST_F(FleetTest, ARequestGoesWhereItsBlocksAre) {
    add_worker();
    FakeWorker& holder = add_worker();
    start_and_wait();
    holder.store(chain(1, 20));
    ASSERT_TRUE(settle(holder, 1));
    RecordingSink sink;
    auto ticket = submit(sink, 20 * 16 + 5, chain(1, 20));
    ASSERT_TRUE(ticket);
    EXPECT_EQ(ticket->worker_name, "w1");
    EXPECT_EQ(ticket->decision.expected_cached_tokens, 320u);
    ASSERT_TRUE(until([&] { return holder.generates.size() == 1; }));
    EXPECT_EQ(holder.generates[0].expected_cached_tokens, 320u);
}

TEST_F(FleetTest, TwoRequestsInARowSeeEachOther) {
    add_worker();
    add_worker();
    start_and_wait();
    RecordingSink sink;
    auto first = submit(sink, 330, chain(1, 20));
    auto second = submit(sink, 330, chain(1, 20));
    ASSERT_TRUE(first && second);
    EXPECT_EQ(first->decision.expected_cached_tokens, 0u);
    EXPECT_EQ(second->worker, first->worker);
    EXPECT_EQ(second->decision.expected_cached_tokens, 320u) << "the first one's claim counts";
}

TEST_F(FleetTest, UnrelatedRequestsSpreadByWhatThisGatewayHasSent) {
    FakeWorker& a = add_worker();
    FakeWorker& b = add_worker();
    start_and_wait();
    RecordingSink sink;
    for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(submit(sink, 160, chain(i, 10)));
    ASSERT_TRUE(until([&] { return a.generates.size() + b.generates.size() == 8; }));
    EXPECT_EQ(a.generates.size(), 4u);
    EXPECT_EQ(b.generates.size(), 4u);
    EXPECT_EQ(view(0).in_flight, 4u);
    EXPECT_EQ(view(0).backlog_uncached_tokens, 640u);
}

TEST_F(FleetTest, ClaimsEndWithTheirRequestAndWithTime) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    auto first = submit(sink, 160, chain(1, 10));
    ASSERT_TRUE(first);
    EXPECT_EQ(fleet_->index_stats().reservations, 1u);
    fleet_->cancel(first->request);
    EXPECT_EQ(fleet_->index_stats().reservations, 0u);
    auto finished = submit(sink, 160, chain(1, 10));
    ASSERT_TRUE(finished);
    worker.send_token(finished->request, 1, FinishReason::kStop);
    ASSERT_TRUE(until([&] { return fleet_->requests_in_flight() == 0; }));
    EXPECT_EQ(fleet_->index_stats().reservations, 0u);
    ASSERT_TRUE(submit(sink, 160, chain(1, 10)));
    clock_.advance(std::chrono::milliseconds(config_.gateway.reservation_ms + 1));
    auto later = submit(sink, 160, chain(1, 10));
    ASSERT_TRUE(later);
    EXPECT_EQ(later->decision.expected_cached_tokens, 0u);
}

TEST_F(FleetTest, ExcludedWorkersAreNotChosen) {
    add_worker();
    add_worker();
    start_and_wait();
    RecordingSink sink;
    for (int i = 0; i < 3; ++i) {
        auto ticket = submit(sink, 8, {}, 1, std::vector<WorkerId>{WorkerId{0}});
        ASSERT_TRUE(ticket);
        EXPECT_EQ(ticket->worker_name, "w1");
    }
    auto none = submit(sink, 8, {}, 1, std::vector<WorkerId>{WorkerId{0}, WorkerId{1}});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
}

TEST_F(FleetTest, ScoringAPromptExpectsNothingCached) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 10));
    ASSERT_TRUE(settle(worker, 0));
    SubmitRequest request;
    request.model = "m";
    request.generate.prompt.assign(165, 7);
    request.generate.sampling.prompt_logprobs = 0;
    auto blocks = chain(1, 10);
    request.chain = blocks;
    RecordingSink sink;
    auto ticket = fleet_->submit(std::move(request), &sink);
    ASSERT_TRUE(ticket);
    EXPECT_EQ(ticket->decision.expected_cached_tokens, 0u);
}

TEST_F(FleetTest, AnUnknownPolicyIsAnErrorAtStart) {
    config_.gateway.route_policy = "astrology";
    fleet_ = std::make_unique<Fleet>(io_, config_, clock_, metrics_);
    auto started = fleet_->start();
    ASSERT_FALSE(started);
    EXPECT_NE(started.error().describe().find("cost"), std::string::npos) << "lists what there is";
}

// --- limits --------------------------------------------------------------------------------------

TEST_F(FleetTest, MoreWaitingRequestsThanAllowedAreRefusedUntilOneStarts) {
    config_.gateway.limits.queue_requests = 3;
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(submit(sink));
    auto fourth = submit(sink);
    ASSERT_FALSE(fourth);
    EXPECT_EQ(fourth.error().code, ErrorCode::kQueueFull);
    EXPECT_NE(fourth.error().message.find("allowed 3"), std::string::npos);
    ASSERT_TRUE(until([&] { return worker.generates.size() == 3; }));
    worker.send_started(worker.generates[0], 0);
    ASSERT_TRUE(until([&] { return sink.heard("started"); }));
    EXPECT_TRUE(submit(sink)) << "a running request does not wait";
    EXPECT_FALSE(submit(sink));
}

TEST_F(FleetTest, MoreWaitingUncachedTokensThanAllowedAreRefused) {
    config_.gateway.limits.queue_uncached_tokens = 500;
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 20));
    ASSERT_TRUE(settle(worker, 0));
    RecordingSink sink;
    ASSERT_TRUE(submit(sink, 600)) << "alone it is not a queue";
    auto second = submit(sink, 160, chain(9, 10));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kQueueFull);
    fleet_->cancel(RequestId{1});
    ASSERT_TRUE(submit(sink, 490));
    auto cached = submit(sink, 325, chain(1, 20));
    EXPECT_TRUE(cached) << "its cached tokens wait for nothing: " << cached.error().describe();
}

TEST_F(FleetTest, TheRetryTimeGrowsWithTheBacklog) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    double idle = fleet_->retry_after_ms();
    link::Load load;
    load.blocks_total = 1'000;
    load.prefill_ms_per_token = 0.5;
    load.backlog_tokens = 20'000;
    worker.send(load);
    ASSERT_TRUE(until([&] { return view(0).backlog_uncached_tokens == 20'000; }));
    EXPECT_DOUBLE_EQ(fleet_->retry_after_ms(), 10'000.0);
    EXPECT_LT(idle, 1'000.0);
    worker.die();
    ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
    EXPECT_GT(fleet_->retry_after_ms(), 0.0);
}

// --- trust ---------------------------------------------------------------------------------------

TEST_F(FleetTest, AGapInTheEventsIsAnsweredWithASnapshotAndDistrustMeanwhile) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 4));
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_TRUE(view(0).trusted);
    clock_.advance(std::chrono::seconds(2));
    worker.options().answers_snapshot = false;
    worker.lose_events(true);
    worker.store(chain(2, 4));
    worker.lose_events(false);
    worker.store(chain(3, 4));
    ASSERT_TRUE(until([&] { return worker.snapshot_fetches == 2; }));
    EXPECT_FALSE(view(0).trusted);
    worker.store(chain(4, 4));  // dropped: the snapshot will have it
    worker.send_snapshot();
    ASSERT_TRUE(until([&] { return view(0).trusted; }));
    EXPECT_EQ(fleet_->index_stats().blocks, 16u);
    worker.store(chain(5, 1));
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_EQ(fleet_->index_stats().blocks, 17u);
    EXPECT_EQ(worker.snapshot_fetches, 2u);
}

TEST_F(FleetTest, ASnapshotThatNeverCameIsAskedForAgain) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.options().answers_snapshot = false;
    clock_.advance(std::chrono::seconds(2));
    worker.lose_events(true);
    worker.store(chain(1, 1));
    worker.lose_events(false);
    worker.store(chain(2, 1));
    ASSERT_TRUE(until([&] { return worker.snapshot_fetches == 2; }));
    worker.options().answers_snapshot = true;
    clock_.advance(std::chrono::seconds(2));
    ASSERT_TRUE(until([&] { return view(0).trusted; }));
    EXPECT_EQ(worker.snapshot_fetches, 3u);
}

TEST_F(FleetTest, AWorkerWhoseEventsProveWrongIsResynchronised) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 10));
    ASSERT_TRUE(settle(worker, 0));
    clock_.advance(std::chrono::seconds(2));
    RecordingSink sink;
    ASSERT_TRUE(submit(sink, 165, chain(1, 10)));
    ASSERT_TRUE(until([&] { return worker.generates.size() == 1; }));
    worker.options().answers_snapshot = false;
    worker.send_started(worker.generates[0], 32);
    ASSERT_TRUE(until([&] { return worker.snapshot_fetches == 2; }));
    EXPECT_FALSE(view(0).trusted);
    worker.send_snapshot();
    EXPECT_TRUE(until([&] { return view(0).trusted; }));
    EXPECT_TRUE(sink.heard("started"));
}

TEST_F(FleetTest, FewerCachedTokensAfterAnEvictionAreNoProof) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 10));
    ASSERT_TRUE(settle(worker, 0));
    clock_.advance(std::chrono::seconds(2));
    RecordingSink sink;
    ASSERT_TRUE(submit(sink, 165, chain(1, 10)));
    ASSERT_TRUE(until([&] { return worker.generates.size() == 1; }));
    worker.remove(chain(1, 10)[9]);
    worker.send_started(worker.generates[0], 144);
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_EQ(worker.snapshot_fetches, 1u);
    EXPECT_TRUE(view(0).trusted);
}

TEST_F(FleetTest, AFullyCachedPromptThatComputesItsLastTokenIsNoProof) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 10));
    ASSERT_TRUE(settle(worker, 0));
    clock_.advance(std::chrono::seconds(2));
    RecordingSink sink;
    ASSERT_TRUE(submit(sink, 160, chain(1, 10)));
    ASSERT_TRUE(until([&] { return worker.generates.size() == 1; }));
    worker.send_started(worker.generates[0], 159);
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_EQ(worker.snapshot_fetches, 1u);
}

TEST_F(FleetTest, EventsOfAnotherEpochEndTheLink) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.send(link::KvEventBatch{worker.hello().epoch + 1, 0, {KvCleared{}}});
    ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
    EXPECT_TRUE(until([&] { return fleet_->ready(); }));
}

}  // namespace
}  // namespace taproot::gateway
