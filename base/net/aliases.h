// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>

namespace boost::asio {}
namespace boost::beast {}
namespace boost::json {}

namespace taproot {

namespace asio = boost::asio;
using NetError = boost::system::error_code;

template <typename T>
using Awaitable = asio::awaitable<T>;

// Awaited I/O returns its error: a peer hanging up is a normal event, not an exception.
//   auto [error, count] = co_await socket.async_read_some(buffer, use_result);
inline constexpr auto use_result = asio::as_tuple(asio::use_awaitable);

}  // namespace taproot
