// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>

namespace taproot {

// A reference to a callable void(int); no allocation. Valid only while the callable lives.
class TaskRef {
public:
    template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, TaskRef>)
        TaskRef(F&& task)  // NOLINT: implicit, so that run() reads like a loop
        : object_(const_cast<void*>(static_cast<const void*>(&task))),
          call_([](void* object, int thread) {
              (*static_cast<std::remove_reference_t<F>*>(object))(thread);
          }) {}

    void operator()(int thread) const { call_(object_, thread); }

private:
    void* object_;
    void (*call_)(void*, int);
};

// The kernel threads of one engine, passed by reference (no globals; two engines can live in one
// process). share() is a fork and a join that never waits for a thread which did not start.
//
// A region has two states in one atomic word, beside its number and the count of workers inside:
//
//           share() begins                task(0) has returned           inside is 0
//   closed ───────────────> open ───────────────────────────> closed, ───────────────> closed
//   (inside = 0)             │  ^                             workers    share() returns
//                            └──┘                             leave
//                  enter: inside + 1, by a compare-and-swap
//                  that fails once the region is closed
//
// - A worker enters a region at most once, and only while it is open; one that the system did not
//   run in time finds it closed and waits for the next. So a busy machine costs the help of that
//   thread, not a time slice per region.
// - Nobody enters after the close, and share() returns only when nobody is inside: the task and
//   what it captured are not touched afterwards. What workers wrote is visible then.
// - The price: a worker may never come. A task must therefore take its work from claims that all
//   threads share (WorkRanges, parallel_for) until none is left; a fixed part per thread is lost
//   with its thread.
// Waiting spins for some microseconds and then sleeps, on both sides, so that a machine with more
// threads than cores still moves. Owner: one thread calls share(), never two at once, never from
// inside a task.
class ForkJoin {
public:
    // `threads` >= 1 in total, the caller included.
    explicit ForkJoin(int threads);
    ~ForkJoin();
    ForkJoin(const ForkJoin&) = delete;
    ForkJoin& operator=(const ForkJoin&) = delete;

    [[nodiscard]] int threads() const { return threads_; }

    // Calls task(0) here and task(i) on every worker i in 1 .. threads()-1 that comes before
    // task(0) has returned; returns when all that came have returned. Tasks must not throw.
    // Cost: below 1 us between threads that are still spinning.
    void share(TaskRef task);

private:
    struct Shared;
    const int threads_;
    std::unique_ptr<Shared> shared_;
};

// Threads worth starting: min(CPUs in the affinity mask, cgroup CPU quota rounded down), at
// least 1.
int default_thread_count();

}  // namespace taproot
