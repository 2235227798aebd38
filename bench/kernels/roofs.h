// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Straight-line loops that show what one core can do at most. REQUIRES: a CPU with AVX-512 VNNI.
namespace taproot::bench {

// vpdpbusd on 20 independent accumulators; returns operations done (2 per multiply-add).
std::int64_t run_vnni(std::int64_t rounds, int* sink);

// fused multiply-adds on 20 independent accumulators; returns operations done.
std::int64_t run_fma(std::int64_t rounds, float* sink);

// Reads `bytes` (a multiple of 1024) with 64-byte loads.
void read_stream(const std::byte* data, std::size_t bytes, int* sink);

}  // namespace taproot::bench
