// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/context.h"
#include "kernels/fork_join.h"

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
    context.pool.run([&](int thread) {
        Range mine = split_range(count, threads, thread);
        if (mine.begin < mine.end) part(mine.begin, mine.end);
    });
}

}  // namespace taproot
