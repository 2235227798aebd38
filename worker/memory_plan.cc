// SPDX-License-Identifier: Apache-2.0
#include "worker/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string_view>

#include "base/types.h"
#include "base/units.h"
#include "worker/kv/ram_tier.h"

namespace taproot {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

double mib(std::uint64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(1_MiB);
}

// The value of "key value" or "key: value kB" in a file of such lines.
std::optional<std::uint64_t> read_field(const fs::path& file, std::string_view key) {
    std::ifstream in(file);
    std::string name;
    std::uint64_t value = 0;
    while (in >> name) {
        if (name == key) {
            if (in >> value) return value;
            return std::nullopt;
        }
        in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
    }
    return std::nullopt;
}

std::optional<std::uint64_t> read_number(const fs::path& file) {  // "max" gives nothing
    std::ifstream in(file);
    std::uint64_t value = 0;
    if (in >> value) return value;
    return std::nullopt;
}

// What one cgroup still allows. Its file pages can be dropped, so they count as free.
std::uint64_t cgroup_room(const fs::path& folder, std::string_view limit_name,
                          std::string_view usage_name, std::string_view file_pages) {
    auto limit = read_number(folder / limit_name);
    auto usage = read_number(folder / usage_name);
    if (!limit || !usage) return kUnknown;
    std::uint64_t reclaimable = read_field(folder / "memory.stat", file_pages).value_or(0);
    std::uint64_t used = *usage > reclaimable ? *usage - reclaimable : 0;
    return *limit > used ? *limit - used : 0;
}

// The least room from `folder` up to the top of the hierarchy: every ancestor's limit counts.
std::uint64_t cgroup_chain_room(const fs::path& top, const std::string& inside, bool v2) {
    std::uint64_t room = kUnknown;
    fs::path relative = fs::path(inside).relative_path();
    while (true) {
        fs::path folder = top / relative;
        room =
            std::min(room, v2 ? cgroup_room(folder, "memory.max", "memory.current", "inactive_file")
                              : cgroup_room(folder, "memory.limit_in_bytes",
                                            "memory.usage_in_bytes", "total_inactive_file"));
        if (relative.empty()) return room;
        relative = relative.parent_path();
    }
}

std::uint64_t cgroup_memory(const fs::path& root) {
    std::uint64_t room = kUnknown;
    std::ifstream in(root / "proc/self/cgroup");
    std::string line;
    while (std::getline(in, line)) {  // hierarchy:controllers:path
        std::size_t first = line.find(':');
        std::size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        std::string controllers = line.substr(first + 1, second - first - 1);
        std::string path = line.substr(second + 1);
        if (controllers.empty())
            room = std::min(room, cgroup_chain_room(root / "sys/fs/cgroup", path, true));
        else if (controllers.find("memory") != std::string::npos)
            room = std::min(room, cgroup_chain_room(root / "sys/fs/cgroup/memory", path, false));
    }
    return room;
}

Error no_room(const MemoryPlan& plan) {
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("not enough memory: {}; {:.0f} MiB are available. Lower kv_bytes{} by at "
                    "least {:.0f} MiB, or free memory",
                    plan.describe(), mib(plan.available_bytes),
                    plan.kv_ram_bytes > 0 ? " or kv_ram_bytes" : "",
                    mib(plan.total_bytes - plan.available_bytes) + 1),
        "kv_bytes"};
}

}  // namespace

std::string MemoryPlan::describe() const {
    std::string ram = kv_ram_bytes == 0 ? ""
                                        : fmt::format(" + RAM tier {:.0f} MiB ({} blocks)",
                                                      mib(kv_ram_bytes), kv_ram_blocks);
    return fmt::format(
        "weights {:.0f} MiB{} + KV {:.0f} MiB ({}, {} blocks = {} tokens){} + working memory "
        "{:.0f} MiB = {:.0f} MiB",
        mib(weight_bytes), weights_are_there ? " (shared, there already)" : "", mib(kv_bytes),
        kv_dtype, kv_blocks, kv_tokens, ram, mib(scratch_bytes), mib(total_bytes));
}

Result<MemoryPlan> plan_memory(const MemoryAsk& ask, std::uint64_t available_bytes) {
    std::uint64_t blocks = ask.kv_bytes_per_block == 0 ? 0 : ask.kv_bytes / ask.kv_bytes_per_block;
    if (blocks == 0)
        return invalid_argument(
            fmt::format("{} bytes hold no block of {} tokens, which takes {} bytes", ask.kv_bytes,
                        kBlockTokens, ask.kv_bytes_per_block),
            "kv_bytes");
    blocks = std::min<std::uint64_t>(blocks, 1u << 24);
    MemoryPlan plan;
    plan.weight_bytes = ask.weight_bytes;
    plan.weights_are_there = ask.weights_are_there;
    plan.kv_blocks = static_cast<std::uint32_t>(blocks);
    plan.kv_bytes = blocks * ask.kv_bytes_per_block;
    plan.kv_dtype = ask.kv_dtype;
    plan.scratch_bytes = ask.scratch_bytes;
    if (ask.kv_ram_bytes > 0) {
        plan.kv_ram_bytes = ask.kv_ram_bytes;
        plan.kv_ram_blocks = RamTier::slots_for(
            {.bytes_max = ask.kv_ram_bytes, .block_bytes = ask.kv_bytes_per_block});
        if (plan.kv_ram_blocks == 0)
            return invalid_argument(
                fmt::format("{} bytes hold no block of {} tokens, which takes {} bytes",
                            ask.kv_ram_bytes, kBlockTokens, ask.kv_bytes_per_block),
                "kv_ram_bytes");
    }
    plan.total_bytes = plan.kv_bytes + plan.kv_ram_bytes + plan.scratch_bytes;
    if (!plan.weights_are_there) plan.total_bytes += plan.weight_bytes;
    plan.available_bytes = available_bytes;
    plan.kv_tokens = blocks * kBlockTokens;

    if (ask.model_len_asked > ask.model_context)
        return invalid_argument(fmt::format("{} tokens asked, the model's context is {}",
                                            ask.model_len_asked, ask.model_context),
                                "model.max_model_len");
    if (ask.model_len_asked > plan.kv_tokens)
        return invalid_argument(
            fmt::format("{} tokens asked, a KV pool of {} bytes holds {}; raise kv_bytes to {} or "
                        "lower the length",
                        ask.model_len_asked, ask.kv_bytes, plan.kv_tokens,
                        round_up<std::uint64_t>(ask.model_len_asked, kBlockTokens) / kBlockTokens *
                            ask.kv_bytes_per_block),
            "model.max_model_len");
    std::uint64_t longest = ask.model_len_asked != 0 ? ask.model_len_asked : ask.model_context;
    plan.model_len_max = static_cast<std::uint32_t>(std::min(longest, plan.kv_tokens));
    if (plan.total_bytes > available_bytes) return no_room(plan);
    return plan;
}

std::uint64_t available_memory(const fs::path& root) {
    std::uint64_t room = kUnknown;
    if (auto kib = read_field(root / "proc/meminfo", "MemAvailable:")) room = *kib * 1024;
    return std::min(room, cgroup_memory(root));
}

}  // namespace taproot
