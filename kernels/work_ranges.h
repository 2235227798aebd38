// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

namespace taproot {

// The part [begin, end) of `count` items that thread `index` of `threads` owns: contiguous, sizes
// differ by <= 1.
struct Range {
    int begin;
    int end;
};
constexpr Range split_range(int count, int threads, int index) {
    int base = count / threads;
    int extra = count % threads;
    int begin = index * base + (index < extra ? index : extra);
    return {begin, begin + base + (index < extra ? 1 : 0)};
}

// Shares items 0 .. count-1 among the threads of one ForkJoin::share: each thread works through its
// own contiguous range (its weights stay near it, and prefetch runs ahead), then helps the others.
// Any one thread that works until nothing is left does what the others never took, so a thread
// that the system paused holds up the join by at most the `grain` items it is at. Which thread does
// an item never changes a result. Cost: one uncontended atomic per `grain` items.
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
        work_parts(thread, [&](int begin, int end) {
            for (int i = begin; i < end; ++i) item(i);
        });
    }

    // Calls part(begin, end) for what this thread claims, at most `grain` items at a time.
    template <typename Part>
    void work_parts(int thread, Part&& part) {
        for (int step = 0; step < ranges_; ++step) {
            Claim& claim = claims_[index((thread + step) % ranges_)];
            while (claim.next.load(std::memory_order_relaxed) < claim.end) {
                int begin = claim.next.fetch_add(grain_, std::memory_order_relaxed);
                if (begin < claim.end) part(begin, std::min(begin + grain_, claim.end));
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
