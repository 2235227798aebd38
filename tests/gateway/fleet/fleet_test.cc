// SPDX-License-Identifier: Apache-2.0
#include "gateway/fleet/fleet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/gateway/fleet/fleet_fixture.h"

namespace taproot::gateway {
namespace {

using link::FinishReason;
using taproot::testing::FakeWorker;

// --- coming and going ----------------------------------------------------------------------------

TEST_F(FleetTest, AWorkerIsReadyAfterHelloTextAndSnapshot) {
    FakeWorker& worker = add_worker();
    worker.options().answers_snapshot = false;
    worker.options().answers_text = false;
    start();
    EXPECT_FALSE(fleet_->ready());
    ASSERT_TRUE(until([&] { return worker.snapshot_fetches == 1 && worker.text_fetches == 1; }));
    worker.send_snapshot();
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_FALSE(fleet_->ready()) << "without its text nothing can be tokenised";
    worker.send(link::ToGateway(link::TextBundle{worker.hello().text_digest,
                                                 link::encode_text_model(worker.options().text)}));
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    ASSERT_EQ(fleet_->models().size(), 1u);
    const ModelInfo* model = fleet_->find_model("m");
    ASSERT_NE(model, nullptr);
    EXPECT_EQ(model, fleet_->find_model(std::nullopt));
    EXPECT_EQ(fleet_->find_model("other"), nullptr);
    EXPECT_TRUE(model->ready);
    EXPECT_NE(model->text, nullptr);
    EXPECT_EQ(model->max_model_len, worker.hello().max_model_len);
    EXPECT_EQ(model->vocab, worker.hello().vocab);
    EXPECT_GT(model->created, 0);
    EXPECT_NE(model->fingerprint.find("fake"), std::string::npos);
}

TEST_F(FleetTest, WithoutWorkersARequestIsUnavailableOrUnknown) {
    FakeWorker& worker = add_worker();
    worker.die();
    start();
    RecordingSink sink;
    auto unknown = submit(sink);
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
    worker.restart();
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    worker.die();
    ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
    auto away = submit(sink);
    ASSERT_FALSE(away);
    EXPECT_EQ(away.error().code, ErrorCode::kUnavailable);
    ASSERT_NE(fleet_->find_model("m"), nullptr) << "known, though nobody serves it now";
    EXPECT_FALSE(fleet_->find_model("m")->ready);
}

TEST_F(FleetTest, TheFingerprintTellsBuildsModelsAndKvLayoutsApart) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    std::set<std::string> seen = {fleet_->find_model("m")->fingerprint};
    auto restarted_with = [&](auto change) {
        worker.die();
        ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
        change(worker.options().hello);
        worker.restart();
        ASSERT_TRUE(until([&] { return fleet_->ready(); }));
        EXPECT_TRUE(seen.insert(fleet_->find_model("m")->fingerprint).second);
    };
    restarted_with([](link::Hello& hello) { hello.isa = "other"; });
    restarted_with([](link::Hello& hello) { ++hello.model_digest; });
    restarted_with([](link::Hello& hello) { ++hello.kv_layout_digest; });
}

TEST_F(FleetTest, TextIsFetchedOncePerDigest) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    auto text = fleet_->find_model("m")->text;
    worker.die();
    ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
    worker.restart();
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    EXPECT_EQ(worker.text_fetches, 1u);
    EXPECT_EQ(worker.snapshot_fetches, 2u);
    EXPECT_EQ(fleet_->find_model("m")->text, text);
}

TEST_F(FleetTest, AWorkerOfAnotherVersionIsRefusedUntilItIsReplaced) {
    FakeWorker& worker = add_worker();
    worker.options().hello.version = link::kProtocolVersion + 1;
    start();
    // It is dialled again and again, and never asked for anything.
    ASSERT_TRUE(until([&] { return worker.connections() == 1; }));
    ASSERT_TRUE(until([&] { return worker.connections() == 0; }));
    ASSERT_TRUE(until([&] { return worker.connections() == 1; }));
    EXPECT_FALSE(fleet_->ready());
    EXPECT_EQ(worker.snapshot_fetches, 0u);
    worker.options().hello.version = link::kProtocolVersion;
    EXPECT_TRUE(until([&] { return fleet_->ready(); }));
}

TEST_F(FleetTest, AWorkerWithOtherBlocksIsRefused) {
    FakeWorker& worker = add_worker();
    worker.options().hello.block_tokens = 32;
    start();
    ASSERT_TRUE(until([&] { return worker.connections() == 1; }));
    ASSERT_TRUE(until([&] { return worker.connections() == 0; }));
    EXPECT_FALSE(fleet_->ready());
}

TEST_F(FleetTest, AnAnswerBeforeHelloOrASecondHelloEndsTheLink) {
    FakeWorker& worker = add_worker();
    worker.options().sends_hello = false;
    start();
    ASSERT_TRUE(until([&] { return worker.connections() == 1; }));
    worker.send(link::Load{});
    ASSERT_TRUE(until([&] { return worker.connections() == 0; }));
    worker.options().sends_hello = true;
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    worker.send_hello();
    ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
    EXPECT_TRUE(until([&] { return fleet_->ready(); }));
}

TEST_F(FleetTest, ATextThatFailsItsDigestIsRefused) {
    FakeWorker& worker = add_worker();
    worker.options().hello.text_digest = 12345;
    start();
    ASSERT_TRUE(until([&] { return worker.text_fetches == 2; })) << "refused and dialled again";
    EXPECT_FALSE(fleet_->ready());
}

TEST_F(FleetTest, TwoTokenizersUnderOneNameAreRefusedWhileTheFirstServes) {
    FakeWorker& first = add_worker();
    FakeWorker::Options other;
    other.text = taproot::testing::chat_text_model("qwen2").model();
    other.hello.worker = "w1";
    other.hello.model = "m";
    FakeWorker& second = add_worker(std::move(other));
    second.die();
    start();
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    const ModelInfo* served = fleet_->find_model("m");
    auto text = served->text;
    second.restart();
    ASSERT_TRUE(until([&] { return second.text_fetches == 1; }));
    ASSERT_TRUE(until([&] { return second.connections() == 0; }));
    EXPECT_EQ(ready_workers(), 1u);
    first.die();
    ASSERT_TRUE(until([&] { return view(1).ready; })) << "alone it may take the name over";
    EXPECT_NE(fleet_->find_model("m"), served);
    EXPECT_NE(fleet_->find_model("m")->text, text);
    EXPECT_EQ(served->text, text) << "streams of before still read it";
}

TEST_F(FleetTest, ModelsOfDifferentNamesAreServedSideBySide) {
    add_worker("m");
    FakeWorker& other = add_worker("other");
    start_and_wait();
    EXPECT_EQ(fleet_->models().size(), 2u);
    RecordingSink sink;
    for (int i = 0; i < 4; ++i) {
        auto ticket = submit(sink);
        ASSERT_TRUE(ticket);
        EXPECT_EQ(ticket->worker_name, "w0");
    }
    EXPECT_TRUE(other.generates.empty());
}

TEST_F(FleetTest, TheShortestContextOfAModelsWorkersCounts) {
    add_worker();
    FakeWorker& small = add_worker();
    small.options().hello.max_model_len = 512;
    start_and_wait();
    EXPECT_EQ(fleet_->find_model("m")->max_model_len, 512u);
    small.die();
    ASSERT_TRUE(until([&] { return ready_workers() == 1; }));
    EXPECT_EQ(fleet_->find_model("m")->max_model_len, 8'192u);
}

// --- requests ------------------------------------------------------------------------------------

TEST_F(FleetTest, ARequestReachesTheWorkerAndItsAnswersComeBackInOrder) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    auto ticket = submit(sink, 20);
    ASSERT_TRUE(ticket) << ticket.error().describe();
    EXPECT_EQ(ticket->worker_name, "w0");
    EXPECT_FALSE(ticket->decision.reason.empty());
    EXPECT_EQ(fleet_->requests_in_flight(), 1u);
    ASSERT_TRUE(until([&] { return worker.generates.size() == 1; }));
    EXPECT_EQ(worker.generates[0].request, ticket->request);
    EXPECT_EQ(worker.generates[0].prompt.size(), 20u);
    worker.send_started(worker.generates[0], 16);
    worker.send_token(ticket->request, 5);
    worker.send_token(ticket->request, 6, FinishReason::kStop);
    ASSERT_TRUE(until([&] { return sink.tokens.size() == 2; }));
    EXPECT_EQ(sink.events, (std::vector<std::string>{"started", "tokens", "tokens"}));
    EXPECT_EQ(sink.cached_tokens, 16u);
    EXPECT_EQ(sink.tokens[0].token, 5);
    EXPECT_EQ(sink.tokens[1].finish, FinishReason::kStop);
    EXPECT_EQ(fleet_->requests_in_flight(), 0u);
    // What comes after the end belongs to nobody.
    worker.send_token(ticket->request, 7);
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_EQ(sink.tokens.size(), 2u);
}

TEST_F(FleetTest, AStepWithManyStreamsIsGivenOutByRequest) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink a, b;
    auto first = submit(a, 8, {}, 2);
    auto second = submit(b);
    ASSERT_TRUE(first && second);
    link::StepOutput step;
    for (auto [request, choice, token] :
         {std::tuple{first->request, 0, 1}, {first->request, 1, 2}, {second->request, 0, 3}}) {
        link::TokenOutput& output = step.tokens.emplace_back();
        output.request = request;
        output.choice = static_cast<std::uint16_t>(choice);
        output.token = token;
    }
    step.prompt_logprobs.push_back({second->request, 0, {-1.0f}, {}});
    worker.send(step);
    ASSERT_TRUE(until([&] { return b.heard("tokens"); }));
    EXPECT_EQ(a.events, (std::vector<std::string>{"tokens"}));
    EXPECT_EQ(a.tokens.size(), 2u);
    EXPECT_EQ(b.events, (std::vector<std::string>{"prompt_logprobs", "tokens"}));
}

TEST_F(FleetTest, ARequestEndsWithItsLastChoice) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    auto ticket = submit(sink, 8, {}, 3);
    ASSERT_TRUE(ticket);
    worker.send_token(ticket->request, 1, FinishReason::kStop, 1);
    worker.send_finish(ticket->request, FinishReason::kLength, 0);
    ASSERT_TRUE(until([&] { return sink.tokens.size() == 2; }));
    EXPECT_EQ(fleet_->requests_in_flight(), 1u);
    worker.send_token(ticket->request, 9, FinishReason::kNone, 1);  // a closed choice speaks
    worker.send_token(ticket->request, 2, FinishReason::kStop, 2);
    ASSERT_TRUE(until([&] { return fleet_->requests_in_flight() == 0; }));
    ASSERT_EQ(sink.tokens.size(), 3u);
    EXPECT_EQ(sink.tokens[2].choice, 2);
}

TEST_F(FleetTest, CancelTellsTheWorkerAndSilencesTheSink) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    auto ticket = submit(sink);
    ASSERT_TRUE(ticket);
    worker.send_token(ticket->request, 1);  // under way while the client leaves
    fleet_->cancel(ticket->request);
    fleet_->cancel(ticket->request);
    EXPECT_EQ(fleet_->requests_in_flight(), 0u);
    ASSERT_TRUE(until([&] { return worker.cancels.size() == 1; }));
    EXPECT_EQ(worker.cancels[0], ticket->request);
    worker.send_finish(ticket->request, FinishReason::kAbort);
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_TRUE(sink.events.empty());
    EXPECT_EQ(worker.cancels.size(), 1u);
}

TEST_F(FleetTest, CancellingChoicesOneByOneEndsTheRequest) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    auto ticket = submit(sink, 8, {}, 2);
    ASSERT_TRUE(ticket);
    fleet_->cancel_choice(ticket->request, 1);
    fleet_->cancel_choice(ticket->request, 1);
    fleet_->cancel_choice(ticket->request, 7);
    ASSERT_TRUE(until([&] { return !worker.cancelled_choices.empty(); }));
    worker.send_finish(ticket->request, FinishReason::kAbort, 1);  // the worker's answer
    worker.send_token(ticket->request, 4, FinishReason::kNone, 0);
    ASSERT_TRUE(until([&] { return sink.tokens.size() == 1; }));
    EXPECT_EQ(sink.tokens[0].choice, 0);
    EXPECT_EQ(worker.cancelled_choices.size(), 1u);
    fleet_->cancel_choice(ticket->request, 0);
    EXPECT_EQ(fleet_->requests_in_flight(), 0u);
    EXPECT_TRUE(until([&] { return worker.cancels.size() == 1; }));
}

TEST_F(FleetTest, ARejectionReachesTheSinkAndEndsTheRequest) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    auto ticket = submit(sink);
    ASSERT_TRUE(ticket);
    worker.reject(ticket->request, link::RejectReason::kQueueFull, 1'500);
    ASSERT_TRUE(until([&] { return sink.heard("rejected"); }));
    EXPECT_EQ(sink.rejected.retry_after_ms, 1'500);
    EXPECT_EQ(fleet_->requests_in_flight(), 0u);
}

TEST_F(FleetTest, ABrokenRuleIsAnErrorBeforeAnythingIsSent) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    auto empty = submit(sink, 0);
    ASSERT_FALSE(empty);
    EXPECT_EQ(empty.error().code, ErrorCode::kInvalidArgument);
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_TRUE(worker.generates.empty());
    EXPECT_EQ(fleet_->requests_in_flight(), 0u);
}

// --- death ---------------------------------------------------------------------------------------

TEST_F(FleetTest, AnEngineThatDiesTellsItsSinksAndLosesItsBlocks) {
    FakeWorker& worker = add_worker();
    FakeWorker& other = add_worker();
    start_and_wait();
    worker.store(chain(1, 10));
    other.store(chain(2, 4));
    ASSERT_TRUE(settle(worker, 0) && settle(other, 1));
    EXPECT_EQ(fleet_->index_stats().blocks, 14u);
    RecordingSink here, there;
    ASSERT_TRUE(submit(here, 160, chain(1, 10)));
    ASSERT_TRUE(submit(there, 64, chain(2, 4)));
    ASSERT_TRUE(until([&] { return worker.generates.size() == 1 && other.generates.size() == 1; }));
    worker.die();
    ASSERT_TRUE(until([&] { return here.heard("lost"); }));
    EXPECT_EQ(here.lost.code, ErrorCode::kUnavailable);
    EXPECT_NE(here.lost.message.find("w0"), std::string::npos);
    EXPECT_EQ(fleet_->index_stats().blocks, 4u);
    EXPECT_EQ(fleet_->requests_in_flight(), 1u);
    EXPECT_TRUE(there.events.empty());
    EXPECT_TRUE(fleet_->find_model("m")->ready);
    EXPECT_FALSE(view(0).ready);
    EXPECT_EQ(view(0).in_flight, 0u);
}

TEST_F(FleetTest, ASinkMaySendItsRequestElsewhereWhileItHearsOfTheLoss) {
    FakeWorker& worker = add_worker();
    FakeWorker& other = add_worker();
    start_and_wait();
    RecordingSink sinks[3];
    WorkerId first{0};
    for (RecordingSink& sink : sinks) {
        auto ticket = submit(sink, 8, {}, 1, std::vector<WorkerId>{WorkerId{1}});
        ASSERT_TRUE(ticket);
        EXPECT_EQ(ticket->worker, first);
    }
    std::optional<RequestId> again;
    sinks[0].then = [&](const std::string& event) {
        if (event != "lost") return;
        auto ticket = submit(sinks[0], 8, {}, 1, std::vector<WorkerId>{first});
        ASSERT_TRUE(ticket);
        EXPECT_EQ(ticket->worker_name, "w1");
        again = ticket->request;
        fleet_->cancel(RequestId{3});  // another of the lost ones gives up at the same moment
    };
    worker.die();
    ASSERT_TRUE(until([&] { return other.generates.size() == 1; }));
    EXPECT_TRUE(sinks[1].heard("lost"));
    EXPECT_TRUE(sinks[2].events.empty());
    other.send_token(*again, 3, FinishReason::kStop);
    ASSERT_TRUE(until([&] { return !sinks[0].tokens.empty(); }));
    EXPECT_EQ(fleet_->requests_in_flight(), 0u);
}

TEST_F(FleetTest, ARestartedWorkerIsTakenBackWithItsNewEpoch) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 10));
    ASSERT_TRUE(settle(worker, 0));
    worker.die();
    ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
    worker.restart();
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    EXPECT_EQ(fleet_->index_stats().blocks, 0u) << "what it held died with it";
    worker.store(chain(2, 3));
    ASSERT_TRUE(settle(worker, 0));
    EXPECT_EQ(fleet_->index_stats().blocks, 3u);
    EXPECT_TRUE(view(0).trusted);
    RecordingSink sink;
    ASSERT_TRUE(submit(sink));
    EXPECT_TRUE(until([&] { return worker.generates.size() == 1; }));
}

TEST_F(FleetTest, AfterANetworkFaultTheSnapshotBringsTheBlocksBack) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    worker.store(chain(1, 10));
    ASSERT_TRUE(settle(worker, 0));
    worker.drop_connections();
    worker.store(chain(2, 5));  // said to nobody
    ASSERT_TRUE(until([&] { return !fleet_->ready(); }));
    EXPECT_EQ(fleet_->index_stats().blocks, 0u);
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    EXPECT_EQ(fleet_->index_stats().blocks, 15u);
    EXPECT_TRUE(view(0).trusted);
}

TEST_F(FleetTest, StopTellsEverySinkOnceAndHangsUp) {
    FakeWorker& worker = add_worker();
    start_and_wait();
    RecordingSink sink;
    ASSERT_TRUE(submit(sink));
    ASSERT_TRUE(until([&] { return worker.generates.size() == 1; }));
    fleet_->stop();
    EXPECT_EQ(sink.events, (std::vector<std::string>{"lost"}));
    EXPECT_FALSE(fleet_->ready());
    EXPECT_FALSE(submit(sink));
    ASSERT_TRUE(until([&] { return worker.connections() == 0; }));
    EXPECT_EQ(sink.events.size(), 1u);
}

TEST_F(FleetTest, DestroyedInTheMiddleNothingCallsBack) {
    FakeWorker& worker = add_worker();
    add_worker().die();  // this one is being dialled
    start();
    ASSERT_TRUE(until([&] { return fleet_->ready(); }));
    RecordingSink sink;
    ASSERT_TRUE(submit(sink));
    fleet_.reset();
    ASSERT_TRUE(until([&] { return worker.connections() == 0; }));
    EXPECT_TRUE(sink.events.empty());
}

}  // namespace
}  // namespace taproot::gateway
