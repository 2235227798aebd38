// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "worker/sample/row_ops.h"

namespace taproot {
namespace {

struct Entry {
    float logit;
    TokenId token;
};

// True when `a` comes before `b` in the answer.
bool better(const Entry& a, const Entry& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

}  // namespace

std::vector<TokenId> top_tokens(std::span<const float> logits, std::size_t count) {
    count = std::min(count, logits.size());
    std::vector<Entry> heap;  // the worst of the best on top
    heap.reserve(count + 1);
    for (std::size_t i = 0; i < logits.size() && count > 0; ++i) {
        float logit = std::isnan(logits[i]) ? -std::numeric_limits<float>::infinity() : logits[i];
        Entry entry{logit, static_cast<TokenId>(i)};
        if (heap.size() == count) {
            if (!better(entry, heap.front())) continue;
            std::pop_heap(heap.begin(), heap.end(), better);
            heap.pop_back();
        }
        heap.push_back(entry);
        std::push_heap(heap.begin(), heap.end(), better);
    }
    std::sort_heap(heap.begin(), heap.end(), better);
    std::vector<TokenId> tokens;
    tokens.reserve(heap.size());
    for (const Entry& entry : heap) tokens.push_back(entry.token);
    return tokens;
}

RowLogprobs::RowLogprobs(std::span<const float> logits) : logits_(logits) {
    RowMax top = row_max(logits);
    finite_ = top.token >= 0;
    if (finite_) log_sum_ = row_log_sum_exp(logits, top.logit);
}

float RowLogprobs::of(TokenId token) const {
    if (!finite_ || token < 0 || static_cast<std::size_t>(token) >= logits_.size())
        return kLogprobFloor;
    float logit = logits_[static_cast<std::size_t>(token)];
    if (std::isnan(logit)) return kLogprobFloor;
    logit = std::min(logit, std::numeric_limits<float>::max());
    auto value = static_cast<float>(static_cast<double>(logit) - log_sum_);
    return value > kLogprobFloor ? value : kLogprobFloor;
}

std::vector<link::TokenLogprob> RowLogprobs::top(std::size_t count) const {
    std::vector<link::TokenLogprob> out;
    for (TokenId token : top_tokens(logits_, count)) out.push_back({token, of(token)});
    return out;
}

}  // namespace taproot
