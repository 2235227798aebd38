// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/sampler.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "base/assert.h"
#include "base/random.h"
#include "base/units.h"
#include "worker/sample/logprobs.h"
#include "worker/sample/row_ops.h"

namespace taproot {
namespace {

constexpr float kGreedyTemperature = 1e-5f;
constexpr float kMasked = -std::numeric_limits<float>::infinity();

bool truncates(const link::SamplingParams& sampling, int tokens) {
    bool top_k = sampling.top_k > 0 && sampling.top_k < static_cast<std::uint32_t>(tokens);
    return top_k || sampling.top_p < 1.0f || sampling.min_p > 0.0f;
}

}  // namespace

Sampler::Sampler(int tokens, std::vector<TokenId> end_tokens)
    : tokens_(tokens),
      end_tokens_(std::move(end_tokens)),
      scratch_(static_cast<std::size_t>(tokens)),
      weights_(static_cast<std::size_t>(tokens)),
      chunk_sums_(div_ceil(static_cast<std::size_t>(tokens), kRowChunk)) {
    TAPROOT_ASSERT(tokens > 0);
}

std::optional<Sampled> Sampler::sample(std::span<const float> row, const SampleContext& context) {
    TAPROOT_ASSERT(row.size() >= static_cast<std::size_t>(tokens_));
    std::span<const float> raw = row.first(static_cast<std::size_t>(tokens_));
    RowMax raw_best = row_max(raw);
    if (raw_best.token < 0) return std::nullopt;

    Sampled out;
    out.token = choose(raw, raw_best, context);
    if (context.sampling.logits_hash) out.logits_hash = XXH3_64bits(row.data(), row.size_bytes());
    if (context.sampling.logprobs) {
        RowLogprobs logprobs(raw);
        out.logprob = logprobs.of(out.token);
        if (*context.sampling.logprobs > 0)
            out.top_logprobs = logprobs.top(*context.sampling.logprobs);
    }
    return out;
}

TokenId Sampler::choose(std::span<const float> raw, RowMax raw_best, const SampleContext& context) {
    const link::SamplingParams& sampling = context.sampling;
    std::span<const float> logits = adjusted(raw, context);
    RowMax best = logits.data() == raw.data() ? raw_best : row_max(logits);
    if (best.token < 0) return raw_best.token;  // the masks left nothing
    if (sampling.temperature < kGreedyTemperature) return best.token;

    double inverse_temperature = 1.0 / static_cast<double>(sampling.temperature);
    double total = row_exp(logits, best.logit, inverse_temperature, weights_, chunk_sums_);
    double unit = to_unit_double(counter_random(sampling.seed, context.choice, context.position));
    if (!truncates(sampling, tokens_)) return draw_from_row(unit * total);

    total = collect_candidates(logits, sampling, total);
    if (sampling.top_p < 1.0f) total = keep_top_p(static_cast<double>(sampling.top_p) * total);
    return draw_from_candidates(unit * total);
}

// The raw row itself when nothing changes it.
std::span<const float> Sampler::adjusted(std::span<const float> raw, const SampleContext& context) {
    const link::SamplingParams& sampling = context.sampling;
    if (sampling.logit_bias.empty() && !context.forbid_end && !context.penalties.active())
        return raw;
    std::copy(raw.begin(), raw.end(), scratch_.begin());
    row_clean(scratch_);
    auto exists = [this](TokenId token) { return token >= 0 && token < tokens_; };
    for (const link::LogitBias& bias : sampling.logit_bias) {
        if (exists(bias.token)) scratch_[static_cast<std::size_t>(bias.token)] += bias.bias;
    }
    if (context.forbid_end) {
        for (TokenId token : end_tokens_)
            if (exists(token)) scratch_[static_cast<std::size_t>(token)] = kMasked;
        for (TokenId token : sampling.stop_tokens)
            if (exists(token)) scratch_[static_cast<std::size_t>(token)] = kMasked;
    }
    context.penalties.apply(scratch_);
    return scratch_;
}

// The first token whose running sum of weights passes `target`, walking whole chunks first.
TokenId Sampler::draw_from_row(double target) const {
    double sum = 0;
    std::size_t chunk = 0;
    std::size_t last = 0;  // the last chunk that holds any weight
    for (; chunk < chunk_sums_.size(); ++chunk) {
        if (chunk_sums_[chunk] > 0) last = chunk;
        if (sum + chunk_sums_[chunk] > target) break;
        sum += chunk_sums_[chunk];
    }
    if (chunk == chunk_sums_.size()) chunk = last;  // rounding pushed target to the total
    std::size_t begin = chunk * kRowChunk;
    std::size_t end = std::min(begin + kRowChunk, weights_.size());
    std::size_t chosen = begin;
    for (std::size_t i = begin; i < end; ++i) {
        if (weights_[i] > 0) chosen = i;
        sum += weights_[i];
        if (sum > target) break;
    }
    return static_cast<TokenId>(chosen);
}

// Fills candidates_ with what min_p and top_k keep, in id order, and returns the sum that top_p and
// the draw are relative to. Tokens that top_p alone would certainly drop are left out early: all of
// them together weigh less than (1 - p) of the row.
double Sampler::collect_candidates(std::span<const float> logits,
                                   const link::SamplingParams& sampling, double row_total) {
    bool by_k = sampling.top_k > 0 && sampling.top_k < static_cast<std::uint32_t>(tokens_);
    bool by_min_p = sampling.min_p > 0.0f;
    float lowest_logit = by_k ? kth_largest(logits, sampling.top_k) : kMasked;
    double lowest_weight = by_min_p ? static_cast<double>(sampling.min_p) : 0.0;
    if (!by_k && !by_min_p)
        lowest_weight = 0.5 * (1.0 - static_cast<double>(sampling.top_p)) * row_total /
                        static_cast<double>(tokens_);

    candidates_.clear();
    double total = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        // Written so that a NaN logit is dropped.
        if (!(weights_[i] >= lowest_weight) || !(weights_[i] > 0) || !(logits[i] >= lowest_logit))
            continue;
        candidates_.push_back({logits[i], static_cast<TokenId>(i), weights_[i]});
        total += weights_[i];
    }
    return by_k || by_min_p ? total : row_total;
}

// Keeps the smallest set of best candidates whose weights reach `needed` (at least one), sorted;
// returns their sum. Only as much of the list is sorted as the answer needs.
double Sampler::keep_top_p(double needed) {
    auto better = [](const Candidate& a, const Candidate& b) {
        return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
    };
    double sum = 0;
    std::size_t sorted = 0;
    std::size_t next = std::min<std::size_t>(256, candidates_.size());
    while (sorted < candidates_.size()) {
        auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
        auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(next);
        if (next < candidates_.size()) std::nth_element(begin, end, candidates_.end(), better);
        std::sort(begin, end, better);
        for (; sorted < next; ++sorted) {
            sum += candidates_[sorted].weight;
            if (sum >= needed) {
                candidates_.resize(sorted + 1);
                return sum;
            }
        }
        next = std::min(next * 4, candidates_.size());
    }
    return sum;
}

TokenId Sampler::draw_from_candidates(double target) const {
    double sum = 0;
    for (const Candidate& candidate : candidates_) {
        sum += candidate.weight;
        if (sum > target) return candidate.token;
    }
    return candidates_.back().token;  // rounding pushed target to the total
}

// A small k keeps a heap of the k best; a large one partitions a copy.
float Sampler::kth_largest(std::span<const float> logits, std::size_t k) {
    constexpr std::size_t kHeapMax = 256;
    selection_.clear();
    if (k > kHeapMax) {
        selection_.assign(logits.begin(), logits.end());
        row_clean(selection_);
        auto kth = selection_.begin() + static_cast<std::ptrdiff_t>(k - 1);
        std::nth_element(selection_.begin(), kth, selection_.end(), std::greater<>());
        return *kth;
    }
    for (float logit : logits) {
        if (std::isnan(logit)) continue;
        if (selection_.size() == k) {
            if (!(logit > selection_.front())) continue;
            std::pop_heap(selection_.begin(), selection_.end(), std::greater<>());
            selection_.pop_back();
        }
        selection_.push_back(logit);
        std::push_heap(selection_.begin(), selection_.end(), std::greater<>());
    }
    return selection_.empty() ? kMasked : selection_.front();
}

}  // namespace taproot
