// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/types.h"
#include "worker/sched/sequence.h"

namespace taproot {

// Which sequence is about to compute which full block, by hash. A request whose next block is being
// computed by another waits for that one instead of computing it again (twins).
//
// Nobody waits in a circle: blocks enter the tree after each step and everybody matches again, so
// two sequences that share a block stand at the same position of it, and only one owns it. The wait
// is bounded: it ends when the owner has made no progress for kPatienceSteps.
// Owner: the engine thread. A wrong hash match costs a short wait, never a wrong result.
class InFlight {
public:
    static constexpr std::uint64_t kPatienceSteps = 8;

    // `sequence` is going to compute all full blocks from its position on. First come, first
    // served: blocks that another sequence announced stay its own. O(blocks left).
    void announce(Sequence& sequence) {
        auto hashes = sequence.hasher.hashes();
        for (std::size_t b = sequence.computed / kBlockTokens; b < hashes.size(); ++b)
            owners_.try_emplace(hashes[b], &sequence);
    }

    // `sequence` stops computing, or has computed blocks [first, last).
    void withdraw(Sequence& sequence, std::size_t first, std::size_t last) {
        auto hashes = sequence.hasher.hashes();
        for (std::size_t b = first; b < last && b < hashes.size(); ++b) {
            auto found = owners_.find(hashes[b]);
            if (found != owners_.end() && found->second == &sequence) owners_.erase(found);
        }
    }

    // The sequence that will bring block `index` of `sequence`, if that is worth waiting for.
    [[nodiscard]] const Sequence* other_owner(const Sequence& sequence, std::size_t index,
                                              std::uint64_t step) const {
        auto hashes = sequence.hasher.hashes();
        if (index >= hashes.size()) return nullptr;
        auto found = owners_.find(hashes[index]);
        if (found == owners_.end() || found->second == &sequence) return nullptr;
        bool alive = step <= found->second->last_progress_step + kPatienceSteps;
        return alive ? found->second : nullptr;
    }

    [[nodiscard]] std::size_t size() const { return owners_.size(); }

private:
    std::unordered_map<BlockHash, Sequence*> owners_;
};

}  // namespace taproot
