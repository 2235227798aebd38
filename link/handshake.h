// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/beast/http/field.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

// What both sides of the HTTP upgrade agree on (internal to link/). The subprotocol keeps chance
// clients out; a request with an Origin comes from a web page and is refused, because any page open
// on this host could otherwise reach a worker on loopback.
namespace taproot::link {

inline constexpr const char* kTarget = "/link";
inline constexpr const char* kSubprotocol = "taproot-link";

inline void decorate_request(boost::beast::websocket::request_type& request) {
    request.set(boost::beast::http::field::sec_websocket_protocol, kSubprotocol);
}
inline void decorate_response(boost::beast::websocket::response_type& response) {
    response.set(boost::beast::http::field::sec_websocket_protocol, kSubprotocol);
}

}  // namespace taproot::link
