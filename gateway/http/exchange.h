// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "base/net/aliases.h"
#include "gateway/http/message.h"

namespace taproot::gateway {

// One request and the answer to it, as a handler sees them. Owner: the gateway's I/O thread.
// A handler either calls send() once, or start_stream(), any number of write(), then end_stream().
// All return false when the client is gone or was dropped as a slow reader; the handler then stops.
class Exchange {
public:
    virtual ~Exchange() = default;

    [[nodiscard]] virtual const HttpRequest& request() const = 0;
    // The request's body, moved out (a prompt can be megabytes).
    [[nodiscard]] virtual std::string take_body() = 0;

    virtual Awaitable<bool> send(HttpResponse response) = 0;

    // Chunked for HTTP/1.1, close-delimited for 1.0.
    virtual Awaitable<bool> start_stream(int status, std::string_view content_type,
                                         const HttpHeaders& headers) = 0;
    // Returns when the bytes are with the operating system: the caller's pace is the client's pace.
    virtual Awaitable<bool> write(std::string_view data) = 0;
    virtual Awaitable<bool> end_stream() = 0;
    // Closes without the end a client would take for a complete answer.
    virtual void abort_stream() = 0;

    // True once the client closed or was dropped. `notify` is called at that moment (once, from the
    // I/O loop), also while the handler waits for a worker; it replaces an earlier one; null
    // clears.
    [[nodiscard]] virtual bool client_gone() const = 0;
    virtual void on_client_gone(std::function<void()> notify) = 0;
};

}  // namespace taproot::gateway
