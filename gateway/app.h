// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "config/schema.h"

namespace taproot::gateway {

// The gateway as one object: constructs, connects, starts, and stops in reverse. No behaviour of
// its own. One thread runs its io_context and owns everything in it. Owner: the thread that made
// it; start() and stop() are called from there.
class GatewayApp {
public:
    // REQUIRES: a validated configuration.
    explicit GatewayApp(config::Config config);
    ~GatewayApp();
    GatewayApp(const GatewayApp&) = delete;
    GatewayApp& operator=(const GatewayApp&) = delete;

    // Binds, dials the workers, starts the thread. Errors name what could not be had.
    Result<void> start();
    [[nodiscard]] std::uint16_t port() const;  // after start(); tells what port 0 became

    // /ready turns 503, accepting stops, running requests get drain_ms, then all is closed. Joins.
    void stop();

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace taproot::gateway
