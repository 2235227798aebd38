// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace taproot::cli {

// "http://host:port[/base]" in parts. https is refused with a hint.
struct ServerUrl {
    std::string host;
    std::string port = "80";
    std::string base;  // path prefix without a trailing slash
};
Result<ServerUrl> parse_server_url(std::string_view text);

struct ClientResponse {
    int status = 0;
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;                            // empty when a line callback took it
};

// A blocking HTTP/1.1 client for our own tools: one connection per call, chunked bodies, no
// redirects. Owner: the calling thread; calls from several threads at once are independent.
class HttpClient {
public:
    HttpClient(ServerUrl url, std::string api_key);

    Result<ClientResponse> get(const std::string& path) const;
    // `on_line` (may be null) gets each line of a 2xx body as it arrives, without its end;
    // returning false closes the connection (the server sees a client that left).
    using LineCallback = std::function<bool(std::string_view)>;
    Result<ClientResponse> post(const std::string& path, const std::string& json,
                                const LineCallback& on_line) const;

private:
    Result<ClientResponse> call(const std::string& head, std::string_view body,
                                const LineCallback& on_line) const;

    ServerUrl url_;
    std::string api_key_;
};

}  // namespace taproot::cli
