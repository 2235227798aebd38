// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace taproot {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

inline double to_ms(Duration d) {
    return static_cast<double>(d.count()) * 1e-6;
}
inline double to_seconds(Duration d) {
    return static_cast<double>(d.count()) * 1e-9;
}
inline Duration from_ms(double ms) {
    return Duration(static_cast<std::int64_t>(ms * 1e6));
}

// Time as a dependency, so that tests move it by hand. Thread-safe to read.
class Clock {
public:
    virtual ~Clock() = default;
    [[nodiscard]] virtual TimePoint now() const = 0;
};

class RealClock final : public Clock {
public:
    [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
};

// For tests. Owner: one thread.
class ManualClock final : public Clock {
public:
    [[nodiscard]] TimePoint now() const override { return now_; }
    void advance(Duration d) { now_ += d; }

private:
    TimePoint now_{Duration(1'000'000'000)};
};

}  // namespace taproot
