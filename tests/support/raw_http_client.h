// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace taproot::testing {

// A client that sends exactly the bytes it is given and reads what comes, on 127.0.0.1. Blocking,
// gives up after 20 s of silence.
class RawHttpClient {
public:
    struct Response {
        int status = 0;  // 0: the connection ended instead
        std::vector<std::pair<std::string, std::string>> headers;
        std::string body;

        [[nodiscard]] std::string header(std::string_view name) const {
            for (const auto& [key, value] : headers)
                if (key == name) return value;
            return "";
        }
    };

    explicit RawHttpClient(std::uint16_t port) {
        fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        timeval patience{20, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        sockaddr_in where{};
        where.sin_family = AF_INET;
        where.sin_port = htons(port);
        where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(fd_, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0) close();
    }
    ~RawHttpClient() { close(); }
    RawHttpClient(const RawHttpClient&) = delete;
    RawHttpClient& operator=(const RawHttpClient&) = delete;
    RawHttpClient(RawHttpClient&& other) noexcept
        : fd_(std::exchange(other.fd_, -1)), buffer_(std::move(other.buffer_)) {}

    void send(std::string_view data) {
        while (!data.empty()) {
            ssize_t sent = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
            if (sent <= 0) return;  // the server refused and closed: the test reads its answer
            data.remove_prefix(static_cast<std::size_t>(sent));
        }
    }
    void close() {
        if (fd_ >= 0) ::close(std::exchange(fd_, -1));
    }
    void reset() {  // RST instead of FIN
        linger now{1, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close();
    }
    // The server closed and sent nothing more.
    bool closed() { return buffer_.empty() && !more(); }

    std::string read_to_end() {
        while (more()) {
        }
        return std::exchange(buffer_, {});
    }

    Response read_response() {
        Response response;
        std::string head;
        if (!take_until("\r\n\r\n", &head)) return response;
        std::size_t line = head.find("\r\n");
        response.status = std::atoi(head.substr(9, 3).c_str());
        while (line < head.size()) {
            std::size_t begin = line + 2;
            line = std::min(head.find("\r\n", begin), head.size());
            std::string text = head.substr(begin, line - begin);
            std::size_t colon = std::min(text.find(": "), text.size());
            std::string name = text.substr(0, colon);
            std::transform(name.begin(), name.end(), name.begin(),
                           [](char c) { return static_cast<char>(std::tolower(c)); });
            response.headers.emplace_back(name,
                                          colon + 2 <= text.size() ? text.substr(colon + 2) : "");
        }
        if (response.header("transfer-encoding") == "chunked") {
            std::string size, end;
            while (take_until("\r\n", &size)) {
                std::size_t bytes = std::strtoul(size.c_str(), nullptr, 16);
                response.body += take(bytes);
                take_until("\r\n", &end);
                if (bytes == 0) break;
            }
        } else if (std::string length = response.header("content-length"); !length.empty()) {
            response.body = take(std::strtoul(length.c_str(), nullptr, 10));
        }
        return response;
    }

private:
    bool more() {
        char chunk[16 * 1024];
        ssize_t got = fd_ < 0 ? 0 : ::recv(fd_, chunk, sizeof chunk, 0);
        if (got <= 0) return false;
        buffer_.append(chunk, static_cast<std::size_t>(got));
        return true;
    }
    bool take_until(std::string_view mark, std::string* out) {
        std::size_t at;
        while ((at = buffer_.find(mark)) == std::string::npos)
            if (!more()) return false;
        *out = buffer_.substr(0, at);
        buffer_.erase(0, at + mark.size());
        return true;
    }
    std::string take(std::size_t bytes) {
        while (buffer_.size() < bytes && more()) {
        }
        std::string out = buffer_.substr(0, bytes);
        buffer_.erase(0, out.size());
        return out;
    }

    int fd_ = -1;
    std::string buffer_;
};

}  // namespace taproot::testing
