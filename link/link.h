// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/net/aliases.h"
#include "base/result.h"
#include "base/units.h"
#include "link/address.h"
#include "link/codec.h"
#include "link/messages.h"

namespace boost::asio {
class io_context;
}

namespace taproot::link {

struct LinkOptions {
    std::size_t frame_bytes_max = kFrameBytesMax;  // one WebSocket message, either way
    std::size_t write_queue_bytes_max = 128_MiB;   // not yet taken by the kernel
    std::size_t join_bytes = 64_KiB;               // waiting messages share a frame up to this size
    Duration handshake_timeout = std::chrono::seconds(5);
    Duration idle_timeout = std::chrono::seconds(10);  // silence; pings go out after half of it
    Duration close_timeout = std::chrono::seconds(2);
};

// One live WebSocket between a gateway and a worker, over TCP or a unix socket.
//
// Owner: the thread that runs its io_context; every call and every handler is on it (another thread
// posts to the io_context). The one thing it does by itself is read and write.
// Life: on_message may come any number of times, on_closed exactly once and last, both from the
// event loop, never from inside send() or close(). The object lives as long as the caller's pointer
// or its pending I/O. Handlers are dropped after on_closed or abandon(), so they may hold the
// owner. Errors: bytes that do not decode, a frame above the limit, a peer that does not read (the
// write queue is full: "slow peer"), silence beyond idle_timeout: each closes this connection only.
// Cost: messages sent while a write is under way leave together in one frame and one system call.
class LinkConnection : public std::enable_shared_from_this<LinkConnection> {
public:
    struct GatewayEnd {
        std::function<void(ToGateway&&)> on_message;
        std::function<void(const Error&)> on_closed;  // kCancelled when closed from here
    };
    struct WorkerEnd {
        std::function<void(ToWorker&&)> on_message;
        std::function<void(const Error&)> on_closed;
    };

    virtual ~LinkConnection() = default;

    // Begins to read. Once, by whoever received the connection. Sending is allowed before.
    virtual void start(GatewayEnd handlers) = 0;
    virtual void start(WorkerEnd handlers) = 0;

    // Queues one message (any alternative of ToGateway or ToWorker). kUnavailable after the end,
    // kTooLarge for a message above frame_bytes_max (the connection stays), kQueueFull when the
    // peer does not read (the connection closes).
    template <typename Message>
    Result<void> send(const Message& message) {
        encode(message, scratch_);
        return queue_scratch();
    }

    // Writes what is queued, says goodbye and ends: on_closed follows with `reason`.
    virtual void close(std::string reason) = 0;
    // Ends at once and calls no handler again. For owners that go away.
    virtual void abandon() = 0;

    [[nodiscard]] virtual bool is_open() const = 0;
    [[nodiscard]] virtual std::size_t queued_bytes() const = 0;
    [[nodiscard]] virtual std::string peer() const = 0;  // for logs

protected:
    virtual Result<void> queue_scratch() = 0;  // takes scratch_, leaves it empty
    std::string scratch_;
};

// Gateway side: connects and shakes hands. Runs on `io`. kUnavailable (refused, no such socket),
// kDeadline (timeout), kIo.
Awaitable<Result<std::shared_ptr<LinkConnection>>> dial(asio::io_context& io, LinkAddress address,
                                                        LinkOptions options, Duration timeout);

// Worker side: accepts gateways. Owner: the thread that runs its io_context. A unix socket is
// created with mode 0600; one left behind by a dead process is replaced, a live one is an error.
class LinkListener {
public:
    using OnConnection = std::function<void(std::shared_ptr<LinkConnection>)>;

    // Listens at once; on_connection follows for each peer that finished its handshake. At most
    // `connections_max` at a time (open or shaking hands); more wait in the kernel's queue.
    static Result<std::unique_ptr<LinkListener>> listen(asio::io_context& io, LinkAddress address,
                                                        LinkOptions options,
                                                        OnConnection on_connection,
                                                        std::size_t connections_max = 64);
    virtual ~LinkListener() = default;  // stops

    [[nodiscard]] virtual LinkAddress bound_address() const = 0;  // with the real port
    virtual void stop() = 0;  // accepts no more, removes the socket file; connections live on
};

}  // namespace taproot::link
