// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/result.h"
#include "kernels/dispatch.h"

namespace taproot {

struct RoofOptions {
    Isa isa = Isa::kRef;
    int threads = 1;
    double seconds = 2.0;                 // for everything; at least 0.1
    std::size_t read_bytes = 512u << 20;  // should exceed the last-level cache several times
};

// What this machine can do at most, with this instruction set and these threads together. Kernels
// are reported as shares of these, never of nominal numbers.
struct Roofs {
    double int8_ops_per_s;   // one multiply-add is two
    double fp32_flop_per_s;  // one multiply-add is two
    // One multiply-add is two. Absent: the instruction set or the CPU has no bfloat16 dots.
    std::optional<double> bf16_flop_per_s;
    // [i]: i + 1 threads reading their parts of one buffer, by the loop that is fastest.
    std::vector<double> read_bytes_per_s;
    double memcpy_bytes_per_s;  // copied by all threads: each byte is read once and written once
    double fork_join_ns;        // an empty region in which all threads take part: two barriers
};

// Takes the best of several short windows, so that other load disturbs little. Errors:
// kInvalidArgument (threads, seconds or read_bytes out of range), kUnavailable (no memory).
Result<Roofs> measure_roofs(const RoofOptions& options);

}  // namespace taproot
