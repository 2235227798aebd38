// SPDX-License-Identifier: Apache-2.0
#include "gateway/admin/auth.h"

#include <gtest/gtest.h>

namespace taproot::gateway {
namespace {

int status(const Auth& auth, const std::string& path, HttpHeaders headers) {
    HttpRequest request;
    request.method = "POST";
    request.path = path;
    request.headers = std::move(headers);
    auto refusal = auth.check(request);
    return refusal ? refusal->status : 200;
}

TEST(Auth, WithoutKeysEverythingIsOpen) {
    EXPECT_EQ(status(Auth({}, {}), "/v1/models", {}), 200);
}

TEST(Auth, EveryRouteIsClosedUnlessListed) {  // B104, B106
    Auth auth({"key-number-one"}, {"/health"});
    EXPECT_EQ(status(auth, "/health", {}), 200);
    for (const char* path : {"/v1/models", "/tokenize", "/debug/route", "/v9/x", "/health/x", "/"})
        EXPECT_EQ(status(auth, path, {}), 401) << path;
}

TEST(Auth, TheSchemeIsCaseInsensitiveAndTheKeyExact) {  // B108
    Auth auth({"key-number-one", "key-number-two"}, {});
    auto with = [&](const std::string& value) {
        return status(auth, "/v1/models", {{"Authorization", value}});
    };
    EXPECT_EQ(with("Bearer key-number-one"), 200);
    EXPECT_EQ(with("bearer key-number-two"), 200);
    EXPECT_EQ(with("BEARER   key-number-one"), 200);
    for (const char* bad :
         {"", "Bearer", "Bearer ", "Bearer key-number-onex", "Bearer key-number-on",
          "Basic key-number-one", "key-number-one", "Bearerkey-number-one"})
        EXPECT_EQ(with(bad), 401) << bad;
    EXPECT_EQ(status(auth, "/",
                     {{"Authorization", "Bearer key-number-one"}, {"authorization", "Bearer x"}}),
              400);
}

}  // namespace
}  // namespace taproot::gateway
