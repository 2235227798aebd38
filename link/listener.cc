// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "base/log.h"
#include "link/connection.h"
#include "link/handshake.h"

namespace taproot::link {
namespace {

namespace http = boost::beast::http;
using Endpoint = asio::generic::stream_protocol::endpoint;
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol, LinkExecutor>;

Error system_error(const LinkAddress& address, const char* step, const char* reason) {
    return {ErrorCode::kIo, fmt::format("{}: {}", step, reason), address.to_string()};
}

// Removes a socket file that nobody listens on. A live one, or another kind of file, is an error.
Result<void> clear_stale_socket(asio::io_context& io, const LinkAddress& address) {
    struct stat info {};
    if (::lstat(address.path.c_str(), &info) != 0) {
        if (errno == ENOENT) return {};
        return system_error(address, "looking at the socket file", std::strerror(errno));
    }
    if (!S_ISSOCK(info.st_mode))
        return system_error(address, "listening", "the path exists and is not a socket");
    asio::local::stream_protocol::socket probe(io);
    NetError error;
    probe.connect(asio::local::stream_protocol::endpoint(address.path), error);
    if (!error) return Error{ErrorCode::kIo, "another process listens here", address.to_string()};
    if (error != asio::error::connection_refused &&
        error != boost::system::errc::no_such_file_or_directory)
        return system_error(address, "probing the socket file", error.message().c_str());
    if (::unlink(address.path.c_str()) != 0 && errno != ENOENT)
        return system_error(address, "removing the old socket file", std::strerror(errno));
    return {};
}

Result<Endpoint> endpoint_of(const LinkAddress& address) {
    if (address.is_unix()) return Endpoint(asio::local::stream_protocol::endpoint(address.path));
    NetError error;
    std::string host = address.host == "localhost" ? "127.0.0.1" : address.host;
    auto numeric = asio::ip::make_address(host, error);
    if (error)
        return invalid_argument("a listener's host is an IP address or localhost",
                                address.to_string());
    return Endpoint(asio::ip::tcp::endpoint(numeric, address.port));
}

std::uint16_t port_of(const Acceptor& acceptor) {
    NetError error;
    Endpoint local = acceptor.local_endpoint(error);
    asio::ip::tcp::endpoint tcp;
    if (error || local.size() > tcp.capacity()) return 0;
    std::memcpy(tcp.data(), local.data(), local.size());
    tcp.resize(local.size());
    return tcp.port();
}

// The part that pending accepts and handshakes hold; the LinkListener stops it.
class Core : public std::enable_shared_from_this<Core> {
public:
    Core(asio::io_context& io, LinkAddress address, LinkOptions options,
         LinkListener::OnConnection on_connection, std::size_t connections_max)
        : acceptor_(io.get_executor()),
          retry_timer_(io.get_executor()),
          address_(std::move(address)),
          options_(options),
          on_connection_(std::move(on_connection)),
          connections_max_(connections_max) {}

    Result<void> open(asio::io_context& io);
    void accept();
    void stop();
    [[nodiscard]] const LinkAddress& address() const { return address_; }

private:
    // One accepted peer that has not finished its handshake.
    struct Guest {
        explicit Guest(LinkSocket socket)
            : stream(std::make_unique<LinkStream>(std::move(socket))),
              timer(stream->get_executor()) {}
        std::unique_ptr<LinkStream> stream;
        asio::steady_timer timer;
        boost::beast::flat_buffer buffer;
        http::request_parser<http::empty_body> parser;
        http::response<http::empty_body> refusal;
        std::shared_ptr<void> lease;

        void drop() {
            if (stream != nullptr)
                boost::beast::close_socket(boost::beast::get_lowest_layer(*stream));
        }
    };

    void on_accept(NetError error, LinkSocket socket);
    std::shared_ptr<void> take_lease();
    static Awaitable<void> welcome(std::shared_ptr<Core> core, std::shared_ptr<Guest> guest);
    static Awaitable<NetError> shake_hands(std::shared_ptr<Guest> guest, LinkOptions options);

    Acceptor acceptor_;
    asio::steady_timer retry_timer_;
    LinkAddress address_;
    const LinkOptions options_;
    LinkListener::OnConnection on_connection_;
    const std::size_t connections_max_;
    std::size_t connections_ = 0;  // leases out
    bool is_accepting_ = false;
    bool is_stopped_ = false;
    struct stat socket_file_ {};  // ours, to remove no other's
    std::unordered_set<std::shared_ptr<Guest>> guests_;
};

Result<void> Core::open(asio::io_context& io) {
    TAPROOT_TRY(Endpoint endpoint, endpoint_of(address_));
    if (address_.is_unix()) TAPROOT_CHECK_OK(clear_stale_socket(io, address_));
    NetError error;
    acceptor_.open(endpoint.protocol(), error);
    if (error) return system_error(address_, "opening a socket", error.message().c_str());
    if (!address_.is_unix()) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
    acceptor_.bind(endpoint, error);
    if (error) return system_error(address_, "binding", error.message().c_str());
    if (address_.is_unix()) {
        // Before listen(): until then nobody can connect.
        if (::chmod(address_.path.c_str(), S_IRUSR | S_IWUSR) != 0 ||
            ::lstat(address_.path.c_str(), &socket_file_) != 0)
            return system_error(address_, "making the socket file private", std::strerror(errno));
    }
    acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) return system_error(address_, "listening", error.message().c_str());
    if (!address_.is_unix()) address_.port = port_of(acceptor_);
    return {};
}

// The count of connections goes down when the last holder lets the lease go.
std::shared_ptr<void> Core::take_lease() {
    ++connections_;
    return std::shared_ptr<void>(nullptr, [weak = weak_from_this()](void*) {
        auto core = weak.lock();
        if (core == nullptr) return;
        --core->connections_;
        core->accept();
    });
}

void Core::accept() {
    if (is_stopped_ || is_accepting_ || connections_ >= connections_max_) return;
    is_accepting_ = true;
    acceptor_.async_accept([core = shared_from_this()](NetError error, LinkSocket socket) {
        core->is_accepting_ = false;
        core->on_accept(error, std::move(socket));
    });
}

void Core::on_accept(NetError error, LinkSocket socket) {
    if (is_stopped_) return;
    if (error) {  // out of descriptors, or a peer that left already: not a reason to end
        log_warn("link {}: accept failed: {}", address_.to_string(), error.message());
        retry_timer_.expires_after(std::chrono::milliseconds(100));
        retry_timer_.async_wait([core = shared_from_this()](NetError cancelled) {
            if (!cancelled) core->accept();
        });
        return;
    }
    auto guest = std::make_shared<Guest>(std::move(socket));
    guest->lease = take_lease();
    guests_.insert(guest);
    asio::co_spawn(acceptor_.get_executor(), welcome(shared_from_this(), guest), asio::detached);
    accept();
}

Awaitable<NetError> Core::shake_hands(std::shared_ptr<Guest> guest, LinkOptions options) {
    guest->parser.header_limit(8_KiB);
    auto [read_error, bytes] = co_await http::async_read_header(
        guest->stream->next_layer(), guest->buffer, guest->parser, use_result);
    if (read_error) co_return read_error;
    const auto& request = guest->parser.get();
    bool is_ours = websocket::is_upgrade(request) && request.target() == kTarget &&
                   request[http::field::sec_websocket_protocol] == kSubprotocol &&
                   request.count(http::field::origin) == 0;
    if (!is_ours) {
        guest->refusal.result(http::status::forbidden);
        guest->refusal.set(http::field::connection, "close");
        guest->refusal.prepare_payload();
        auto [write_error, written] =
            co_await http::async_write(guest->stream->next_layer(), guest->refusal, use_result);
        co_return write_error ? write_error : NetError(asio::error::access_denied);
    }
    configure(*guest->stream, options);
    guest->stream->set_option(websocket::stream_base::decorator(&decorate_response));
    auto [accept_error] = co_await guest->stream->async_accept(request, use_result);
    co_return accept_error;
}

Awaitable<void> Core::welcome(std::shared_ptr<Core> core, std::shared_ptr<Guest> guest) {
    guest->timer.expires_after(core->options_.handshake_timeout);
    guest->timer.async_wait([guest](NetError error) {
        if (!error) guest->drop();
    });
    if (!core->address_.is_unix()) {
        NetError ignored;
        guest->stream->next_layer().set_option(asio::ip::tcp::no_delay(true), ignored);
    }
    NetError error = co_await shake_hands(guest, core->options_);
    guest->timer.cancel();
    core->guests_.erase(guest);
    if (error || core->is_stopped_ || !guest->stream->next_layer().is_open()) {
        if (error && !core->is_stopped_)
            log_warn("link {}: handshake failed: {}", core->address_.to_string(), error.message());
        guest->drop();
        guest->lease.reset();
        co_return;
    }
    auto connection = std::make_shared<WebSocketConnection>(
        std::move(guest->stream), core->options_, "gateway at " + core->address_.to_string(),
        std::move(guest->lease));
    core->on_connection_(std::move(connection));
}

void Core::stop() {
    if (is_stopped_) return;
    is_stopped_ = true;
    NetError ignored;
    acceptor_.close(ignored);
    retry_timer_.cancel();
    for (const auto& guest : guests_) guest->drop();
    struct stat now {};
    if (address_.is_unix() && ::lstat(address_.path.c_str(), &now) == 0 &&
        now.st_ino == socket_file_.st_ino && now.st_dev == socket_file_.st_dev)
        ::unlink(address_.path.c_str());
}

class SocketListener final : public LinkListener {
public:
    explicit SocketListener(std::shared_ptr<Core> core) : core_(std::move(core)) {}
    ~SocketListener() override { core_->stop(); }
    [[nodiscard]] LinkAddress bound_address() const override { return core_->address(); }
    void stop() override { core_->stop(); }

private:
    std::shared_ptr<Core> core_;
};

}  // namespace

Result<std::unique_ptr<LinkListener>> LinkListener::listen(asio::io_context& io,
                                                           LinkAddress address, LinkOptions options,
                                                           OnConnection on_connection,
                                                           std::size_t connections_max) {
    TAPROOT_ASSERT(connections_max > 0);
    auto core = std::make_shared<Core>(io, std::move(address), options, std::move(on_connection),
                                       connections_max);
    TAPROOT_CHECK_OK(core->open(io));
    core->accept();
    return std::unique_ptr<LinkListener>(std::make_unique<SocketListener>(std::move(core)));
}

}  // namespace taproot::link
