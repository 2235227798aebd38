// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "cli/determinism.h"

namespace taproot::cli {

// Called when a scenario has ended.
using TallyDone = std::function<void(Tally tally)>;

// Makes the baseline (cold, alone, one chunk, two threads) and computes everything again in every
// other way that this process can: warm, chunked, batched, preempted, from RAM, one thread, other
// instruction sets. Each way compares all requests that its speed allows, at least 40 of a full
// plan. Errors: what creating an executor can fail with, or a baseline that failed.
Result<void> run_determinism_scenarios(DeterminismBench& bench, const TallyDone& done);

// What another process computes and sends, and how much of each request.
RequestLimits other_process_limits();
std::vector<EngineAnswer> run_cold_alone(DeterminismBench& bench, CpuExecutor& executor,
                                         const RigOptions& options, const RequestLimits& limits);

}  // namespace taproot::cli
