// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

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
    kSwiglu,  // and quantising its result
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

// Where the time of a forward pass goes. Each mark() gives the time since the mark before it to a
// part, so the parts add up to the whole. Owner: the engine thread; a Llama has a pointer to one
// only while somebody measures.
struct StepProfile {
    using Clock = std::chrono::steady_clock;

    std::array<double, kStepParts> seconds{};
    // Of all layers: K and V read from the pages as attention is cut, and if every page of every
    // sequence were read just once.
    std::int64_t kv_bytes_read = 0;
    std::int64_t kv_bytes_minimum = 0;

    void begin() { last_ = Clock::now(); }
    // Cost: one reading of the clock.
    void mark(StepPart part) {
        Clock::time_point now = Clock::now();
        seconds[static_cast<std::size_t>(part)] +=
            std::chrono::duration<double>(now - last_).count();
        last_ = now;
    }

private:
    Clock::time_point last_{};
};

}  // namespace taproot
