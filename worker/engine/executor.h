// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/types.h"
#include "kernels/fork_join.h"
#include "worker/kv/block_io.h"

namespace taproot {

// One sequence's part of a step: compute `tokens` at positions [position, position +
// tokens.size()). blocks[i] holds positions 16i..16i+15 and covers all of them; earlier positions
// are already in KV.
struct StepSequence {
    std::span<const TokenId> tokens;
    int position = 0;
    std::span<const BlockId> blocks;
    // Logits are wanted for tokens [logits_from, tokens.size()): size()-1 for the last only,
    // size() for none, smaller to score a prompt.
    int logits_from = 0;
};

// Plan -> logits. The engine talks to a model only through this; tests put a scripted one here.
// The bytes of its pages (BlockIo) are for tiers below.
// Owner: the engine thread. Results for a sequence never depend on its batch mates or chunking.
class Executor : public BlockIo {
public:
    [[nodiscard]] virtual int vocab_size() const = 0;  // columns of a logits row

    // Runs one step. Wanted logits rows are packed in order of sequences, then tokens, into
    // `logits` [rows][vocab_size()], memory owned by the executor and valid until the next call.
    virtual std::span<const float> run(std::span<const StepSequence> step) = 0;

    // Copies a whole KV block (a hit that ends inside a block continues in its own copy).
    virtual void copy_block(BlockId from, BlockId to) = 0;

    // The threads of run(), for other work between two runs: task(0) here, task(i) on each other
    // that comes (ForkJoin::share). i is below threads().
    [[nodiscard]] virtual int threads() const = 0;
    virtual void share(TaskRef task) = 0;
};

}  // namespace taproot
