// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "base/result.h"

namespace taproot::cli {

// The prompt of one request of a trace: ids of its blocks from the root on. Equal ids mean equal
// tokens, parents included.
using TracePrompt = std::vector<std::uint64_t>;

// Reads a trace in Mooncake's format: one JSON object per line with an array `hash_ids` of
// non-negative integers, other members ignored. Errors name the file, line and member.
Result<std::vector<TracePrompt>> read_trace(const std::filesystem::path& path);

struct ReplaySizes {
    std::uint32_t device_blocks = 0;
    std::uint32_t ram_blocks = 0;  // 0: no RAM tier
};

// Blocks of the trace's prompts, in the order of the trace.
struct ReplayCounts {
    std::uint64_t blocks = 0;
    std::uint64_t device_hits = 0;
    std::uint64_t ram_hits = 0;
    std::uint64_t ideal_hits = 0;      // of a cache without bounds
    std::uint64_t written_to_ram = 0;  // blocks that went down
    std::uint64_t wrong_blocks = 0;    // hits whose page held other bytes: must be 0
};

// Runs the prompts one after another through a worker's own prefix cache and tiers, with pages of a
// few bytes, no model and no time: only what is kept, and where it is found again. Outputs of the
// requests are not inserted. Errors: a prompt that does not fit the device (its line), no memory.
Result<ReplayCounts> replay_trace(const std::vector<TracePrompt>& prompts,
                                  const ReplaySizes& sizes);

}  // namespace taproot::cli
