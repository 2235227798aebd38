// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/assert.h"
#include "kernels/elementwise.h"

namespace taproot {
namespace {

// Llama 3: long waves are slowed by `factor`, short ones kept, and a linear blend between.
double llama3(double frequency, const RopeScaling& s) {
    const double context = s.original_context;
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength < context / s.high_freq_factor) return frequency;
    if (wavelength > context / s.low_freq_factor) return frequency / s.factor;
    const double smooth =
        (context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
    return (1.0 - smooth) * frequency / s.factor + smooth * frequency;
}

// The pair index (a real number) whose wave turns `rotations` times within the original context.
double yarn_pair(double rotations, int rotary_dim, double base, const RopeScaling& s) {
    return rotary_dim * std::log(s.original_context / (rotations * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(base));
}

void yarn(std::span<double> frequencies, int rotary_dim, double base, const RopeScaling& s) {
    const double low = std::max(std::floor(yarn_pair(s.beta_fast, rotary_dim, base, s)), 0.0);
    double high = std::min(std::ceil(yarn_pair(s.beta_slow, rotary_dim, base, s)),
                           static_cast<double>(rotary_dim - 1));
    if (low == high) high += 0.001;
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
        const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        frequencies[i] = frequencies[i] / s.factor * ramp + frequencies[i] * (1.0 - ramp);
    }
}

}  // namespace

std::vector<double> rope_frequencies(int rotary_dim, double base, const RopeScaling& scaling,
                                     std::span<const float> divisors) {
    TAPROOT_ASSERT(rotary_dim > 0);
    TAPROOT_ASSERT(rotary_dim % 2 == 0);
    const std::size_t pairs = static_cast<std::size_t>(rotary_dim / 2);
    TAPROOT_ASSERT(divisors.empty() || divisors.size() == pairs);
    std::vector<double> frequencies(pairs);
    for (std::size_t i = 0; i < pairs; ++i) {
        frequencies[i] = 1.0 / std::pow(base, 2.0 * static_cast<double>(i) / rotary_dim);
    }
    switch (scaling.kind) {
        case RopeScaling::Kind::kNone:
            break;
        case RopeScaling::Kind::kLinear:
            for (double& f : frequencies) f /= scaling.factor;
            break;
        case RopeScaling::Kind::kLlama3:
            for (double& f : frequencies) f = llama3(f, scaling);
            break;
        case RopeScaling::Kind::kYarn:
            yarn(frequencies, rotary_dim, base, scaling);
            break;
    }
    for (std::size_t i = 0; i < divisors.size(); ++i) frequencies[i] /= divisors[i];
    return frequencies;
}

double rope_magnitude(const RopeScaling& scaling) {
    if (scaling.kind != RopeScaling::Kind::kYarn) return 1.0;
    if (scaling.attention_factor > 0.0f) return scaling.attention_factor;
    return scaling.factor <= 1.0f ? 1.0 : 0.1 * std::log(static_cast<double>(scaling.factor)) + 1.0;
}

RopeTable::RopeTable(int rotary_dim, double base, const RopeScaling& scaling,
                     std::span<const float> divisors, int positions)
    : rotary_dim_(rotary_dim), positions_(positions) {
    TAPROOT_ASSERT(positions >= 0);
    const std::vector<double> frequencies = rope_frequencies(rotary_dim, base, scaling, divisors);
    const double magnitude = rope_magnitude(scaling);
    cos_.resize(index(positions));
    sin_.resize(index(positions));
    for (int p = 0; p < positions; ++p) {
        float* cos_row = cos_.data() + index(p);
        float* sin_row = sin_.data() + index(p);
        for (std::size_t i = 0; i < frequencies.size(); ++i) {
            const double angle = p * frequencies[i];
            cos_row[i] = static_cast<float>(std::cos(angle) * magnitude);
            sin_row[i] = static_cast<float>(std::sin(angle) * magnitude);
        }
    }
}

}  // namespace taproot
