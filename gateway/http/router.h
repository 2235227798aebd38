// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/net/aliases.h"
#include "gateway/http/exchange.h"

namespace taproot::gateway {

using Handler = std::function<Awaitable<void>(Exchange&)>;

// Path and method to handler. Built before the server starts, then only read.
// A path that ends in '/' serves everything below it (GET /v1/models/NAME).
class Router {
public:
    void add(std::string method, std::string path, Handler handler);

    struct Match {
        const Handler* handler = nullptr;  // null: see the two below
        bool path_known = false;           // then the method is wrong: 405 with `allow`
        std::string allow;
    };
    [[nodiscard]] Match find(std::string_view method, std::string_view path) const;

private:
    using Methods = std::map<std::string, Handler, std::less<>>;
    const Methods* find_path(std::string_view path) const;

    std::map<std::string, Methods, std::less<>> exact_;
    std::map<std::string, Methods, std::less<>> prefixes_;
};

}  // namespace taproot::gateway
