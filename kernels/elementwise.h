// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/context.h"

namespace taproot {

// out[t] = x[t] * weight / sqrt(mean(x[t]^2) + eps); the sum of squares runs in the fixed 16-lane
// order. out may be x. weight: [columns].
void rmsnorm(KernelContext& context, ConstRows x, const float* weight, float eps, Rows out);

// out[t] = silu(gate[t]) * up[t]; silu(v) = v / (1 + exp(-v)) with our own exp. out may be gate.
void swiglu(KernelContext& context, ConstRows gate, ConstRows up, Rows out);

// How rotary pairs lie in a head: GGUF's llama family stores (2i, 2i+1), Hugging Face (i, i + d/2).
enum class RopePairs : std::uint8_t { kInterleaved, kHalves };

struct RopeScaling {
    enum class Kind : std::uint8_t { kNone, kLinear, kLlama3, kYarn } kind = Kind::kNone;
    float factor = 1.0f;
    float original_context = 0.0f;
    float low_freq_factor = 1.0f;   // llama3
    float high_freq_factor = 4.0f;  // llama3
    float beta_fast = 32.0f;        // yarn
    float beta_slow = 1.0f;         // yarn
    float attention_factor = 0.0f;  // yarn; 0 = derive from factor
};

// Radians per position of each pair: base^(-2i/rotary_dim), scaled, over `divisors` (GGUF
// rope_freqs.weight; size rotary_dim/2 or empty).
std::vector<double> rope_frequencies(int rotary_dim, double base, const RopeScaling& scaling,
                                     std::span<const float> divisors);

// What cos and sin are multiplied by: 1, or yarn's attention factor.
double rope_magnitude(const RopeScaling& scaling);

// cos/sin for positions [0, positions): made once at load, in double, rounded to float32.
class RopeTable {
public:
    RopeTable() = default;
    // rotary_dim even; frequency i = base^(-2i/rotary_dim), then scaled. Optional per-pair divisors
    // (GGUF rope_freqs.weight), size rotary_dim/2 or empty.
    RopeTable(int rotary_dim, double base, const RopeScaling& scaling,
              std::span<const float> divisors, int positions);

    [[nodiscard]] int rotary_dim() const { return rotary_dim_; }
    [[nodiscard]] int positions() const { return positions_; }
    [[nodiscard]] const float* cos(int position) const {
        return &cos_[index(position)];
    }  // [rotary_dim/2]
    [[nodiscard]] const float* sin(int position) const { return &sin_[index(position)]; }

private:
    [[nodiscard]] std::size_t index(int position) const {
        return static_cast<std::size_t>(position) * static_cast<std::size_t>(rotary_dim_ / 2);
    }
    int rotary_dim_ = 0;
    int positions_ = 0;
    std::vector<float> cos_, sin_;
};

// Rotates the first rotary_dim values of each of `heads` heads in place. x: [rows, heads *
// head_dim]. positions: [rows], each below table.positions().
void rope(KernelContext& context, const RopeTable& table, RopePairs pairs, Rows x, int heads,
          int head_dim, std::span<const std::int32_t> positions);

}  // namespace taproot
