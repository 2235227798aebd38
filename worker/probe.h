// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/clock.h"
#include "policies/batch/cost_model.h"
#include "worker/engine/executor.h"

namespace taproot {

// A first estimate of what steps cost on this machine, from a few small ones: the scheduler's
// prior and the gateway's first routing cost. Writes KV blocks 0 to 3, so it runs before the engine
// starts; needs 4 blocks and 64 positions, with less it gives a guess. Cost: about 250 prompt
// tokens. Owner: the thread that will run the executor, or one that hands it over.
[[nodiscard]] StepCost probe_step_cost(Executor& executor, const Clock& clock, int kv_blocks,
                                       int positions);

}  // namespace taproot
