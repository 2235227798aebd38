// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "base/types.h"

// Passes over one row of logits. Compiled for several instruction sets and chosen once per process;
// all of them give the same bits (see exact_math.h). NaN counts as -infinity, +infinity as the
// largest float, everywhere.
namespace taproot {

struct RowMax {
    TokenId token = -1;  // lowest id among equals; -1: no finite logit at all
    float logit = 0;
};

// Cost: one pass, about 8 us for 49 152 logits with AVX2.
[[nodiscard]] RowMax row_max(std::span<const float> logits);

// Replaces NaN by -infinity and +infinity by the largest float.
void row_clean(std::span<float> logits);

// Tokens per partial sum of row_exp: the fixed tree of every sum over a row.
inline constexpr std::size_t kRowChunk = 64;

// weights[i] = exp((logits[i] - top) * inverse_temperature) for clean logits <= top; chunk_sums[c]
// = sum of weights[64c .. 64c+63] in a fixed 8-lane order. Shapes: weights [n], chunk_sums [ceil(n
// / 64)]. Returns the sum of chunk_sums in ascending order. Cost: one pass, about 30 us for 49 152
// logits with AVX2.
double row_exp(std::span<const float> logits, float top, double inverse_temperature,
               std::span<double> weights, std::span<double> chunk_sums);

// ln(sum(exp(logits))) in double, for a row that may hold NaN or infinities; `top` is its row_max.
[[nodiscard]] double row_log_sum_exp(std::span<const float> logits, float top);

// row_exp of one instruction set, for the test that all agree: 0 = plain, 1 = avx2, 2 = avx512.
// NaN where this machine lacks it.
double row_exp_variant(int variant, std::span<const float> logits, float top,
                       double inverse_temperature, std::span<double> weights,
                       std::span<double> chunk_sums);

}  // namespace taproot
