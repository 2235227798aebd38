// SPDX-License-Identifier: Apache-2.0
#include "link/link.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/link/random_messages.h"
#include "tests/support/loop.h"

namespace taproot::link {
namespace {

namespace websocket = boost::beast::websocket;

// What one end of a connection heard.
template <typename Message>
struct Heard {
    std::vector<Message> messages;
    std::optional<Error> closed;
    int closed_count = 0;
};

void start(LinkConnection& connection, Heard<ToGateway>& heard) {
    LinkConnection::GatewayEnd end;
    end.on_message = [&heard](ToGateway&& m) { heard.messages.push_back(std::move(m)); };
    end.on_closed = [&heard](const Error& error) { heard.closed = error, ++heard.closed_count; };
    connection.start(std::move(end));
}
void start(LinkConnection& connection, Heard<ToWorker>& heard) {
    LinkConnection::WorkerEnd end;
    end.on_message = [&heard](ToWorker&& m) { heard.messages.push_back(std::move(m)); };
    end.on_closed = [&heard](const Error& error) { heard.closed = error, ++heard.closed_count; };
    connection.start(std::move(end));
}

// A listener and one dialled connection, both kinds of address.
class LinkPair : public testing::TestWithParam<bool> {
protected:
    LinkAddress listen_address() {
        return GetParam() ? LinkAddress{folder_.file("w.sock"), {}, 0} : LinkAddress{};
    }
    void listen(LinkOptions options = {}, std::size_t connections_max = 64) {
        auto listener = LinkListener::listen(
            io_, address_.value_or(listen_address()), options,
            [this](std::shared_ptr<LinkConnection> connection) {
                if (serves_itself_) connection->start(LinkConnection::WorkerEnd{});
                accepted_.push_back(std::move(connection));
            },
            connections_max);
        ASSERT_TRUE(listener) << listener.error().describe();
        listener_ = std::move(*listener);
        address_ = listener_->bound_address();
    }
    Result<std::shared_ptr<LinkConnection>> dial_now(LinkOptions options = {}) {
        return await(io_, dial(io_, *address_, options, std::chrono::seconds(20)));
    }
    void connect(LinkOptions gateway = {}, LinkOptions worker = {}) {
        listen(worker);
        auto dialled = dial_now(gateway);
        ASSERT_TRUE(dialled) << dialled.error().describe();
        gateway_ = *dialled;
        ASSERT_TRUE(run_until(io_, [this] { return !accepted_.empty(); }));
        worker_ = accepted_[0];
        start(*gateway_, at_gateway_);
        start(*worker_, at_worker_);
    }

    TempFolder folder_;
    asio::io_context io_{1};
    bool serves_itself_ = false;  // connections are started as they come
    std::optional<LinkAddress> address_;
    std::unique_ptr<LinkListener> listener_;
    std::vector<std::shared_ptr<LinkConnection>> accepted_;
    std::shared_ptr<LinkConnection> gateway_, worker_;
    Heard<ToGateway> at_gateway_;
    Heard<ToWorker> at_worker_;
};

INSTANTIATE_TEST_SUITE_P(Link, LinkPair, testing::Bool(), [](const auto& kind) {
    return kind.param ? std::string("Unix") : std::string("Tcp");
});

TEST_P(LinkPair, MessagesArriveWholeAndInOrderBothWays) {
    connect();
    RandomMessages random(1);
    std::vector<ToGateway> up;
    std::vector<ToWorker> down;
    for (int i = 0; i < 300; ++i) {
        ASSERT_TRUE(worker_->send(up.emplace_back(random.to_gateway())));
        ASSERT_TRUE(gateway_->send(down.emplace_back(random.to_worker())));
    }
    ASSERT_TRUE(run_until(io_, [&] {
        return at_gateway_.messages.size() == up.size() &&
               at_worker_.messages.size() == down.size();
    }));
    EXPECT_TRUE(at_gateway_.messages == up);
    EXPECT_TRUE(at_worker_.messages == down);
    EXPECT_EQ(worker_->queued_bytes(), 0u);
    EXPECT_EQ(gateway_->queued_bytes(), 0u);
}

TEST_P(LinkPair, AFrameOfManyMegabytesPassesBothWays) {
    connect();
    RandomMessages random(2);
    Generate generate = random.generate();
    generate.prompt = random.tokens(kPromptTokensMax);  // 4 MiB
    KvSnapshot snapshot;
    for (std::uint64_t i = 0; i < 1'000'000; ++i)  // 17 MB
        snapshot.stored.push_back({BlockHash{i}, BlockHash{i / 2}, KvTier::kDevice});
    ASSERT_TRUE(gateway_->send(generate));
    ASSERT_TRUE(worker_->send(snapshot));
    ASSERT_TRUE(run_until(
        io_, [&] { return !at_gateway_.messages.empty() && !at_worker_.messages.empty(); }));
    EXPECT_TRUE(at_worker_.messages[0] == ToWorker(generate));
    EXPECT_TRUE(at_gateway_.messages[0] == ToGateway(snapshot));
}

TEST_P(LinkPair, AMessageAboveTheLimitIsRefusedAtTheSenderAndTheConnectionLives) {
    LinkOptions small;
    small.frame_bytes_max = 1'000;
    connect(small, small);
    Generate generate;
    generate.max_tokens = 1;
    generate.prompt.assign(300, 7);
    auto sent = gateway_->send(generate);
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, ErrorCode::kTooLarge);
    ASSERT_TRUE(gateway_->send(Ping{5}));
    ASSERT_TRUE(run_until(io_, [&] { return !at_worker_.messages.empty(); }));
    EXPECT_TRUE(at_worker_.messages[0] == ToWorker(Ping{5}));
}

TEST_P(LinkPair, AFrameAboveTheReadersLimitClosesTheConnectionWithTheReason) {
    LinkOptions strict;
    strict.frame_bytes_max = 1'000;
    connect({}, strict);
    Generate generate;
    generate.max_tokens = 1;
    generate.prompt.assign(300, 7);
    ASSERT_TRUE(gateway_->send(generate));
    ASSERT_TRUE(run_until(io_, [&] { return at_worker_.closed && at_gateway_.closed; }));
    EXPECT_EQ(at_worker_.closed->code, ErrorCode::kTooLarge);
    EXPECT_FALSE(worker_->is_open());
    EXPECT_FALSE(worker_->send(Pong{1}));
}

TEST_P(LinkPair, ClosingWritesWhatIsQueuedAndTellsBothEndsOnce) {
    connect();
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(worker_->send(Pong{i}));
    worker_->close("draining");
    EXPECT_FALSE(at_worker_.closed) << "on_closed ran inside close()";
    ASSERT_TRUE(run_until(io_, [&] { return at_worker_.closed && at_gateway_.closed; }));
    EXPECT_EQ(at_gateway_.messages.size(), 100u);
    EXPECT_EQ(at_worker_.closed->code, ErrorCode::kCancelled);
    EXPECT_EQ(at_worker_.closed->message, "draining");
    EXPECT_EQ(at_gateway_.closed->code, ErrorCode::kUnavailable);
    auto late = worker_->send(Pong{1});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, ErrorCode::kUnavailable);
    worker_->close("again");
    gateway_->abandon();
    io_.restart();
    io_.poll();
    EXPECT_EQ(at_worker_.closed_count, 1);
    EXPECT_EQ(at_gateway_.closed_count, 1);
}

TEST_P(LinkPair, AfterAbandonNoHandlerRunsAndThePeerNotices) {
    connect();
    ASSERT_TRUE(worker_->send(Pong{1}));
    gateway_->abandon();
    gateway_.reset();
    ASSERT_TRUE(run_until(io_, [&] { return at_worker_.closed.has_value(); }));
    EXPECT_EQ(at_gateway_.messages.size(), 0u);
    EXPECT_EQ(at_gateway_.closed_count, 0);
}

TEST_P(LinkPair, AHandlerMayCloseOrAbandonItsConnection) {
    listen();
    auto dialled = dial_now();
    ASSERT_TRUE(dialled);
    ASSERT_TRUE(run_until(io_, [this] { return !accepted_.empty(); }));
    int heard = 0;
    LinkConnection::GatewayEnd end;
    std::string held = "a handler's own state, alive while it runs";
    end.on_message = [&heard, held, connection = dialled->get()](ToGateway&&) {
        ++heard;
        connection->abandon();
        EXPECT_EQ(held.substr(0, 9), "a handler");
    };
    (*dialled)->start(std::move(end));
    for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(accepted_[0]->send(Pong{i}));
    start(*accepted_[0], at_worker_);
    ASSERT_TRUE(run_until(io_, [&] { return at_worker_.closed.has_value(); }));
    EXPECT_EQ(heard, 1);
}

// A raw peer that shakes hands properly and then does what it likes.
class RawPeer {
public:
    RawPeer(asio::io_context& io, const LinkAddress& address) : stream_(io) {
        auto& socket = stream_.next_layer();
        if (address.is_unix())
            socket.connect(asio::local::stream_protocol::endpoint(address.path));
        else
            socket.connect(
                asio::ip::tcp::endpoint(asio::ip::make_address(address.host), address.port));
    }
    void decorate(std::function<void(websocket::request_type&)> f) {
        stream_.set_option(websocket::stream_base::decorator(std::move(f)));
    }
    // Runs `io` until the handshake has an outcome.
    NetError shake_hands(asio::io_context& io, const char* protocol = "taproot-link",
                         const char* origin = nullptr) {
        decorate([protocol, origin](websocket::request_type& request) {
            if (protocol != nullptr) request.set("Sec-WebSocket-Protocol", protocol);
            if (origin != nullptr) request.set("Origin", origin);
        });
        std::optional<NetError> done;
        stream_.async_handshake("localhost", "/link", [&done](NetError error) { done = error; });
        EXPECT_TRUE(run_until(io, [&done] { return done.has_value(); }));
        return *done;
    }
    websocket::stream<asio::generic::stream_protocol::socket>& stream() { return stream_; }

private:
    websocket::stream<asio::generic::stream_protocol::socket> stream_;
};

TEST_P(LinkPair, GarbageClosesOnlyTheConnectionItCameOn) {
    connect();
    RawPeer raw(io_, *address_);
    ASSERT_FALSE(raw.shake_hands(io_));
    ASSERT_TRUE(run_until(io_, [this] { return accepted_.size() == 2; }));
    Heard<ToWorker> heard;
    start(*accepted_[1], heard);
    raw.stream().binary(true);
    std::string garbage = "\x92\x05\xC1";
    raw.stream().write(asio::buffer(garbage));
    ASSERT_TRUE(run_until(io_, [&] { return heard.closed.has_value(); }));
    EXPECT_EQ(heard.closed->code, ErrorCode::kDataLoss);
    EXPECT_EQ(heard.closed->where, "Ping.nonce");
    ASSERT_TRUE(gateway_->send(Ping{9}));
    ASSERT_TRUE(run_until(io_, [&] { return !at_worker_.messages.empty(); }));
}

TEST_P(LinkPair, TextFramesAndEmptyFramesAreErrors) {
    listen();
    for (bool text : {true, false}) {
        RawPeer raw(io_, *address_);
        ASSERT_FALSE(raw.shake_hands(io_));
        ASSERT_TRUE(run_until(io_, [this] { return !accepted_.empty(); }));
        Heard<ToWorker> heard;
        start(*accepted_[0], heard);
        raw.stream().text(text);
        raw.stream().write(asio::buffer(text ? "hello" : "", text ? 5 : 0));
        ASSERT_TRUE(run_until(io_, [&] { return heard.closed.has_value(); }));
        EXPECT_EQ(heard.closed->code, ErrorCode::kDataLoss);
        accepted_.clear();
    }
}

TEST_P(LinkPair, PeersOfAnotherProtocolAndWebPagesAreRefused) {
    listen();
    RawPeer other(io_, *address_);
    EXPECT_EQ(other.shake_hands(io_, "chat"), websocket::error::upgrade_declined);
    RawPeer none(io_, *address_);
    EXPECT_EQ(none.shake_hands(io_, nullptr), websocket::error::upgrade_declined);
    RawPeer page(io_, *address_);
    EXPECT_EQ(page.shake_hands(io_, "taproot-link", "http://evil.example"),
              websocket::error::upgrade_declined);
    EXPECT_TRUE(accepted_.empty());
    EXPECT_TRUE(dial_now());
}

TEST_P(LinkPair, APeerThatNeverSpeaksIsDroppedAndDoesNotHoldItsPlace) {
    LinkOptions options;
    options.handshake_timeout = std::chrono::milliseconds(50);
    listen(options, 1);
    RawPeer silent(io_, *address_);
    auto dialled = dial_now();  // waits in the kernel's queue until the silent one is dropped
    EXPECT_TRUE(dialled) << dialled.error().describe();
}

TEST_P(LinkPair, NoMoreConnectionsThanAllowedAtATime) {
    serves_itself_ = true;
    listen({}, 1);
    auto first = dial_now();
    ASSERT_TRUE(first);
    ASSERT_TRUE(run_until(io_, [this] { return accepted_.size() == 1; }));
    LinkOptions impatient;
    impatient.handshake_timeout = std::chrono::milliseconds(50);
    auto second = await(io_, dial(io_, *address_, impatient, std::chrono::milliseconds(50)));
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kDeadline);
    // The one that gave up may be accepted yet; it is found dead and gives its place away.
    accepted_[0]->abandon();
    EXPECT_TRUE(dial_now());
}

TEST_P(LinkPair, APeerThatDoesNotReadIsClosedAtTheQueueLimit) {
    LinkOptions options;
    options.write_queue_bytes_max = 1_MiB;
    listen(options);
    RawPeer raw(io_, *address_);
    ASSERT_FALSE(raw.shake_hands(io_));
    ASSERT_TRUE(run_until(io_, [this] { return !accepted_.empty(); }));
    start(*accepted_[0], at_worker_);
    TextBundle bundle{1, std::string(100'000, 'x')};
    std::size_t sent_bytes = 0;
    Result<void> sent;
    while (sent_bytes < 64_MiB && (sent = accepted_[0]->send(ToGateway(bundle)))) {
        sent_bytes += bundle.bytes.size();
        EXPECT_LE(accepted_[0]->queued_bytes(), options.write_queue_bytes_max);
        io_.restart();
        io_.poll();
    }
    ASSERT_FALSE(sent);
    EXPECT_EQ(sent.error().code, ErrorCode::kQueueFull);
    EXPECT_NE(sent.error().message.find("slow peer"), std::string::npos);
    ASSERT_TRUE(run_until(io_, [&] { return at_worker_.closed.has_value(); }));
    EXPECT_EQ(at_worker_.closed->code, ErrorCode::kQueueFull);
    EXPECT_FALSE(accepted_[0]->is_open());
}

TEST_P(LinkPair, ASilentPeerIsNoticedAndALiveIdleOneIsKept) {
    LinkOptions options;
    options.idle_timeout = std::chrono::milliseconds(60);
    connect(options, options);
    RawPeer raw(io_, *address_);  // answers no ping, because nothing reads it
    ASSERT_FALSE(raw.shake_hands(io_));
    ASSERT_TRUE(run_until(io_, [this] { return accepted_.size() == 2; }));
    Heard<ToWorker> heard;
    start(*accepted_[1], heard);
    ASSERT_TRUE(run_until(io_, [&] { return heard.closed.has_value(); }));
    EXPECT_EQ(heard.closed->code, ErrorCode::kDeadline);
    // The good pair was idle for as long, but answered its pings.
    EXPECT_TRUE(gateway_->is_open());
    EXPECT_TRUE(worker_->is_open());
}

TEST_P(LinkPair, ADyingPeerIsNoticedAtOnce) {
    connect();
    RawPeer raw(io_, *address_);
    ASSERT_FALSE(raw.shake_hands(io_));
    ASSERT_TRUE(run_until(io_, [this] { return accepted_.size() == 2; }));
    Heard<ToWorker> heard;
    start(*accepted_[1], heard);
    raw.stream().next_layer().close();
    ASSERT_TRUE(run_until(io_, [&] { return heard.closed.has_value(); }));
    EXPECT_EQ(heard.closed->code, ErrorCode::kUnavailable);
}

TEST_P(LinkPair, ClosingDoesNotWaitForAPeerThatNeverAnswers) {
    LinkOptions options;
    options.close_timeout = std::chrono::milliseconds(30);
    listen(options);
    RawPeer raw(io_, *address_);
    ASSERT_FALSE(raw.shake_hands(io_));
    ASSERT_TRUE(run_until(io_, [this] { return !accepted_.empty(); }));
    start(*accepted_[0], at_worker_);
    // More than the kernel takes: neither the data nor the goodbye can be written.
    for (int i = 0; i < 50; ++i)
        ASSERT_TRUE(accepted_[0]->send(ToGateway(TextBundle{1, std::string(1'000'000, 'x')})));
    accepted_[0]->close("leaving");
    ASSERT_TRUE(run_until(io_, [&] { return at_worker_.closed.has_value(); }));
    EXPECT_EQ(at_worker_.closed->code, ErrorCode::kCancelled);
    EXPECT_EQ(at_worker_.closed->message, "leaving");
}

TEST_P(LinkPair, DialsAgainAfterTheListenerCameBack) {
    connect();
    LinkAddress address = *address_;
    worker_->abandon();
    worker_.reset();
    accepted_.clear();
    listener_.reset();
    ASSERT_TRUE(run_until(io_, [&] { return at_gateway_.closed.has_value(); }));
    auto refused = dial_now();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
    EXPECT_EQ(refused.error().where, address.to_string());
    listen();
    EXPECT_EQ(*address_, address);
    auto again = dial_now();
    ASSERT_TRUE(again) << again.error().describe();
    Heard<ToGateway> heard;
    start(**again, heard);
    ASSERT_TRUE(run_until(io_, [this] { return !accepted_.empty(); }));
    ASSERT_TRUE(accepted_[0]->send(Pong{3}));
    EXPECT_TRUE(run_until(io_, [&] { return !heard.messages.empty(); }));
}

TEST_P(LinkPair, StoppingTheListenerKeepsItsConnectionsAndRefusesNewOnes) {
    connect();
    listener_->stop();
    EXPECT_FALSE(dial_now());
    ASSERT_TRUE(gateway_->send(Ping{1}));
    EXPECT_TRUE(run_until(io_, [&] { return !at_worker_.messages.empty(); }));
}

TEST_P(LinkPair, AnEventLoopThatEndsEarlyLeaksNothing) {
    connect();
    for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(worker_->send(Pong{i}));
    RawPeer half_open(io_, *address_);
    io_.restart();
    io_.poll_one();
}

// The two ends in two threads, as in life: for ThreadSanitizer.
TEST_P(LinkPair, EndsInTwoThreadsShareNothing) {
    asio::io_context worker_io{1};
    auto work = asio::make_work_guard(worker_io);
    Heard<ToWorker> heard;
    std::shared_ptr<LinkConnection> connection;
    auto on_connection = [&](std::shared_ptr<LinkConnection> accepted) {
        connection = std::move(accepted);
        LinkConnection::WorkerEnd end;
        end.on_message = [&](ToWorker&& message) {
            if (const auto* ping = std::get_if<Ping>(&message))
                connection->send(Pong{ping->nonce}).ignore("the test counts what arrives");
        };
        end.on_closed = [&](const Error&) { work.reset(); };
        connection->start(std::move(end));
    };
    auto listener = LinkListener::listen(worker_io, listen_address(), {}, on_connection);
    ASSERT_TRUE(listener);
    address_ = (*listener)->bound_address();
    std::thread worker([&] { worker_io.run(); });
    auto dialled = dial_now();
    ASSERT_TRUE(dialled);
    start(**dialled, at_gateway_);
    for (std::uint64_t i = 0; i < 2'000; ++i) ASSERT_TRUE((*dialled)->send(Ping{i}));
    ASSERT_TRUE(run_until(io_, [&] { return at_gateway_.messages.size() == 2'000; }));
    (*dialled)->close("done");
    ASSERT_TRUE(run_until(io_, [&] { return at_gateway_.closed.has_value(); }));
    asio::post(worker_io, [&] { (*listener)->stop(); });
    worker.join();
    EXPECT_TRUE(at_gateway_.messages.back() == ToGateway(Pong{1'999}));
}

// --- unix socket files ---------------------------------------------------------------------------

class UnixSocketFile : public testing::Test {
protected:
    Result<std::unique_ptr<LinkListener>> listen() {
        return LinkListener::listen(io_, {path_, {}, 0}, {},
                                    [](const std::shared_ptr<LinkConnection>&) {});
    }
    TempFolder folder_;
    std::string path_ = folder_.file("w.sock");
    asio::io_context io_{1};
};

TEST_F(UnixSocketFile, IsPrivateAndGoneAfterStop) {
    auto listener = listen();
    ASSERT_TRUE(listener);
    struct stat info {};
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0600u);
    listener->reset();
    EXPECT_NE(::stat(path_.c_str(), &info), 0);
}

TEST_F(UnixSocketFile, LeftByADeadProcessIsReplaced) {
    {
        asio::local::stream_protocol::acceptor dead(io_,
                                                    asio::local::stream_protocol::endpoint(path_));
    }
    ASSERT_TRUE(std::filesystem::exists(path_));
    EXPECT_TRUE(listen());
}

TEST_F(UnixSocketFile, OfALiveListenerIsAnErrorAndStays) {
    auto first = listen();
    ASSERT_TRUE(first);
    auto second = listen();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kIo);
    EXPECT_NE(second.error().message.find("another process"), std::string::npos);
    EXPECT_TRUE(await(io_, dial(io_, {path_, {}, 0}, {}, std::chrono::seconds(20))));
}

TEST_F(UnixSocketFile, ThatIsNoSocketIsNeverRemoved) {
    std::ofstream(path_) << "precious";
    EXPECT_FALSE(listen());
    EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixSocketFile, OfASuccessorIsNotRemovedByStop) {
    auto first = listen();
    ASSERT_TRUE(first);
    std::filesystem::remove(path_);
    auto second = listen();
    ASSERT_TRUE(second);
    first->reset();
    EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST(LinkListener, AnswersAnUnknownFolderOrHostWithAnError) {
    asio::io_context io{1};
    auto ignore = [](const std::shared_ptr<LinkConnection>&) {};
    auto folder = LinkListener::listen(io, {"/nonexistent-folder/w.sock", {}, 0}, {}, ignore);
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().where, "unix:/nonexistent-folder/w.sock");
    EXPECT_FALSE(LinkListener::listen(io, {"", "not-an-address", 0}, {}, ignore));
}

TEST(LinkDial, OfATcpServerThatIsNoWorkerSaysSo) {
    asio::io_context io{1};
    asio::ip::tcp::acceptor server(io, {asio::ip::address_v4::loopback(), 0});
    asio::ip::tcp::socket peer(io);
    std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    server.async_accept(peer, [&](NetError) { asio::write(peer, asio::buffer(answer)); });
    LinkAddress address{"", "127.0.0.1", server.local_endpoint().port()};
    auto dialled = await(io, dial(io, address, {}, std::chrono::seconds(20)));
    ASSERT_FALSE(dialled);
    EXPECT_EQ(dialled.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(dialled.error().message.find("not a taproot worker"), std::string::npos);
}

TEST(LinkDial, GivesUpAtItsTimeout) {
    asio::io_context io{1};
    asio::ip::tcp::acceptor server(io, {asio::ip::address_v4::loopback(), 0});  // never accepts
    LinkAddress address{"", "localhost", server.local_endpoint().port()};
    auto dialled = await(io, dial(io, address, {}, std::chrono::milliseconds(30)));
    ASSERT_FALSE(dialled);
    EXPECT_EQ(dialled.error().code, ErrorCode::kDeadline);
}

}  // namespace
}  // namespace taproot::link
