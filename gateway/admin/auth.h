// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gateway/http/message.h"
#include "gateway/http/router.h"

namespace taproot::gateway {

// API keys. Closed by default: every route needs a key unless it was put on the open list, so a new
// route is guarded without any change here. With no keys configured everything is open (the
// configuration refuses that for a public address unless it says `auth: none`).
// Immutable after construction.
class Auth {
public:
    // `open_paths`: liveness and scraping.
    Auth(std::vector<std::string> keys, std::vector<std::string> open_paths);

    // The refusal (401, or 400 for two Authorization headers), or empty. Compares in constant time.
    [[nodiscard]] std::optional<HttpResponse> check(const HttpRequest& request) const;

private:
    std::vector<std::string> keys_;
    std::vector<std::string> open_paths_;
};

}  // namespace taproot::gateway
