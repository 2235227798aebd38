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
// process). run() is a fork and a join: the caller works as thread 0.
// Owner: one thread calls run(), never two at once, never from inside a task.
// Waiting spins briefly and then sleeps, so that a machine with more engines than cores still
// moves.
class ForkJoin {
public:
    // `threads` >= 1 in total, the caller included.
    explicit ForkJoin(int threads);
    ~ForkJoin();
    ForkJoin(const ForkJoin&) = delete;
    ForkJoin& operator=(const ForkJoin&) = delete;

    [[nodiscard]] int threads() const { return threads_; }

    // Calls task(0) .. task(threads()-1), each on its own thread; returns when all have returned.
    // Cost: below 1 us between threads that are still spinning. Tasks must not throw.
    void run(TaskRef task);

private:
    struct Shared;
    const int threads_;
    std::unique_ptr<Shared> shared_;
};

// Threads worth starting: min(CPUs in the affinity mask, cgroup CPU quota rounded down), at
// least 1.
int default_thread_count();

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

}  // namespace taproot
