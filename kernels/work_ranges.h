// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "kernels/fork_join.h"

namespace taproot {

// Shares items 0 .. count-1 among the threads of one ForkJoin::run: each thread works through its
// own contiguous range (its weights stay near it, and prefetch runs ahead), then helps the others,
// so that a thread the system paused does not hold up the join. Which thread does an item never
// changes a result. Cost: one uncontended atomic per `grain` items.
class WorkRanges {
public:
    WorkRanges(int count, int threads, int grain)
        : ranges_(std::clamp(threads, 1, kRangesMax)), grain_(grain) {
        for (int i = 0; i < ranges_; ++i) {
            Range range = split_range(count, ranges_, i);
            claims_[index(i)].next.store(range.begin, std::memory_order_relaxed);
            claims_[index(i)].end = range.end;
        }
    }

    // Calls item(i) for every item this thread claims.
    template <typename Item>
    void work(int thread, Item&& item) {
        for (int step = 0; step < ranges_; ++step) {
            Claim& claim = claims_[index((thread + step) % ranges_)];
            while (claim.next.load(std::memory_order_relaxed) < claim.end) {
                int begin = claim.next.fetch_add(grain_, std::memory_order_relaxed);
                int end = std::min(begin + grain_, claim.end);
                for (int i = begin; i < end; ++i) item(i);
            }
        }
    }

private:
    static constexpr int kRangesMax = 64;  // more threads than this share ranges
    struct alignas(64) Claim {
        std::atomic<int> next;
        int end;
    };
    static std::size_t index(int i) { return static_cast<std::size_t>(i); }

    int ranges_;
    int grain_;
    std::array<Claim, kRangesMax> claims_;
};

}  // namespace taproot
