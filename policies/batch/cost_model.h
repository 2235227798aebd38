// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace taproot {

// What a step has to do, in the units its time depends on.
struct StepWork {
    std::uint32_t decode_streams = 0;
    std::uint64_t decode_context_tokens = 0;  // sum over decode streams of tokens attended
    std::uint32_t prefill_tokens = 0;
    std::uint64_t prefill_context_pairs = 0;  // sum over prefill tokens of tokens attended
};

// Step time as a sum of causes, all in milliseconds per unit. Coefficients are never negative.
struct StepCost {
    double fixed_ms = 0;           // reading the weights once
    double decode_stream_ms = 0;   // one more stream in the batch
    double decode_context_ms = 0;  // per token of context read by a decode stream
    double prefill_token_ms = 0;   // one prompt token through the linear layers
    double prefill_pair_ms = 0;    // one (query token, context token) pair of attention

    [[nodiscard]] double predict_ms(const StepWork& work) const;
};

// Fits StepCost to the steps that ran. Two parts:
//  - the shape: recursive least squares with forgetting (Haykin, Adaptive Filter Theory), each
//    sample weighted by 1/ms so that small steps count as much as large ones, coefficients kept
//    from going below 0. It starts from a prior and leaves it as evidence comes, over some hundred
//    steps;
//  - the pace: one factor on all of it, which follows within some ten steps a machine that gets
//    busy or free again.
// A step counts with at most three times the usual error of a step (Huber), so one that was held up
// by something else moves little, while errors that stay widen what is usual.
// Owner: the engine thread. Cost: about 200 ns per step.
class StepCostFit {
public:
    explicit StepCostFit(const StepCost& prior);

    void add(const StepWork& work, double step_ms);  // ignores work-free and non-finite samples

    [[nodiscard]] StepCost cost() const;
    [[nodiscard]] std::uint64_t samples() const { return samples_; }
    // Usual relative error of a prediction, outliers left out.
    [[nodiscard]] double error() const { return error_; }

private:
    static constexpr std::size_t kTerms = 5;
    using Terms = std::array<double, kTerms>;

    [[nodiscard]] Terms terms(const StepWork& work) const;
    void learn_shape(const Terms& relative, double error_max);

    Terms weights_{};  // of the scaled terms
    Terms scale_{};    // units that bring the terms near 1
    std::array<Terms, kTerms> covariance_{};
    double log_pace_ = 0;
    double error_ = 0;
    std::uint64_t samples_ = 0;
};

}  // namespace taproot
