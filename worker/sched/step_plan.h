// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "policies/batch/cost_model.h"
#include "worker/kv/prefix_cache.h"
#include "worker/sched/sequence.h"

namespace taproot {

// One sequence's part of a step: compute tokens [position, position + count).
struct PlannedSequence {
    Sequence* sequence;
    std::size_t position = 0;
    std::size_t count = 0;
    std::size_t logits_from = 0;  // rows wanted for tokens [logits_from, count) of this part
    bool decode = false;
};

// What runs in one step. Decodes come first. Made by Scheduler::plan, run by the engine, then given
// back to Scheduler::commit.
struct StepPlan {
    std::vector<BlockCopy> copies;  // made in this order, before the forward pass
    std::vector<PlannedSequence> sequences;
    StepWork work;
    std::size_t restored_blocks = 0;  // came up from RAM while planning
    double restore_ms = 0;            // and took this long

    [[nodiscard]] bool empty() const { return sequences.empty() && copies.empty(); }
    void clear() {
        copies.clear();
        sequences.clear();
        work = {};
        restored_blocks = 0;
        restore_ms = 0;
    }
};

}  // namespace taproot
