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

// How long a thread polls before it sleeps: longer than one item of work and than what the caller
// does between two regions of a step, shorter than what others on this core would notice. No
// sched_yield: where somebody else runs on this core it gives away a whole time slice.
constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr int kPausesPerLook = 16;  // between two looks at the clock

// Returns true as soon as done(), false when it is time to sleep.
template <typename Done>
bool spin_until(Done done) {
    if (done()) return true;
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
        for (int i = 0; i < kPausesPerLook; ++i) {
            pause();
            if (done()) return true;
        }
    } while (std::chrono::steady_clock::now() < end);
    return false;
}

// The state word: number of the region, open or closed, workers inside.
using State = std::uint64_t;
constexpr State kInside = (1u << 16) - 1;
constexpr State kOpen = 1u << 16;
constexpr State kStop = 1u << 17;  // threads end; never closed again
constexpr int kRegionShift = 18;   // 2^46 regions do not wrap

constexpr State region_of(State state) {
    return state >> kRegionShift;
}

// Where one side sleeps until the other has changed the state. All steps are sequentially
// consistent. The sleeper reads the ticket, announces itself, looks at the state and sleeps while
// the ticket stands; the waker changes the state and takes the announcements, and who has taken any
// moves the ticket. No change is slept through: whoever takes an announcement, for whatever change,
// moves the ticket after the sleeper has read it, and the sleeper looks again. And if nobody takes
// it, the waker's look at the announcements came before it, so the sleeper's look came after the
// change.
class Bed {
public:
    template <typename Awake>
    void sleep_until(Awake awake) {
        while (!awake()) {
            const std::uint32_t ticket = ticket_.load(std::memory_order_seq_cst);
            sleepers_.fetch_add(1, std::memory_order_seq_cst);
            if (awake()) return;
            futex_wait(ticket_, ticket);
        }
    }

    // After the change. One system call per time that somebody lay down, not per change: a woken
    // thread may wait long for a core.
    void wake_all() {
        if (sleepers_.load(std::memory_order_seq_cst) == 0) return;
        sleepers_.store(0, std::memory_order_seq_cst);
        ticket_.fetch_add(1, std::memory_order_seq_cst);
        futex_wake_all(ticket_);
    }

private:
    Word sleepers_{0};
    Word ticket_{0};
};

}  // namespace

struct ForkJoin::Shared {
    alignas(64) std::atomic<State> state{0};
    alignas(64) Bed workers_bed;
    alignas(64) Bed caller_bed;
    // Written while the region is closed and empty, read by who has entered.
    alignas(64) const TaskRef* task = nullptr;
    std::vector<std::thread> workers;

    // The caller's side. While closed and empty nobody else changes the state.
    void open(State flags) {
        const State now = state.load(std::memory_order_relaxed);
        state.store(((region_of(now) + 1) << kRegionShift) | flags, std::memory_order_seq_cst);
        workers_bed.wake_all();
    }

    void close_and_join() {
        if ((state.fetch_and(~kOpen, std::memory_order_seq_cst) & kInside) == 0) return;
        auto empty = [this] { return (state.load(std::memory_order_seq_cst) & kInside) == 0; };
        if (!spin_until(empty)) caller_bed.sleep_until(empty);
    }

    // A worker's side. The first region that is not `seen`, open or closed already.
    State wait_for_next(State seen) {
        auto moved = [&] { return region_of(state.load(std::memory_order_seq_cst)) != seen; };
        if (!spin_until(moved)) workers_bed.sleep_until(moved);
        return state.load(std::memory_order_acquire);
    }

    bool enter(State& now) {
        while ((now & kOpen) != 0) {
            if (state.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel,
                                            std::memory_order_acquire)) {
                return true;
            }
        }
        return false;
    }

    void leave() {
        const State before = state.fetch_sub(1, std::memory_order_seq_cst);
        if ((before & kOpen) == 0 && (before & kInside) == 1) caller_bed.wake_all();
    }

    void work(int thread) {
        State seen = 0;
        for (;;) {
            State now = wait_for_next(seen);
            const bool entered = enter(now);  // may find a later region than the one it waited for
            if ((now & kStop) != 0) return;
            seen = region_of(now);
            if (!entered) continue;
            (*task)(thread);
            leave();
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
    shared_->open(kStop);
    for (std::thread& worker : shared_->workers) worker.join();
}

void ForkJoin::share(TaskRef task) {
    if (threads_ == 1) return task(0);
    shared_->task = &task;
    shared_->open(kOpen);
    task(0);
    shared_->close_and_join();
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
