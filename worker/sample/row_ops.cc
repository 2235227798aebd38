// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/row_ops.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "worker/sample/exact_math.h"

// One body per pass, forced inline into a wrapper per instruction set; the compiler vectorises each
// wrapper with what its target has. This file is built with -O3.
#if defined(__x86_64__)
#define TAPROOT_ROW_OPS_X86 1
#endif
#define TAPROOT_INLINE_BODY inline __attribute__((always_inline))

namespace taproot {
namespace {

constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 8;

TAPROOT_INLINE_BODY float clean(float logit) {
    float finite = logit < kLargest ? logit : kLargest;  // NaN compares false: becomes kLargest
    return logit == logit ? finite : kLowest;
}

TAPROOT_INLINE_BODY float max_body(const float* logits, std::size_t n) {
    constexpr std::size_t kMaxLanes = 16;
    std::array<float, kMaxLanes> best;
    best.fill(kLowest);
    std::size_t i = 0;
    for (; i + kMaxLanes <= n; i += kMaxLanes) {
        for (std::size_t lane = 0; lane < kMaxLanes; ++lane) {
            float value = clean(logits[i + lane]);
            best[lane] = value > best[lane] ? value : best[lane];
        }
    }
    float top = kLowest;
    for (float value : best) top = value > top ? value : top;
    for (; i < n; ++i) {
        float value = clean(logits[i]);
        top = value > top ? value : top;
    }
    return top;
}

// One chunk of at most kRowChunk values.
TAPROOT_INLINE_BODY double exp_chunk(const float* logits, std::size_t n, double top, double inverse,
                                     double* weights) {
    std::array<double, kLanes> sums{};
    std::size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            double x = (static_cast<double>(clean(logits[i + lane])) - top) * inverse;
            double w = exact_exp(x);
            weights[i + lane] = w;
            sums[lane] += w;
        }
    }
    for (std::size_t lane = 0; i < n; ++i, ++lane) {
        double w = exact_exp((static_cast<double>(clean(logits[i])) - top) * inverse);
        weights[i] = w;
        sums[lane] += w;
    }
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

TAPROOT_INLINE_BODY double exp_body(const float* logits, std::size_t n, double top, double inverse,
                                    double* weights, double* chunk_sums) {
    double total = 0;
    for (std::size_t start = 0, chunk = 0; start < n; start += kRowChunk, ++chunk) {
        std::size_t count = std::min(kRowChunk, n - start);
        double sum = exp_chunk(logits + start, count, top, inverse, weights + start);
        chunk_sums[chunk] = sum;
        total += sum;
    }
    return total;
}

TAPROOT_INLINE_BODY double sum_exp_body(const float* logits, std::size_t n, double top) {
    std::array<double, kRowChunk> weights;
    double total = 0;
    for (std::size_t start = 0; start < n; start += kRowChunk)
        total +=
            exp_chunk(logits + start, std::min(kRowChunk, n - start), top, 1.0, weights.data());
    return total;
}

struct Table {
    float (*max)(const float*, std::size_t);
    double (*exp)(const float*, std::size_t, double, double, double*, double*);
    double (*sum_exp)(const float*, std::size_t, double);
};

#define TAPROOT_ROW_OPS(suffix, attribute)                                                    \
    attribute float max_##suffix(const float* logits, std::size_t n) {                        \
        return max_body(logits, n);                                                           \
    }                                                                                         \
    attribute double exp_##suffix(const float* logits, std::size_t n, double top, double inv, \
                                  double* weights, double* chunk_sums) {                      \
        return exp_body(logits, n, top, inv, weights, chunk_sums);                            \
    }                                                                                         \
    attribute double sum_exp_##suffix(const float* logits, std::size_t n, double top) {       \
        return sum_exp_body(logits, n, top);                                                  \
    }                                                                                         \
    constexpr Table kTable_##suffix{max_##suffix, exp_##suffix, sum_exp_##suffix};

TAPROOT_ROW_OPS(plain, )
#ifdef TAPROOT_ROW_OPS_X86
TAPROOT_ROW_OPS(avx2, __attribute__((target("avx2"))))
#ifdef __clang__
#define TAPROOT_AVX512 "avx512f,avx512dq,avx512vl"
#else
#define TAPROOT_AVX512 "avx512f,avx512dq,avx512vl,prefer-vector-width=512"
#endif
TAPROOT_ROW_OPS(avx512, __attribute__((target(TAPROOT_AVX512))))
#endif

const Table& choose_table() {
#ifdef TAPROOT_ROW_OPS_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return kTable_avx512;
    if (__builtin_cpu_supports("avx2")) return kTable_avx2;
#endif
    return kTable_plain;
}

const Table& table() {
    static const Table& chosen = choose_table();
    return chosen;
}

}  // namespace

RowMax row_max(std::span<const float> logits) {
    float top = table().max(logits.data(), logits.size());
    if (top == kLowest) return {};
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (clean(logits[i]) == top) return {static_cast<TokenId>(i), top};
    }
    return {};
}

void row_clean(std::span<float> logits) {
    for (float& logit : logits) logit = clean(logit);
}

double row_exp(std::span<const float> logits, float top, double inverse_temperature,
               std::span<double> weights, std::span<double> chunk_sums) {
    return table().exp(logits.data(), logits.size(), static_cast<double>(top), inverse_temperature,
                       weights.data(), chunk_sums.data());
}

double row_log_sum_exp(std::span<const float> logits, float top) {
    double sum = table().sum_exp(logits.data(), logits.size(), static_cast<double>(top));
    return static_cast<double>(top) + exact_log(sum);
}

double row_exp_variant(int variant, std::span<const float> logits, float top, double inverse,
                       std::span<double> weights, std::span<double> chunk_sums) {
    const Table* chosen = variant == 0 ? &kTable_plain : nullptr;
#ifdef TAPROOT_ROW_OPS_X86
    if (variant == 1 && __builtin_cpu_supports("avx2")) chosen = &kTable_avx2;
    if (variant == 2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        chosen = &kTable_avx512;
#endif
    if (chosen == nullptr) return std::numeric_limits<double>::quiet_NaN();
    return chosen->exp(logits.data(), logits.size(), static_cast<double>(top), inverse,
                       weights.data(), chunk_sums.data());
}

}  // namespace taproot
