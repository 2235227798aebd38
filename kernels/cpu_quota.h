// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

namespace taproot {

// CPUs' worth of time per second that the control group of this process may use: the smallest of
// its own limit and its ancestors' (a container often sees only its own). nullopt when unlimited or
// unreadable. Reads <root>/proc/self/cgroup and <root>/sys/fs/cgroup; `root` is "/" except in
// tests. Understands cgroup v2 (cpu.max) and v1 (cpu.cfs_quota_us over cpu.cfs_period_us).
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root);

// The smaller of `affinity_cpus` and the quota rounded down, at least 1. A pool with more threads
// than the quota is stopped by the kernel in the middle of a parallel region.
int thread_count_for(int affinity_cpus, std::optional<double> quota);

}  // namespace taproot
