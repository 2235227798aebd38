// SPDX-License-Identifier: Apache-2.0
#include "policies/batch/cost_model.h"

#include <algorithm>
#include <cmath>

namespace taproot {

namespace {

// 0.99: a step counts half after about 70 steps, some seconds.
constexpr double kForget = 0.99;
// In units of the prior, which may be wrong by a factor. The probe sees the attention terms least.
constexpr double kPriorVariance[] = {0.5, 0.5, 2, 0.5, 2};
constexpr double kVarianceMax = 4;  // forgetting must not blow up terms that never appear
constexpr double kStepMsMin = 0.01;

constexpr double kPaceGain = 0.2;      // of a step's error goes into the pace
constexpr double kPaceMemory = 0.998;  // what lasts becomes shape
constexpr double kErrorAtStart = 0.2;
constexpr double kErrorMin = 0.02;
constexpr double kErrorGain = 0.05;
constexpr double kOutlier = 3;        // errors beyond this many usual ones count as this many
constexpr double kLogErrorMax = 1.5;  // a step 4.5 times as long as predicted tells no more

// How many of each cause take about 1 ms, where the prior says nothing.
constexpr double kTermUnits[] = {1, 2, 2'000, 4, 5'000};

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
        covariance_[i][i] = kPriorVariance[i];
    }
    error_ = kErrorAtStart;
}

StepCostFit::Terms StepCostFit::terms(const StepWork& work) const {
    return {scale_[0], scale_[1] * work.decode_streams,
            scale_[2] * static_cast<double>(work.decode_context_tokens),
            scale_[3] * work.prefill_tokens,
            scale_[4] * static_cast<double>(work.prefill_context_pairs)};
}

void StepCostFit::add(const StepWork& work, double step_ms) {
    if (!std::isfinite(step_ms) || step_ms <= 0) return;
    if (work.decode_streams == 0 && work.prefill_tokens == 0) return;
    const double measured = std::max(step_ms, kStepMsMin);
    const double predicted = std::max(cost().predict_ms(work), kStepMsMin);
    const double wrong = std::clamp(std::log(measured / predicted), -kLogErrorMax, kLogErrorMax);
    const double most = kOutlier * error_;

    // Everything relative to what was measured, at the pace of now: the target is 1.
    Terms relative = terms(work);
    for (double& term : relative) term *= std::exp(log_pace_) / measured;
    learn_shape(relative, most);

    log_pace_ = kPaceMemory * (log_pace_ + kPaceGain * std::clamp(wrong, -most, most));
    error_ += kErrorGain * (std::min(std::abs(wrong), most) - error_);
    error_ = std::max(error_, kErrorMin);
    ++samples_;
}

void StepCostFit::learn_shape(const Terms& relative, double error_max) {
    Terms gain{};  // covariance * relative
    double denominator = kForget;
    double error = 1;
    for (std::size_t i = 0; i < kTerms; ++i) {
        for (std::size_t j = 0; j < kTerms; ++j) gain[i] += covariance_[i][j] * relative[j];
        denominator += gain[i] * relative[i];
        error -= weights_[i] * relative[i];
    }
    error = std::clamp(error, -error_max, error_max);
    for (std::size_t i = 0; i < kTerms; ++i) {
        weights_[i] = std::max(0.0, weights_[i] + gain[i] / denominator * error);
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
}

StepCost StepCostFit::cost() const {
    const double pace = std::exp(log_pace_);
    const auto coefficient = [&](std::size_t i) { return weights_[i] * scale_[i] * pace; };
    return {.fixed_ms = coefficient(0),
            .decode_stream_ms = coefficient(1),
            .decode_context_ms = coefficient(2),
            .prefill_token_ms = coefficient(3),
            .prefill_pair_ms = coefficient(4)};
}

}  // namespace taproot
