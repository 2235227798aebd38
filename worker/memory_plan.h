// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/result.h"

namespace taproot {

// What a worker is going to take at most, decided before it allocates anything. Its resident memory
// (ps) stays below this plus the weights that were there already; pages of the model file, while it
// is read, are the page cache's.
struct MemoryAsk {
    std::uint64_t weight_bytes = 0;        // packed
    bool weights_are_there = false;        // in memory that another worker has filled
    std::uint64_t kv_bytes = 0;            // budget of the KV pool
    std::uint64_t kv_bytes_per_block = 0;  // all layers
    std::uint64_t kv_ram_bytes = 0;        // cap of the RAM tier; 0 = none
    std::string kv_dtype = "f16";          // for describe()
    std::uint64_t scratch_bytes = 0;       // everything else, at most
    std::uint32_t model_context = 0;       // positions the model was trained for
    std::uint32_t model_len_asked = 0;     // configured; 0 = as much as model and pool allow
};

struct MemoryPlan {
    std::uint64_t weight_bytes = 0;
    bool weights_are_there = false;
    std::uint32_t kv_blocks = 0;
    std::uint64_t kv_bytes = 0;  // kv_blocks * bytes per block, <= the budget
    std::string kv_dtype;
    std::uint64_t kv_ram_bytes = 0;  // taken as it fills
    std::uint64_t kv_ram_blocks = 0;
    std::uint64_t scratch_bytes = 0;
    std::uint64_t total_bytes = 0;  // without weights that are there already
    std::uint64_t available_bytes = 0;
    std::uint64_t kv_tokens = 0;
    std::uint32_t model_len_max = 0;

    // "weights 92 MiB + KV 1024 MiB (f16, 2912 blocks = 46592 tokens) + working memory 99 MiB =
    // ...", and "+ RAM tier 2048 MiB (5813 blocks)" where there is one
    [[nodiscard]] std::string describe() const;
};

// Errors, all with the numbers: kInvalidArgument where the configuration cannot be met (no whole
// block fits the budget, a model length beyond the model or the pool), kUnavailable where this
// machine has not enough memory now.
Result<MemoryPlan> plan_memory(const MemoryAsk& ask, std::uint64_t available_bytes);

// Memory a new process can still get without swapping: the least of MemAvailable and the limits of
// this process's cgroups (v2 and v1), their reclaimable file pages counted as free. `root` is "/"
// except in tests. Unknown (no /proc): the largest number.
[[nodiscard]] std::uint64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace taproot
