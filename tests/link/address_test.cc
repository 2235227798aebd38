// SPDX-License-Identifier: Apache-2.0
#include "link/address.h"

#include <gtest/gtest.h>

#include <string>

namespace taproot::link {
namespace {

TEST(LinkAddress, ParsesUnixAndTcpAndPrintsThemBack) {
    struct Case {
        const char* text;
        LinkAddress address;
        const char* printed;
    };
    const Case cases[] = {
        {"unix:/run/taproot/w0.sock",
         {"/run/taproot/w0.sock", "127.0.0.1", 0},
         "unix:/run/taproot/w0.sock"},
        {"unix:relative.sock", {"relative.sock", "127.0.0.1", 0}, "unix:relative.sock"},
        {"10.0.0.7:9000", {"", "10.0.0.7", 9000}, "10.0.0.7:9000"},
        {":0", {"", "127.0.0.1", 0}, "127.0.0.1:0"},
        {"gpu-host:65535", {"", "gpu-host", 65535}, "gpu-host:65535"},
        {"[::1]:80", {"", "::1", 80}, "[::1]:80"},
    };
    for (const Case& c : cases) {
        auto parsed = LinkAddress::parse(c.text);
        ASSERT_TRUE(parsed) << c.text << ": " << parsed.error().describe();
        EXPECT_EQ(*parsed, c.address) << c.text;
        EXPECT_EQ(parsed->to_string(), c.printed);
        auto again = LinkAddress::parse(parsed->to_string());
        ASSERT_TRUE(again);
        EXPECT_EQ(*again, *parsed);
    }
}

TEST(LinkAddress, RefusesWhatIsNoAddressNamingIt) {
    for (std::string text :
         {std::string(""), std::string("unix:"), std::string("host"), std::string("host:"),
          std::string("host:70000"), std::string("host:-1"), std::string("host:80x"),
          std::string("::1:80"), std::string("[::1:80"), std::string("[]:80"),
          std::string("a b:80"), std::string("http://x:80"), "unix:/" + std::string(200, 'x')}) {
        auto parsed = LinkAddress::parse(text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
        EXPECT_EQ(parsed.error().where, text);
    }
}

TEST(LinkAddress, OfAWorkerIsItsLinkOrASocketInTheRunFolder) {
    auto given = LinkAddress::of_worker("10.0.0.7:9000", "/run/x", "w0");
    ASSERT_TRUE(given);
    EXPECT_EQ(given->to_string(), "10.0.0.7:9000");
    auto in_run_dir = LinkAddress::of_worker("", "/run/x", "w0");
    ASSERT_TRUE(in_run_dir);
    EXPECT_EQ(in_run_dir->to_string(), "unix:/run/x/w0.sock");
    EXPECT_FALSE(LinkAddress::of_worker("nonsense", "/run/x", "w0"));
}

}  // namespace
}  // namespace taproot::link
