// SPDX-License-Identifier: Apache-2.0
#include "worker/server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <vector>

#include "link/codec.h"
#include "tests/support/loop.h"
#include "tests/support/scripted_executor.h"
#include "tests/worker/engine/engine_harness.h"

namespace taproot::testing {
namespace {

// One gateway's end of a link: everything it heard, in order.
struct Gateway {
    ~Gateway() {
        if (connection) connection->abandon();  // its last callback must not find us gone
    }

    std::shared_ptr<link::LinkConnection> connection;
    std::vector<link::ToGateway> heard;
    bool closed = false;

    template <typename Message>
    [[nodiscard]] std::vector<Message> all() const {
        std::vector<Message> out;
        for (const link::ToGateway& message : heard)
            if (const auto* found = std::get_if<Message>(&message)) out.push_back(*found);
        return out;
    }
    [[nodiscard]] std::vector<TokenId> tokens(std::uint64_t request) const {
        std::vector<TokenId> out;
        for (const auto& step : all<link::StepOutput>())
            for (const link::TokenOutput& token : step.tokens)
                if (token.request.value == request && token.has_token) out.push_back(token.token);
        return out;
    }
    [[nodiscard]] link::FinishReason finish(std::uint64_t request) const {
        for (const auto& step : all<link::StepOutput>())
            for (const link::TokenOutput& token : step.tokens)
                if (token.request.value == request && token.finish != link::FinishReason::kNone)
                    return token.finish;
        return link::FinishReason::kNone;
    }
};

// A server, a real engine thread over the scripted model, and gateways, all on one io_context.
class Server : public ::testing::Test {
protected:
    static ServerOptions server_options() {
        ServerOptions options;
        options.hello.worker = "w0";
        options.hello.epoch = 7;
        options.hello.text_digest = 99;
        options.text_bundle = "text";
        return options;
    }

    Server()
        : executor_(256, EngineHarness::kTokens),
          server_(io_, server_options()),
          engine_(EngineHarness::engine_options({}), executor_, clock_, server_) {}

    void SetUp() override {
        auto started = server_.start(link::LinkAddress{}, engine_);
        ASSERT_TRUE(started) << started.error().describe();
        engine_.start();
    }
    void TearDown() override {
        engine_.stop();
        server_.close();
        (void)run_until(io_, [this] { return server_.clients() == 0; });
        EXPECT_TRUE(executor_.errors().empty());
        EXPECT_EQ(engine_.cache().active_blocks(), 0u);
    }

    std::unique_ptr<Gateway> connect() {
        auto gateway = std::make_unique<Gateway>();
        auto dialled = await(io_, link::dial(io_, server_.address(), {}, std::chrono::seconds(20)));
        EXPECT_TRUE(dialled);
        gateway->connection = *dialled;
        link::LinkConnection::GatewayEnd end;
        Gateway* raw = gateway.get();
        end.on_message = [raw](link::ToGateway&& message) {
            raw->heard.push_back(std::move(message));
        };
        end.on_closed = [raw](const Error&) { raw->closed = true; };
        gateway->connection->start(std::move(end));
        return gateway;
    }
    bool until(const std::function<bool()>& done) { return run_until(io_, done); }
    bool idle() { return !engine_.busy(); }

    asio::io_context io_{1};
    RealClock clock_;
    ScriptedExecutor executor_;
    WorkerServer server_;
    Engine engine_;
};

TEST_F(Server, SaysHelloFirstAndThenTheLoad) {
    auto gateway = connect();
    ASSERT_TRUE(until([&] { return !gateway->all<link::Load>().empty(); }));
    const auto* hello = std::get_if<link::Hello>(&gateway->heard[0]);
    ASSERT_NE(hello, nullptr);
    EXPECT_EQ(hello->worker, "w0");
    EXPECT_EQ(hello->epoch, 7u);
}

TEST_F(Server, AnswersTextSnapshotAndPing) {
    auto gateway = connect();
    ASSERT_TRUE(gateway->connection->send(link::ToWorker(link::FetchText{99})));
    ASSERT_TRUE(gateway->connection->send(link::ToWorker(link::FetchSnapshot{7})));
    ASSERT_TRUE(gateway->connection->send(link::ToWorker(link::Ping{5})));
    ASSERT_TRUE(until([&] {
        return !gateway->all<link::TextBundle>().empty() &&
               !gateway->all<link::KvSnapshot>().empty() && !gateway->all<link::Pong>().empty();
    }));
    EXPECT_EQ(gateway->all<link::TextBundle>()[0].bytes, "text");
    EXPECT_EQ(gateway->all<link::KvSnapshot>()[0].next_seq, 1u);
    EXPECT_EQ(gateway->all<link::Pong>()[0].nonce, 5u);
}

TEST_F(Server, ARequestIsAnsweredAndItsBlocksAreAnnouncedBefore) {
    auto gateway = connect();
    link::Generate spec = greedy(1, random_prompt(1, 40), 10);
    ASSERT_TRUE(gateway->connection->send(link::ToWorker(spec)));
    ASSERT_TRUE(until([&] { return gateway->finish(1) != link::FinishReason::kNone; }));
    EXPECT_EQ(gateway->tokens(1), run_alone(spec).choices[0].tokens);
    bool stored = false;
    for (const link::ToGateway& message : gateway->heard) {
        stored |= std::holds_alternative<link::KvEventBatch>(message);
        if (std::holds_alternative<link::StepOutput>(message)) break;
    }
    EXPECT_TRUE(stored);
}

TEST_F(Server, SeveralGatewaysUseTheSameIdsAndShareEvents) {
    auto one = connect();
    auto two = connect();
    ASSERT_TRUE(until([&] { return server_.clients() == 2; }));
    link::Generate first = greedy(1, random_prompt(2, 40), 10);
    link::Generate second = greedy(1, random_prompt(3, 40), 12);
    ASSERT_TRUE(one->connection->send(link::ToWorker(first)));
    ASSERT_TRUE(two->connection->send(link::ToWorker(second)));
    ASSERT_TRUE(until([&] {
        return one->finish(1) != link::FinishReason::kNone &&
               two->finish(1) != link::FinishReason::kNone;
    }));
    EXPECT_EQ(one->tokens(1), run_alone(first).choices[0].tokens);
    EXPECT_EQ(two->tokens(1), run_alone(second).choices[0].tokens);
    auto events = [](const Gateway& gateway) {
        std::size_t count = 0;
        for (const auto& batch : gateway.all<link::KvEventBatch>()) count += batch.events.size();
        return count;
    };
    ASSERT_TRUE(until([&] { return events(*one) == 6 && events(*two) == 6; }));
}

TEST_F(Server, ALostGatewayCancelsItsRequestsOnly) {
    auto one = connect();
    auto two = connect();
    ASSERT_TRUE(one->connection->send(link::ToWorker(greedy(1, random_prompt(4, 40), 900))));
    ASSERT_TRUE(two->connection->send(link::ToWorker(greedy(1, random_prompt(5, 40), 900))));
    ASSERT_TRUE(until([&] { return two->tokens(1).size() > 1 && one->tokens(1).size() > 1; }));
    one->connection->abandon();
    ASSERT_TRUE(until([&] { return two->finish(1) != link::FinishReason::kNone; }));
    EXPECT_EQ(two->tokens(1).size(), 900u);
    ASSERT_TRUE(until([&] { return server_.clients() == 1 && idle(); }));
}

TEST_F(Server, CancelsAreNotLostInAFlood) {
    auto gateway = connect();
    for (std::uint64_t id = 1; id <= 500; ++id) {
        ASSERT_TRUE(
            gateway->connection->send(link::ToWorker(greedy(id, random_prompt(id, 30), 900))));
        ASSERT_TRUE(gateway->connection->send(link::ToWorker(link::Cancel{RequestId{id}})));
    }
    ASSERT_TRUE(gateway->connection->send(link::ToWorker(greedy(1000, random_prompt(7, 30), 3))));
    ASSERT_TRUE(until([&] { return gateway->finish(1000) != link::FinishReason::kNone; }));
    ASSERT_TRUE(until([&] { return idle(); }));
}

TEST_F(Server, ShutdownAbortsWhatStartedAndRefusesTheRest) {
    auto gateway = connect();
    for (std::uint64_t id = 1; id <= 40; ++id)  // 16 seats
        ASSERT_TRUE(
            gateway->connection->send(link::ToWorker(greedy(id, random_prompt(id, 30), 900))));
    ASSERT_TRUE(until([&] { return gateway->tokens(1).size() > 1; }));
    engine_.stop();
    server_.close();
    ASSERT_TRUE(until([&] { return gateway->closed; }));
    std::size_t aborted = 0, finished = 0;
    for (std::uint64_t id = 1; id <= 40; ++id) {
        aborted += gateway->finish(id) == link::FinishReason::kAbort;
        finished += gateway->finish(id) == link::FinishReason::kLength;
    }
    std::size_t refused = 0;
    for (const auto& rejected : gateway->all<link::Rejected>())
        refused += rejected.reason == link::RejectReason::kShuttingDown;
    EXPECT_EQ(aborted + finished + refused, 40u);
    EXPECT_GT(aborted, 0u);
    EXPECT_GT(refused, 0u);
}

}  // namespace
}  // namespace taproot::testing
