// SPDX-License-Identifier: Apache-2.0
#include "cli/http_client.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

namespace taproot::cli {
namespace {

constexpr int kTimeoutSeconds = 900;
constexpr std::size_t kHeadBytesMax = 1 << 20;

struct Socket {
    int fd = -1;
    ~Socket() {
        if (fd >= 0) ::close(fd);
    }
};

Error io_error(std::string message) {
    return Error{ErrorCode::kIo, std::move(message)};
}

Result<std::unique_ptr<Socket>> connect_to(const ServerUrl& url) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (int code = ::getaddrinfo(url.host.c_str(), url.port.c_str(), &hints, &found); code != 0)
        return io_error(fmt::format("cannot resolve {}: {}", url.host, ::gai_strerror(code)));
    std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
    std::string reason = "no address";
    for (addrinfo* at = found; at != nullptr; at = at->ai_next) {
        auto socket = std::make_unique<Socket>();
        socket->fd = ::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (socket->fd < 0) continue;
        if (::connect(socket->fd, at->ai_addr, at->ai_addrlen) == 0) {
            int one = 1;
            ::setsockopt(socket->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            timeval limit{kTimeoutSeconds, 0};
            ::setsockopt(socket->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
            return socket;
        }
        reason = std::strerror(errno);
    }
    return io_error(fmt::format("cannot connect to {}:{}: {}; is the server running?", url.host,
                                url.port, reason));
}

bool send_all(int fd, std::string_view data) {
    while (!data.empty()) {
        ssize_t sent = ::send(fd, data.data(), data.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        data.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
}

// The bytes of one connection, with what was read too far kept for the next call.
class Reader {
public:
    explicit Reader(int fd) : fd_(fd) {}

    // Reads on until `mark` is there; the text before it. Empty optional: closed or too long.
    std::optional<std::string> until(std::string_view mark, std::size_t bytes_max) {
        std::size_t found;
        while ((found = buffer_.find(mark, at_)) == std::string::npos) {
            if (buffer_.size() - at_ > bytes_max || !more()) return std::nullopt;
        }
        std::string out = buffer_.substr(at_, found - at_);
        at_ = found + mark.size();
        return out;
    }
    // Up to `bytes` of what is there, at least one; "" at the end.
    std::string_view some(std::size_t bytes) {
        if (at_ == buffer_.size() && !more()) return {};
        std::size_t count = std::min(bytes, buffer_.size() - at_);
        std::string_view out(buffer_.data() + at_, count);
        at_ += count;
        return out;
    }

private:
    bool more() {
        buffer_.erase(0, at_);
        at_ = 0;
        char chunk[16 * 1024];
        ssize_t got;
        do got = ::recv(fd_, chunk, sizeof chunk, 0);
        while (got < 0 && errno == EINTR);
        if (got <= 0) return false;
        buffer_.append(chunk, static_cast<std::size_t>(got));
        return true;
    }

    int fd_;
    std::string buffer_;
    std::size_t at_ = 0;
};

std::string lower(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return text;
}

Result<ClientResponse> parse_head(std::string_view head) {
    ClientResponse response;
    std::size_t line_end = std::min(head.find("\r\n"), head.size());
    std::size_t space = head.find(' ');
    if (!head.starts_with("HTTP/1.") || space == std::string_view::npos ||
        std::from_chars(head.data() + space + 1, head.data() + line_end, response.status).ec !=
            std::errc())
        return io_error("the answer is not HTTP");
    while (line_end < head.size()) {
        head.remove_prefix(line_end + 2);
        line_end = std::min(head.find("\r\n"), head.size());
        std::string_view line = head.substr(0, line_end);
        std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        std::string_view value = line.substr(colon + 1);
        value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
        response.headers[lower(std::string(line.substr(0, colon)))] = std::string(value);
    }
    return response;
}

// Hands a body's bytes on, as lines or into response.body. False: the callback wants no more.
class BodySink {
public:
    BodySink(const HttpClient::LineCallback& on_line, ClientResponse& response)
        : on_line_(on_line), lines_(on_line && response.status / 100 == 2), response_(response) {}

    bool take(std::string_view data) {
        if (!lines_) {
            response_.body += data;
            return true;
        }
        partial_ += data;
        std::size_t begin = 0, end;
        while ((end = partial_.find('\n', begin)) != std::string::npos) {
            std::string_view line(partial_.data() + begin, end - begin);
            if (line.ends_with('\r')) line.remove_suffix(1);
            if (!on_line_(line)) return false;
            begin = end + 1;
        }
        partial_.erase(0, begin);
        return true;
    }

private:
    const HttpClient::LineCallback& on_line_;
    bool lines_;
    ClientResponse& response_;
    std::string partial_;
};

Result<void> read_body(Reader& reader, const ClientResponse& response, BodySink& sink) {
    auto take_exactly = [&](std::uint64_t bytes) -> int {  // 1 = all, 0 = stopped, -1 = cut
        while (bytes > 0) {
            std::string_view part =
                reader.some(static_cast<std::size_t>(std::min<std::uint64_t>(bytes, 1 << 20)));
            if (part.empty()) return -1;
            bytes -= part.size();
            if (!sink.take(part)) return 0;
        }
        return 1;
    };
    auto header = [&](const char* name) {
        auto it = response.headers.find(name);
        return it == response.headers.end() ? std::string() : it->second;
    };
    if (lower(header("transfer-encoding")) == "chunked") {
        while (true) {
            std::optional<std::string> size_line = reader.until("\r\n", 1024);
            std::uint64_t size = 0;
            if (!size_line ||
                std::from_chars(size_line->data(), size_line->data() + size_line->size(), size, 16)
                        .ec != std::errc())
                return io_error("the connection closed in the middle of the answer");
            if (size == 0) return {};
            int outcome = take_exactly(size);
            if (outcome == 0) return {};
            if (outcome < 0 || !reader.until("\r\n", 16))
                return io_error("the connection closed in the middle of the answer");
        }
    }
    std::uint64_t length = 0;
    std::string text = header("content-length");
    if (!text.empty() &&
        std::from_chars(text.data(), text.data() + text.size(), length).ec == std::errc()) {
        if (take_exactly(length) < 0)
            return io_error("the connection closed in the middle of the answer");
        return {};
    }
    for (std::string_view part; !(part = reader.some(1 << 20)).empty();)
        if (!sink.take(part)) break;
    return {};
}

}  // namespace

Result<ServerUrl> parse_server_url(std::string_view text) {
    constexpr std::string_view kScheme = "http://";
    if (text.starts_with("https://"))
        return invalid_argument("https is not spoken by this tool; use the server's http address",
                                std::string(text));
    if (text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
    ServerUrl url;
    std::size_t slash = std::min(text.find('/'), text.size());
    url.base = std::string(text.substr(slash));
    while (url.base.ends_with('/')) url.base.pop_back();
    if (url.base.ends_with("/v1")) url.base.resize(url.base.size() - 3);
    std::string_view authority = text.substr(0, slash);
    std::size_t colon = authority.rfind(':');
    if (colon != std::string_view::npos && authority.back() != ']') {
        url.port = std::string(authority.substr(colon + 1));
        authority = authority.substr(0, colon);
    }
    if (authority.size() > 2 && authority.front() == '[')
        authority = authority.substr(1, authority.size() - 2);
    url.host = std::string(authority);
    if (url.host.empty())
        return invalid_argument("give a URL such as http://127.0.0.1:8080", std::string(text));
    return url;
}

HttpClient::HttpClient(ServerUrl url, std::string api_key)
    : url_(std::move(url)), api_key_(std::move(api_key)) {}

Result<ClientResponse> HttpClient::get(const std::string& path) const {
    return call(fmt::format("GET {}{} HTTP/1.1\r\n", url_.base, path), "", nullptr);
}

Result<ClientResponse> HttpClient::post(const std::string& path, const std::string& json,
                                        const LineCallback& on_line) const {
    return call(
        fmt::format(
            "POST {}{} HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            url_.base, path, json.size()),
        json, on_line);
}

Result<ClientResponse> HttpClient::call(const std::string& head, std::string_view body,
                                        const LineCallback& on_line) const {
    TAPROOT_TRY(std::unique_ptr<Socket> socket, connect_to(url_));
    std::string request =
        head + fmt::format("Host: {}:{}\r\nConnection: close\r\n", url_.host, url_.port);
    if (!api_key_.empty()) request += fmt::format("Authorization: Bearer {}\r\n", api_key_);
    request += "\r\n";
    request += body;
    bool sent =
        send_all(socket->fd, request);  // a server that refuses early may have answered already
    Reader reader(socket->fd);
    std::optional<std::string> text = reader.until("\r\n\r\n", kHeadBytesMax);
    if (!text)
        return io_error(sent ? "the server closed the connection without an answer"
                             : "the server did not take the request");
    TAPROOT_TRY(ClientResponse response, parse_head(*text));
    BodySink sink(on_line, response);
    TAPROOT_CHECK_OK(read_body(reader, response, sink));
    return response;
}

}  // namespace taproot::cli
