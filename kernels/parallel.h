// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/context.h"
#include "kernels/fork_join.h"
#include "kernels/work_ranges.h"

namespace taproot {

// Below about 2 us of work a region costs more than it saves.
inline constexpr std::int64_t kForkWorthNs = 2000;

// Calls part(begin, end) over [0, count): on all threads when the whole is worth it, else here.
// `item_ns` is a rough cost of one item on one thread. Parts never change results, only time.
template <typename Part>
void parallel_for(KernelContext& context, int count, double item_ns, const Part& part) {
    if (count <= 0) return;
    const int threads = context.pool.threads();
    if (threads == 1 || static_cast<double>(count) * item_ns < static_cast<double>(kForkWorthNs)) {
        part(0, count);
        return;
    }
    // A few parts per thread: a thread that comes late leaves most of its share to the others.
    WorkRanges ranges(count, threads, std::max(1, count / (4 * threads)));
    context.pool.share([&](int thread) { ranges.work_parts(thread, part); });
}

}  // namespace taproot
