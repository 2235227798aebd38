// SPDX-License-Identifier: Apache-2.0
#include "config/validate.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <cctype>
#include <map>
#include <optional>
#include <string_view>

#include "config/quantity.h"

namespace taproot::config {
namespace {

constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kSocketPathBytesMax = 107;  // sun_path without its terminator
constexpr std::uint32_t kPortMax = 65'535;
constexpr std::string_view kUnix = "unix:";

struct HostPort {
    std::string host;
    std::uint32_t port = 0;
};

// host:port, [ipv6]:port or :port; empty when it is none of them.
std::optional<HostPort> split_host_port(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return std::nullopt;
    std::string_view host = text.substr(0, colon);
    if (host.starts_with('[')) {
        if (host.size() < 3 || !host.ends_with(']')) return std::nullopt;
        host = host.substr(1, host.size() - 2);
    } else if (host.find(':') != std::string_view::npos) {
        return std::nullopt;
    }
    for (const char c : host)
        if (static_cast<unsigned char>(c) <= ' ' || c == '/' || c == 0x7F || c == '[' || c == ']')
            return std::nullopt;
    const auto port = parse_count(text.substr(colon + 1));
    if (!port || *port > kPortMax) return std::nullopt;
    return HostPort{std::string(host), static_cast<std::uint32_t>(*port)};
}

// One spelling for addresses that meet on this host; a wildcard listener meets them all.
std::string spelled(const HostPort& address) {
    const std::string& host = address.host;
    const bool is_local = host.empty() || host == "localhost" || host == "0.0.0.0" || host == "::";
    return fmt::format("{}:{}", is_local ? "127.0.0.1" : host, address.port);
}

std::string worker_key(std::size_t index, std::string_view key) {
    return fmt::format("workers[{}].{}", index, key);
}

// Where the gateway will find a worker, spelled one way. Mirrors link/address.h.
std::string address_of(const Config& config, const Worker& worker) {
    if (worker.link.empty())
        return fmt::format("unix:{}/{}.sock", config.run_dir.empty() ? "." : config.run_dir,
                           worker.name);
    if (worker.link.starts_with(kUnix)) return worker.link;
    const auto address = split_host_port(worker.link);
    if (!address) return worker.link;
    return spelled(*address);
}

void check_worker_names(const Config& config, std::vector<Problem>* out) {
    if (config.workers.empty()) out->push_back({"workers", "at least one worker is needed", {}});
    std::map<std::string, std::size_t> first;
    for (std::size_t i = 0; i < config.workers.size(); ++i) {
        const std::string& name = config.workers[i].name;
        bool is_usable = !name.empty() && name.size() <= kNameBytesMax && name[0] != '.';
        for (const char c : name)
            is_usable = is_usable && (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                                      c == '.' || c == '_' || c == '-');
        if (!is_usable) {
            out->push_back({worker_key(i, "name"),
                            fmt::format("is required: 1..{} letters, digits, '.', '_', '-', not "
                                        "beginning with '.'",
                                        kNameBytesMax),
                            {}});
            continue;
        }
        const auto [found, is_new] = first.emplace(name, i);
        if (!is_new)
            out->push_back({worker_key(i, "name"),
                            fmt::format("'{}' is the name of workers[{}] too", name, found->second),
                            {}});
    }
}

// What is wrong with the form of a link. Empty when nothing is.
std::string link_fault(const std::string& link) {
    if (link.find("://") != std::string::npos)
        return "is a link to a worker, not a URL: host:port or unix:/path, without http:// or /v1";
    if (link.starts_with(kUnix)) {
        const std::size_t bytes = link.size() - kUnix.size();
        if (bytes == 0 || bytes > kSocketPathBytesMax)
            return fmt::format("the path of a unix socket has 1..{} bytes", kSocketPathBytesMax);
        return {};
    }
    const auto address = split_host_port(link);
    if (!address)
        return fmt::format("must be unix:/path, host:port or [ipv6]:port with port 1..{}",
                           kPortMax);
    if (address->port == 0) return "needs a fixed port (1..65535): the gateway dials it";
    return {};
}

void check_links(const Config& config, std::vector<Problem>* out) {
    std::map<std::string, std::string> first;  // address -> who
    if (const auto listen = split_host_port(config.gateway.listen); listen && listen->port != 0)
        first.emplace(spelled(*listen), "gateway.listen");
    for (std::size_t i = 0; i < config.workers.size(); ++i) {
        const Worker& worker = config.workers[i];
        if (!worker.link.empty()) {
            if (const std::string fault = link_fault(worker.link); !fault.empty()) {
                out->push_back({worker_key(i, "link"), fault, {}});
                continue;
            }
        } else if (worker.name.empty()) {
            continue;  // reported already
        }
        const std::string address = address_of(config, worker);
        if (address.size() > kUnix.size() + kSocketPathBytesMax)
            out->push_back({"run_dir",
                            fmt::format("too long: the path of a unix socket in it has at most {} "
                                        "bytes",
                                        kSocketPathBytesMax),
                            {}});
        const auto [found, is_new] = first.emplace(address, worker_key(i, "link"));
        if (!is_new)
            out->push_back({worker_key(i, "link"),
                            fmt::format("'{}' is the address of {} too", address, found->second),
                            {}});
    }
}

void check_listen(const Config& config, std::vector<Problem>* out) {
    const Gateway& gateway = config.gateway;
    const auto listen = split_host_port(gateway.listen);
    if (!listen) {
        out->push_back({"gateway.listen",
                        fmt::format("must be host:port or [ipv6]:port with port 0..{}", kPortMax),
                        {}});
        return;
    }
    const bool has_keys = !gateway.api_keys.empty() || !gateway.api_keys_file.empty();
    if (gateway.auth == "none" && has_keys)
        out->push_back({"gateway.auth", "'none' contradicts the keys that are configured", {}});
    if (gateway.auth != "none" && !has_keys && !is_loopback(listen->host))
        out->push_back({"gateway.listen",
                        fmt::format("'{}' can be reached from other hosts: set api_keys or "
                                    "api_keys_file, or say 'auth: none'",
                                    gateway.listen),
                        {}});
}

bool runs_on_this_host(const Worker& worker) {
    if (worker.link.empty() || worker.link.starts_with(kUnix)) return true;
    const auto address = split_host_port(worker.link);
    return address && (address->host.empty() || is_loopback(address->host));
}

void check_model(const Config& config, std::vector<Problem>* out) {
    if (!config.model.path.empty()) return;
    for (const Worker& worker : config.workers)
        if (runs_on_this_host(worker)) {
            out->push_back({"model.path", "is required: a worker runs on this host", {}});
            return;
        }
}

void check_queues(const Config& config, std::vector<Problem>* out) {
    const std::uint64_t longest = config.model.max_model_len;
    if (config.gateway.limits.queue_uncached_tokens < longest)
        out->push_back({"gateway.limits.queue_uncached_tokens",
                        fmt::format("is less than model.max_model_len ({})", longest),
                        {}});
    for (std::size_t i = 0; i < config.workers.size(); ++i)
        if (config.workers[i].queue_tokens < longest)
            out->push_back({worker_key(i, "queue_tokens"),
                            fmt::format("is less than model.max_model_len ({})", longest),
                            {}});
}

// The type decides results in their last bits, and they must not depend on the worker.
void check_kv_dtypes(const Config& config, std::vector<Problem>* out) {
    for (std::size_t i = 1; i < config.workers.size(); ++i) {
        const std::string& first = config.workers[0].kv_dtype;
        if (config.workers[i].kv_dtype != first)
            out->push_back({worker_key(i, "kv_dtype"),
                            fmt::format("is {}, and {} in workers[0]: the same request would get "
                                        "different answers",
                                        config.workers[i].kv_dtype, first),
                            {}});
    }
}

}  // namespace

bool is_loopback(std::string_view host) {
    if (host == "localhost") return true;
    const std::string text(host);
    in_addr v4{};
    if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
    in6_addr v6{};
    if (inet_pton(AF_INET6, text.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6) != 0;
    return false;  // a name may resolve to anything
}

std::vector<Problem> find_problems(const Config& config) {
    std::vector<Problem> problems;
    check_worker_names(config, &problems);
    check_links(config, &problems);
    check_listen(config, &problems);
    check_model(config, &problems);
    check_queues(config, &problems);
    check_kv_dtypes(config, &problems);
    return problems;
}

Result<void> validate(const Config& config) {
    const std::vector<Problem> problems = find_problems(config);
    if (problems.empty()) return {};
    return to_error(problems, "configuration");
}

std::vector<std::string> warnings(const Config& config) {
    std::vector<std::string> out;
    const auto listen = split_host_port(config.gateway.listen);
    if (config.gateway.auth == "none" && listen && !is_loopback(listen->host))
        out.push_back(fmt::format("auth is none and {} is public: whoever can reach it can use it",
                                  config.gateway.listen));
    return out;
}

}  // namespace taproot::config
