// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace taproot {

// One thread publishes an immutable value, any thread reads the latest. A reader keeps what it read
// alive (shared_ptr: the publisher must never wait for readers). A mutex and not
// atomic<shared_ptr>: libstdc++ 12 implements the latter with a spin lock that ThreadSanitizer
// cannot see through.
template <typename T>
class Snapshot {
public:
    explicit Snapshot(T initial) : current_(std::make_shared<const T>(std::move(initial))) {}

    void publish(T value) {
        auto next = std::make_shared<const T>(std::move(value));
        std::lock_guard lock(mutex_);
        current_.swap(next);
    }
    [[nodiscard]] std::shared_ptr<const T> read() const {
        std::lock_guard lock(mutex_);
        return current_;
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<const T> current_;
};

}  // namespace taproot
