// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace taproot::link {

// Where a worker listens: "unix:/path", "host:port", "[v6]:port", or ":port" (loopback).
struct LinkAddress {
    std::string path;  // unix socket; empty = TCP
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  // 0 only for a listener: any free port

    // kInvalidArgument with `text` as where.
    static Result<LinkAddress> parse(std::string_view text);
    // Of a configured worker: its `link`, or when that is empty the unix socket
    // run_dir/NAME.sock. The one rule for whoever starts, is, or looks for a worker.
    static Result<LinkAddress> of_worker(std::string_view link, std::string_view run_dir,
                                         std::string_view name);
    [[nodiscard]] bool is_unix() const { return !path.empty(); }
    [[nodiscard]] std::string to_string() const;  // parse(to_string()) gives the same
    friend bool operator==(const LinkAddress&, const LinkAddress&) = default;
};

}  // namespace taproot::link
