// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"

namespace taproot {

// The only hand-over between threads: many producers, one consumer, a capacity, and an end.
// A full queue refuses (try_push returns false); the producer answers its caller, nothing blocks.
// Cost: one uncontended lock per push, one per drained batch.
template <typename T>
class BoundedQueue {
public:
    explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {
        TAPROOT_ASSERT(capacity > 0);
    }

    // False when full or closed; `item` is then untouched.
    [[nodiscard]] bool try_push(T&& item) {
        {
            std::lock_guard lock(mutex_);
            if (closed_ || items_.size() >= capacity_) return false;
            items_.push_back(std::move(item));
        }
        ready_.notify_one();
        return true;
    }

    // Moves out everything queued, in order; never blocks.
    [[nodiscard]] std::vector<T> drain() {
        std::lock_guard lock(mutex_);
        return take_all();
    }

    // Like drain(), but first sleeps until something is queued, the queue is closed, or `timeout`
    // passes.
    [[nodiscard]] std::vector<T> drain_wait(std::chrono::nanoseconds timeout) {
        std::unique_lock lock(mutex_);
        ready_.wait_for(lock, timeout, [this] { return closed_ || !items_.empty(); });
        return take_all();
    }

    // After this, pushes fail; what is queued can still be drained.
    void close() {
        {
            std::lock_guard lock(mutex_);
            closed_ = true;
        }
        ready_.notify_all();
    }

    [[nodiscard]] bool closed() const {
        std::lock_guard lock(mutex_);
        return closed_;
    }
    [[nodiscard]] std::size_t size() const {
        std::lock_guard lock(mutex_);
        return items_.size();
    }

private:
    std::vector<T> take_all() {
        std::vector<T> out(std::make_move_iterator(items_.begin()),
                           std::make_move_iterator(items_.end()));
        items_.clear();
        return out;
    }

    const std::size_t capacity_;
    mutable std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<T> items_;
    bool closed_ = false;
};

}  // namespace taproot
