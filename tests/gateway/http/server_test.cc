// SPDX-License-Identifier: Apache-2.0
#include "gateway/http/server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>

#include "tests/support/raw_http_client.h"

namespace taproot::gateway {
namespace {

using taproot::testing::RawHttpClient;

HttpResponse plain_error(int status, std::string_view message) {
    return {.status = status, .body = "{\"error\":\"" + std::string(message) + "\"}"};
}

Awaitable<void> echo(Exchange& exchange) {
    HttpResponse response;
    response.body =
        exchange.request().method + " " + exchange.request().path + " " + exchange.take_body();
    co_await exchange.send(std::move(response));
}

Awaitable<void> stream_three(Exchange& exchange) {
    if (!co_await exchange.start_stream(200, "text/plain", {})) co_return;
    for (const char* part : {"one", "two", "three"})
        if (!co_await exchange.write(part)) co_return;
    co_await exchange.end_stream();
}

// Waits until the client leaves; `left` counts how often that was seen.
Awaitable<void> wait_for_leaving(boost::asio::io_context& io, std::atomic<int>& waiting,
                                 std::atomic<int>& left, Exchange& exchange) {
    auto timer = std::make_shared<boost::asio::steady_timer>(
        io, boost::asio::steady_timer::time_point::max());
    exchange.on_client_gone([timer, &left] {
        ++left;
        timer->cancel();
    });
    ++waiting;
    co_await timer->async_wait(use_result);
}

Awaitable<void> stream_forever(Exchange& exchange) {
    if (!co_await exchange.start_stream(200, "text/plain", {})) co_return;
    std::string chunk(64 * 1024, 'x');
    while (co_await exchange.write(chunk)) {
    }
}

class HttpServerTest : public ::testing::Test {
protected:
    void start(config::Limits limits = {}, HttpServer::Precheck precheck = nullptr) {
        router_.add("GET", "/echo", [](Exchange& e) { return echo(e); });
        router_.add("POST", "/echo", [](Exchange& e) { return echo(e); });
        router_.add("GET", "/stream", [](Exchange& e) { return stream_three(e); });
        router_.add("GET", "/wait",
                    [this](Exchange& e) { return wait_for_leaving(io_, waiting_, left_, e); });
        router_.add("GET", "/forever", [](Exchange& e) { return stream_forever(e); });
        server_ = std::make_unique<HttpServer>(
            io_, HttpServer::Options{"127.0.0.1:0", limits, &plain_error, std::move(precheck)},
            router_, metrics_);
        ASSERT_TRUE(server_->start());
        thread_ = std::thread([this] { io_.run(); });
    }
    void TearDown() override {
        boost::asio::post(io_, [this] { server_->close_all(); });
        boost::asio::post(io_, [this] { work_.reset(); });
        thread_.join();
    }
    RawHttpClient client() { return RawHttpClient(server_->port()); }

    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
        io_.get_executor()};
    Router router_;
    Metrics metrics_;
    std::unique_ptr<HttpServer> server_;
    std::thread thread_;
    std::atomic<int> waiting_{0};
    std::atomic<int> left_{0};
};

TEST_F(HttpServerTest, AnswersPipelinedRequestsInOrder) {  // B096
    start();
    RawHttpClient c = client();
    c.send(
        "GET /echo HTTP/1.1\r\nHost: x\r\n\r\nPOST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: "
        "2\r\n\r\nhi"
        "GET /stream HTTP/1.1\r\nHost: x\r\n\r\nGET /echo?n=4 HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(c.read_response().body, "GET /echo ");
    EXPECT_EQ(c.read_response().body, "POST /echo hi");
    EXPECT_EQ(c.read_response().body, "onetwothree");
    EXPECT_EQ(c.read_response().body, "GET /echo ");
}

TEST_F(HttpServerTest, TakesChunkedBodies) {
    start();
    RawHttpClient c = client();
    c.send(
        "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
        "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    EXPECT_EQ(c.read_response().body, "POST /echo abcde");
}

TEST_F(HttpServerTest, SaysContinueBeforeTheBody) {  // B088
    start();
    RawHttpClient c = client();
    c.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    EXPECT_EQ(c.read_response().status, 100);
    c.send("ok");
    EXPECT_EQ(c.read_response().body, "POST /echo ok");
    c.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nContent-Length: 2\r\n\r\n");
    EXPECT_EQ(c.read_response().status, 417);
}

TEST_F(HttpServerTest, RefusesFromTheHeadersAloneWithoutContinue) {  // B089
    start({}, [](const HttpRequest& request) -> std::optional<HttpResponse> {
        if (request.header("authorization").empty()) return plain_error(401, "no key");
        return std::nullopt;
    });
    RawHttpClient c = client();
    c.send("POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    RawHttpClient::Response response = c.read_response();
    EXPECT_EQ(response.status, 401);
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_TRUE(c.closed());
}

TEST_F(HttpServerTest, LimitsBodyAndHeaders) {  // B086, B091
    config::Limits limits;
    limits.body_bytes = 1000;
    limits.header_bytes = 2000;
    start(limits);
    {
        RawHttpClient c = client();  // refused from the header, before the body comes
        c.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000000\r\n\r\n");
        EXPECT_EQ(c.read_response().status, 413);
        EXPECT_TRUE(c.closed());
    }
    {
        RawHttpClient c = client();
        c.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (int i = 0; i < 3; ++i) c.send("190\r\n" + std::string(400, 'x') + "\r\n");
        EXPECT_EQ(c.read_response().status, 413);
        EXPECT_TRUE(c.closed());
    }
    {
        RawHttpClient c = client();
        c.send("GET /echo HTTP/1.1\r\nHost: x\r\nX-Long: " + std::string(3000, 'y') + "\r\n\r\n");
        EXPECT_EQ(c.read_response().status, 431);
        EXPECT_TRUE(c.closed());
    }
}

TEST_F(HttpServerTest, NeverAnswersASmuggledRequest) {  // B092, B093
    start();
    const std::string smuggled = "0\r\n\r\nGET /echo?smuggled HTTP/1.1\r\nHost: x\r\n\r\n";
    for (const char* head :
         {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
          "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Transfer-Encoding : chunked\r\n",
          "Content-Length: 1\r\nContent-Length: 5\r\n", "Content-Length: +5\r\n",
          "Content-Length: 0x10\r\n", "Content-Length: -1\r\n",
          "Content-Length: 999999999999999999999999999999\r\n", "Content-Length: 5 5\r\n",
          "Content-Length: \r\n"}) {
        RawHttpClient c = client();
        c.send(std::string("POST /echo HTTP/1.1\r\nHost: x\r\n") + head + "\r\n" + smuggled);
        RawHttpClient::Response response = c.read_response();
        EXPECT_TRUE(response.status >= 400 && response.status < 600) << head << response.status;
        EXPECT_TRUE(c.closed()) << head;
    }
}

TEST_F(HttpServerTest, MalformedRequestsGetAStatusAndAClose) {
    start();
    for (const char* text : {"NONSENSE\r\n\r\n", "GET /echo\r\n\r\n", "GET /echo HTTP/9.9\r\n\r\n",
                             "\x16\x03\x01\x02\r\n\r\n"}) {
        RawHttpClient c = client();
        c.send(text);
        RawHttpClient::Response response = c.read_response();
        EXPECT_TRUE(response.status >= 400) << text;
        EXPECT_TRUE(c.closed());
    }
}

TEST_F(HttpServerTest, UnknownPathsAndMethodsAreTold) {
    start();
    RawHttpClient c = client();
    c.send("GET /nope HTTP/1.1\r\nHost: x\r\n\r\nDELETE /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(c.read_response().status, 404);
    RawHttpClient::Response response = c.read_response();
    EXPECT_EQ(response.status, 405);
    EXPECT_EQ(response.header("allow"), "GET, POST");
}

TEST_F(HttpServerTest, SlashesResolveToOneSpelling) {  // B101, B105
    start();
    RawHttpClient c = client();
    for (const char* target : {"//echo", "/echo/", "http://host/echo", "/echo?x=1"}) {
        c.send(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", target));
        EXPECT_EQ(c.read_response().body, "GET /echo ") << target;
    }
    for (const char* target : {"/ECHO", "/%65cho", "/x/../echo", "/echo;x"}) {
        c.send(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", target));
        EXPECT_EQ(c.read_response().status, 404) << target;
    }
}

TEST_F(HttpServerTest, AnHttp10ClientGetsAnUnchunkedStream) {
    start();
    RawHttpClient c = client();
    c.send("GET /stream HTTP/1.0\r\n\r\n");
    std::string all = c.read_to_end();
    EXPECT_NE(all.find("\r\n\r\nonetwothree"), std::string::npos);
    EXPECT_EQ(all.find("chunked"), std::string::npos);
}

TEST_F(HttpServerTest, SeesAClientThatLeavesWhileItsRequestWaits) {  // B114, B115
    start();
    for (bool reset : {false, true}) {
        int before = left_;
        int waiting = waiting_;
        RawHttpClient c = client();
        c.send("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
        while (waiting_ == waiting) std::this_thread::yield();
        reset ? c.reset() : c.close();
        while (left_ == before) std::this_thread::yield();
    }
    EXPECT_EQ(left_, 2);
}

TEST_F(HttpServerTest, DropsASlowReader) {  // B122
    config::Limits limits;
    limits.slow_reader_ms = 50;
    start(limits);
    RawHttpClient c = client();
    c.send("GET /forever HTTP/1.1\r\nHost: x\r\n\r\n");
    while (metrics_.render().find("taproot_gateway_slow_readers_dropped_total 1") ==
           std::string::npos)
        std::this_thread::yield();
}

TEST_F(HttpServerTest, ADrippedHeaderEndsAtTheDeadline) {  // B098
    config::Limits limits;
    limits.header_read_ms = 50;
    start(limits);
    RawHttpClient c = client();
    c.send("GET /echo HTTP/1.1\r\nHo");
    EXPECT_EQ(c.read_response().status, 408);
    EXPECT_TRUE(c.closed());
}

TEST_F(HttpServerTest, AnIdleConnectionIsClosed) {
    config::Limits limits;
    limits.idle_ms = 50;
    start(limits);
    RawHttpClient c = client();
    c.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(c.read_response().status, 200);
    EXPECT_TRUE(c.closed());
}

TEST_F(HttpServerTest, MoreConnectionsThanAllowedAreRefusedWithAnAnswer) {
    config::Limits limits;
    limits.connections = 2;
    start(limits);
    RawHttpClient a = client(), b = client();
    a.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    b.send("GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    EXPECT_EQ(a.read_response().status, 200);
    EXPECT_EQ(b.read_response().status, 200);
    RawHttpClient c = client();
    RawHttpClient::Response response = c.read_response();
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.header("retry-after"), "1");
    EXPECT_TRUE(c.closed());
}

}  // namespace
}  // namespace taproot::gateway
