// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace taproot {
namespace {

namespace fs = std::filesystem;

std::optional<double> read_v2(const fs::path& folder) {
    std::ifstream in(folder / "cpu.max");
    std::string quota;
    double period_us = 0;
    if (!(in >> quota >> period_us) || quota == "max" || period_us <= 0) return std::nullopt;
    char* end = nullptr;
    double quota_us = std::strtod(quota.c_str(), &end);
    if (end == quota.c_str() || quota_us <= 0) return std::nullopt;
    return quota_us / period_us;
}

std::optional<double> read_v1(const fs::path& folder) {
    std::ifstream quota_in(folder / "cpu.cfs_quota_us");
    std::ifstream period_in(folder / "cpu.cfs_period_us");
    double quota_us = 0;
    double period_us = 0;
    if (!(quota_in >> quota_us) || !(period_in >> period_us)) return std::nullopt;
    if (quota_us <= 0 || period_us <= 0) return std::nullopt;  // -1: unlimited
    return quota_us / period_us;
}

// The smallest limit on the way from mount/group up to the mount itself. A group path that names
// the host's tree is not visible inside a container; its missing folders are skipped.
template <typename Read>
std::optional<double> smallest_up(const fs::path& mount, std::string_view group, Read read) {
    std::optional<double> smallest;
    fs::path relative = fs::path(group).relative_path().lexically_normal();
    for (;;) {
        if (auto limit = read(mount / relative))
            smallest = std::min(smallest.value_or(*limit), *limit);
        if (relative.empty() || relative == ".") return smallest;
        fs::path parent = relative.parent_path();
        if (parent == relative) return smallest;
        relative = parent;
    }
}

bool lists_cpu(std::string_view controllers) {
    while (!controllers.empty()) {
        std::size_t comma = controllers.find(',');
        if (controllers.substr(0, comma) == "cpu") return true;
        if (comma == std::string_view::npos) return false;
        controllers.remove_prefix(comma + 1);
    }
    return false;
}

}  // namespace

std::optional<double> cgroup_cpu_quota(const fs::path& root) {
    const fs::path mount = root / "sys/fs/cgroup";
    std::ifstream in(root / "proc/self/cgroup");
    std::optional<double> smallest;
    auto take = [&](std::optional<double> limit) {
        if (limit) smallest = std::min(smallest.value_or(*limit), *limit);
    };
    for (std::string line; std::getline(in, line);) {  // hierarchy-id:controllers:path
        std::string_view rest = line;
        std::size_t first = rest.find(':');
        std::size_t second = first == std::string_view::npos ? first : rest.find(':', first + 1);
        if (second == std::string_view::npos) continue;
        std::string_view controllers = rest.substr(first + 1, second - first - 1);
        std::string_view group = rest.substr(second + 1);
        if (controllers.empty()) {
            take(smallest_up(mount, group, read_v2));
        } else if (lists_cpu(controllers)) {
            take(smallest_up(mount / controllers, group, read_v1));
            if (controllers != "cpu") take(smallest_up(mount / "cpu", group, read_v1));
        }
    }
    return smallest;
}

int thread_count_for(int affinity_cpus, std::optional<double> quota) {
    int threads = affinity_cpus;
    // The small term keeps "200000 100000" at 2 whatever the division rounds to.
    if (quota && *quota < threads) threads = static_cast<int>(*quota + 1e-6);
    return std::max(threads, 1);
}

}  // namespace taproot
