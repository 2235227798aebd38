// SPDX-License-Identifier: Apache-2.0
#include "gateway/openai/errors.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace taproot::gateway {
namespace {

TEST(Errors, EveryErrorHasAllFourMembers) {  // B045
    for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
        ApiError error =
            to_api_error(Error{static_cast<ErrorCode>(code), "what happened", "field"});
        boost::json::value body = boost::json::parse(error_body(error));
        const boost::json::object& inner = body.at("error").as_object();
        EXPECT_TRUE(inner.at("message").is_string());
        EXPECT_TRUE(inner.at("type").is_string());
        EXPECT_TRUE(inner.at("param").is_string() || inner.at("param").is_null());
        EXPECT_TRUE(inner.at("code").is_string() || inner.at("code").is_null());
        EXPECT_GE(error.status, 400);
    }
}

TEST(Errors, BadInputNamesTheParameter) {
    ApiError error = to_api_error(invalid_argument("must be 1..16", "n"));
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.type, "invalid_request_error");
    EXPECT_EQ(error.param, "n");
}

TEST(Errors, InternalDetailsStayInTheLog) {  // B047
    ApiError error = to_api_error(
        Error{ErrorCode::kInternal, "std::bad_alloc at 0x7f12 in sched.cc", "sched.cc"});
    EXPECT_EQ(error.status, 500);
    EXPECT_EQ(error_body(error).find("bad_alloc"), std::string::npos);
    EXPECT_EQ(error_body(error).find("sched.cc"), std::string::npos);
}

TEST(Errors, ABusyServerSaysWhenToComeBack) {
    ApiError error = to_api_error(Error{ErrorCode::kQueueFull, "full"});
    error.retry_after_ms = 2500;
    HttpResponse response = error_response(error);
    EXPECT_EQ(response.status, 429);
    HttpHeaders expected = {{"Retry-After", "3"}, {"retry-after-ms", "2500"}};
    EXPECT_EQ(response.headers, expected);
}

TEST(Errors, EchoedInputIsCutAtACharacterAndMadeValid) {
    EXPECT_EQ(bounded_echo("abc", 10), "abc");
    EXPECT_EQ(bounded_echo("\xC3\xA9\xC3\xA9\xC3\xA9", 5), "\xC3\xA9\xC3\xA9...");
    EXPECT_EQ(bounded_echo("a\xFFz", 10), "a?z");
    EXPECT_EQ(bounded_echo("\xED\xA0\x80", 10), "???");  // a surrogate
}

}  // namespace
}  // namespace taproot::gateway
