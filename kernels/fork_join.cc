// SPDX-License-Identifier: Apache-2.0
#include "kernels/fork_join.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/assert.h"
#include "kernels/cpu_quota.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace taproot {
namespace {

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);  // futex words

void futex_wait(Word& word, std::uint32_t while_equal) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_PRIVATE, while_equal,
            nullptr, nullptr, 0);
}

void futex_wake_all(Word& word) {
    syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE_PRIVATE, INT_MAX,
            nullptr, nullptr, 0);
}

void pause() {
#if defined(__x86_64__)
    _mm_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Three stages of waiting. Pauses answer within ~50 ns but keep the core; they last a few
// microseconds, enough for the skew between threads of one region. Yields still answer within
// ~1 us and give the core to any other runnable thread, which is what an oversubscribed machine
// needs. Then the thread sleeps: an idle engine costs nothing.
constexpr int kPauses = 100;
constexpr auto kYieldTime = std::chrono::microseconds(50);

// Returns true as soon as done(), false when it is time to sleep.
template <typename Done>
bool spin_until(Done done) {
    for (int i = 0; i < kPauses; ++i) {
        if (done()) return true;
        pause();
    }
    const auto end = std::chrono::steady_clock::now() + kYieldTime;
    do {
        for (int i = 0; i < 4; ++i) {
            sched_yield();
            if (done()) return true;
        }
    } while (std::chrono::steady_clock::now() < end);
    return false;
}

}  // namespace

// Each word has its own cache line: waiting threads poll one, finishing threads write another.
// Sleeping follows one pattern on both sides: the sleeper raises its flag and then looks at the
// word again; the waker changes the word and then looks at the flag. Both are sequentially
// consistent, so at least one of them sees the other.
struct ForkJoin::Shared {
    alignas(64) Word generation{0};  // one more per run(); workers wait for it to move
    alignas(64) Word unfinished{0};  // workers still inside the task; the caller waits for 0
    alignas(64) std::atomic<int> sleeping_workers{0};
    std::atomic<bool> caller_sleeps{false};
    alignas(64) const TaskRef* task = nullptr;  // published by generation; null: leave
    std::vector<std::thread> workers;

    void start() {
        generation.fetch_add(1, std::memory_order_seq_cst);
        if (sleeping_workers.load(std::memory_order_seq_cst) > 0) futex_wake_all(generation);
    }

    std::uint32_t wait_for_start(std::uint32_t seen) {
        auto moved = [&] { return generation.load(std::memory_order_acquire) != seen; };
        if (!spin_until(moved)) {
            sleeping_workers.fetch_add(1, std::memory_order_seq_cst);
            while (generation.load(std::memory_order_seq_cst) == seen) futex_wait(generation, seen);
            sleeping_workers.fetch_sub(1, std::memory_order_relaxed);
        }
        return generation.load(std::memory_order_acquire);
    }

    void finish() {
        if (unfinished.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
        if (caller_sleeps.load(std::memory_order_seq_cst)) futex_wake_all(unfinished);
    }

    void wait_for_finish() {
        auto none = [&] { return unfinished.load(std::memory_order_acquire) == 0; };
        if (spin_until(none)) return;
        caller_sleeps.store(true, std::memory_order_seq_cst);
        while (std::uint32_t left = unfinished.load(std::memory_order_seq_cst)) {
            futex_wait(unfinished, left);
        }
        caller_sleeps.store(false, std::memory_order_relaxed);
    }

    void work(int thread) {
        std::uint32_t seen = 0;
        for (;;) {
            seen = wait_for_start(seen);
            if (task == nullptr) return;
            (*task)(thread);
            finish();
        }
    }
};

ForkJoin::ForkJoin(int threads) : threads_(threads), shared_(std::make_unique<Shared>()) {
    TAPROOT_ASSERT(threads >= 1);
    // Signals are for the threads that expect them.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    shared_->workers.reserve(static_cast<std::size_t>(threads - 1));
    for (int i = 1; i < threads; ++i) {
        shared_->workers.emplace_back([shared = shared_.get(), i] { shared->work(i); });
        const std::string name = "kernel-" + std::to_string(i);  // at most 15 characters count
        pthread_setname_np(shared_->workers.back().native_handle(), name.substr(0, 15).c_str());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ForkJoin::~ForkJoin() {
    shared_->task = nullptr;
    shared_->start();
    for (std::thread& worker : shared_->workers) worker.join();
}

void ForkJoin::run(TaskRef task) {
    if (threads_ > 1) {
        shared_->task = &task;
        shared_->unfinished.store(static_cast<std::uint32_t>(threads_ - 1),
                                  std::memory_order_relaxed);
        shared_->start();
    }
    task(0);
    if (threads_ > 1) shared_->wait_for_finish();
}

int default_thread_count() {
    cpu_set_t set;
    CPU_ZERO(&set);
    int cpus = sched_getaffinity(0, sizeof set, &set) == 0
                   ? CPU_COUNT(&set)
                   : static_cast<int>(std::thread::hardware_concurrency());
    return thread_count_for(cpus, cgroup_cpu_quota("/"));
}

}  // namespace taproot
