// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace taproot::gateway {

// One parsed request: plain values, nothing of the parser. Names are kept as sent.
struct HttpRequest {
    std::string method;  // "GET", "POST", ...
    std::string path;    // before '?', percent-decoding is not applied (no route needs it)
    std::string query;   // after '?', raw
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
    int version = 11;  // 10 or 11
    bool keep_alive = true;

    // The first header of that name (case-insensitive), or "".
    [[nodiscard]] std::string_view header(std::string_view name) const;
    // The raw value of `key` in the query, percent-decoded, or "".
    [[nodiscard]] std::string query_value(std::string_view key) const;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
    int status = 200;
    std::string content_type = "application/json";
    std::string body;
    HttpHeaders headers =
        {};  // besides Content-Type, Content-Length, Connection, Date-less by choice
};

// "200 OK" and the like; a number without a name gets "Unknown".
std::string_view reason_phrase(int status);

bool equals_ignoring_case(std::string_view a, std::string_view b);

}  // namespace taproot::gateway
