// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>

namespace taproot {

// The parts of a step, in the order of one layer.
enum class StepPart : std::uint8_t {
    kEmbed,
    kNorm,  // RMSNorm and quantising: what a matrix reads
    kQkv,
    kRope,  // rotary embedding, K and V into the cache
    kAttention,
    kOut,
    kGateUp,
    kSwiglu,  // and quantising its result, where that is not a part of kGateUp
    kDown,
    kHead,
};
inline constexpr std::size_t kStepParts = 10;

constexpr std::string_view to_string(StepPart part) {
    constexpr std::array<std::string_view, kStepParts> kNames = {
        "embed", "norm_quantize", "qkv",    "rope_append", "attention",
        "out",   "gate_up",       "swiglu", "down",        "head"};
    return kNames[static_cast<std::size_t>(part)];
}

// One thread's time in the parts of a step. Each mark() gives the time since the one before it to a
// part. Owner: that thread.
class PartClock {
public:
    using Clock = std::chrono::steady_clock;

    void begin() { last_ = Clock::now(); }
    // Cost: one reading of the clock.
    void mark(StepPart part) {
        Clock::time_point now = Clock::now();
        seconds_[static_cast<std::size_t>(part)] += seconds_between(last_, now);
        last_ = now;
    }
    // The seconds of each part since the last call.
    [[nodiscard]] std::array<double, kStepParts> take() { return std::exchange(seconds_, {}); }

    static double seconds_between(Clock::time_point begin, Clock::time_point end) {
        return std::chrono::duration<double>(end - begin).count();
    }

private:
    std::array<double, kStepParts> seconds_{};
    Clock::time_point last_{};
};

// Where the time of a forward pass goes. The parts add up to the whole: a stretch in which several
// threads worked at several parts is shared among these in proportion to the threads' time in them,
// so waiting for each other counts too. Owner: the engine thread; a Llama has a pointer to one only
// while somebody measures.
struct StepProfile {
    std::array<double, kStepParts> seconds{};
    // Of all layers: K and V read from the pages as attention is cut, and if every page of every
    // sequence were read just once.
    std::int64_t kv_bytes_read = 0;
    std::int64_t kv_bytes_minimum = 0;

    void begin() { last_ = PartClock::Clock::now(); }
    // The time since the last call is this part's.
    void mark(StepPart part) { seconds[static_cast<std::size_t>(part)] += elapsed(); }
    // The time since the last call went to parts as `worked` (of all threads together) did.
    void share(const std::array<double, kStepParts>& worked) {
        double whole = elapsed();
        double sum = std::accumulate(worked.begin(), worked.end(), 0.0);
        if (sum <= 0) return;
        for (std::size_t i = 0; i < kStepParts; ++i) seconds[i] += whole * worked[i] / sum;
    }

private:
    double elapsed() {
        PartClock::Clock::time_point begin = last_;
        last_ = PartClock::Clock::now();
        return PartClock::seconds_between(begin, last_);
    }

    PartClock::Clock::time_point last_{};
};

}  // namespace taproot
