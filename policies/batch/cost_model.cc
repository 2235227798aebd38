// SPDX-License-Identifier: Apache-2.0
#include "policies/batch/cost_model.h"

#include <algorithm>
#include <cmath>

namespace taproot {

namespace {

// 0.99: a step counts half after about 70 steps, some seconds: quick enough to follow a machine
// that gets busy, slow enough to average the noise of single steps.
constexpr double kForget = 0.99;
constexpr double kPriorVariance = 0.5;  // in units of the prior: it may be wrong by a factor
constexpr double kVarianceMax = 4;      // forgetting must not blow up terms that never appear
constexpr double kStepMsMin = 0.01;

// Units that bring each term near 1 for usual steps.
constexpr double kTermUnits[] = {1, 8, 8'192, 256, 131'072};

}  // namespace

double StepCost::predict_ms(const StepWork& work) const {
    return fixed_ms + decode_stream_ms * work.decode_streams +
           decode_context_ms * static_cast<double>(work.decode_context_tokens) +
           prefill_token_ms * work.prefill_tokens +
           prefill_pair_ms * static_cast<double>(work.prefill_context_pairs);
}

StepCostFit::StepCostFit(const StepCost& prior) {
    const double coefficients[kTerms] = {prior.fixed_ms, prior.decode_stream_ms,
                                         prior.decode_context_ms, prior.prefill_token_ms,
                                         prior.prefill_pair_ms};
    for (std::size_t i = 0; i < kTerms; ++i) {
        // weights_[i]: how many times the prior the truth is (of 1 ms per unit where the prior is
        // 0).
        scale_[i] = coefficients[i] > 0 ? coefficients[i] : 1 / kTermUnits[i];
        weights_[i] = coefficients[i] > 0 ? 1 : 0;
        covariance_[i][i] = kPriorVariance;
    }
}

void StepCostFit::add(const StepWork& work, double step_ms) {
    if (!std::isfinite(step_ms) || step_ms <= 0) return;
    if (work.decode_streams == 0 && work.prefill_tokens == 0) return;
    const double y = std::max(step_ms, kStepMsMin);
    // Everything relative to the measured time: the target is 1 and errors are relative errors.
    const std::array<double, kTerms> x = {
        scale_[0] / y,
        scale_[1] * work.decode_streams / y,
        scale_[2] * static_cast<double>(work.decode_context_tokens) / y,
        scale_[3] * work.prefill_tokens / y,
        scale_[4] * static_cast<double>(work.prefill_context_pairs) / y,
    };
    std::array<double, kTerms> gain{};  // covariance * x
    double denominator = kForget;
    double error = 1;
    for (std::size_t i = 0; i < kTerms; ++i) {
        for (std::size_t j = 0; j < kTerms; ++j) gain[i] += covariance_[i][j] * x[j];
        denominator += gain[i] * x[i];
        error -= weights_[i] * x[i];
    }
    // A step that was held up by something else (a page fault, another process) moves little.
    error = std::clamp(error, -1.0, 0.5);
    for (std::size_t i = 0; i < kTerms; ++i) {
        weights_[i] += gain[i] / denominator * error;
        for (std::size_t j = 0; j < kTerms; ++j) {
            covariance_[i][j] = (covariance_[i][j] - gain[i] * gain[j] / denominator) / kForget;
        }
    }
    // Forgetting inflates the terms that no step has shown lately; bring those back alone. (Scaling
    // row and column by one factor keeps the matrix positive definite.)
    for (std::size_t i = 0; i < kTerms; ++i) {
        if (covariance_[i][i] <= kVarianceMax) continue;
        const double factor = std::sqrt(kVarianceMax / covariance_[i][i]);
        for (std::size_t j = 0; j < kTerms; ++j) {
            covariance_[i][j] *= factor;
            covariance_[j][i] *= factor;
        }
    }
    ++samples_;
}

StepCost StepCostFit::cost() const {
    const auto coefficient = [&](std::size_t i) { return std::max(0.0, weights_[i]) * scale_[i]; };
    return {.fixed_ms = coefficient(0),
            .decode_stream_ms = coefficient(1),
            .decode_context_ms = coefficient(2),
            .prefill_token_ms = coefficient(3),
            .prefill_pair_ms = coefficient(4)};
}

}  // namespace taproot
