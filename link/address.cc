// SPDX-License-Identifier: Apache-2.0
#include "link/address.h"

#include <fmt/format.h>
#include <sys/un.h>

#include <charconv>

namespace taproot::link {
namespace {

Error bad_address(std::string_view text, std::string_view why) {
    return invalid_argument(
        fmt::format("{}; allowed: unix:/path, host:port, [ipv6]:port, :port", why),
        std::string(text));
}

}  // namespace

Result<LinkAddress> LinkAddress::parse(std::string_view text) {
    LinkAddress out;
    constexpr std::string_view kUnix = "unix:";
    if (text.substr(0, kUnix.size()) == kUnix) {
        out.path = text.substr(kUnix.size());
        constexpr std::size_t kPathMax = sizeof(sockaddr_un::sun_path) - 1;
        if (out.path.empty()) return bad_address(text, "the path of the unix socket is empty");
        if (out.path.size() > kPathMax || out.path.find('\0') != std::string::npos)
            return bad_address(text, fmt::format("a unix socket's path has at most {} bytes, "
                                                 "none of them 0",
                                                 kPathMax));
        return out;
    }
    std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return bad_address(text, "there is no port");
    std::string_view host = text.substr(0, colon);
    std::string_view port = text.substr(colon + 1);
    if (!host.empty() && host.front() == '[') {
        if (host.back() != ']' || host.size() < 3) return bad_address(text, "no closing ]");
        host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != std::string_view::npos) {
        return bad_address(text, "an IPv6 address stands in [ ]");
    }
    auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), out.port);
    if (error != std::errc{} || end != port.data() + port.size())
        return bad_address(text, "the port is not a number in 0..65535");
    if (!host.empty()) out.host = host;
    for (char c : out.host)
        if (c <= ' ' || c == '/' || c == 0x7F) return bad_address(text, "bad character in host");
    return out;
}

Result<LinkAddress> LinkAddress::of_worker(std::string_view link, std::string_view run_dir,
                                           std::string_view name) {
    if (!link.empty()) return parse(link);
    return parse(fmt::format("unix:{}/{}.sock", run_dir.empty() ? "." : run_dir, name));
}

std::string LinkAddress::to_string() const {
    if (is_unix()) return "unix:" + path;
    bool is_v6 = host.find(':') != std::string::npos;
    return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace taproot::link
