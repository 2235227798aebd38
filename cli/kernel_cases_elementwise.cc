// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "cli/kernel_cases.h"
#include "kernels/elementwise.h"
#include "kernels/fused.h"
#include "kernels/linear.h"
#include "worker/sample/row_ops.h"

namespace taproot::cli {
namespace {

constexpr int kWidth = 576;
constexpr int kFeedForward = 1536;
constexpr int kHeads = 12;  // queries and keys
constexpr int kDim = 64;
constexpr int kVocabulary = 49152;
constexpr float kEpsilon = 1e-5f;

struct Matrix {
    Matrix(int rows_in, int columns_in, std::uint64_t seed)
        : values(static_cast<std::size_t>(rows_in) * static_cast<std::size_t>(columns_in)),
          count(rows_in),
          columns(columns_in) {
        Random random(seed);
        for (float& value : values) value = static_cast<float>(4 * random.unit() - 2);
    }
    [[nodiscard]] Rows rows() { return {values.data(), columns, count, columns}; }
    std::vector<float> values;
    int count, columns;
};

// `compute` fills a matrix with a context; `exact` gives a value of the first row in double.
template <typename Compute, typename Exact>
KernelCheck check_rows(const KernelCases& cases, int rows, int columns, const Compute& compute,
                       const Exact& exact) {
    Matrix got(rows, columns, 1), expected(rows, columns, 1);
    compute(cases.context, got.rows());
    compute(cases.reference, expected.rows());
    KernelCheck check;
    RelativeError error;
    check.compared = got.values.size();
    check.differing = count_differing(got.values.data(), expected.values.data(), check.compared);
    for (int i = 0; i < columns; ++i) error.add(got.values[static_cast<std::size_t>(i)], exact(i));
    check.error = error.value();
    return check;
}

KernelCase little_case(const std::string& name, double bytes) {
    KernelCase out;
    out.name = name;
    out.bytes = bytes;
    out.roofed = false;
    return out;
}

void norm(const KernelCases& cases, int rows) {
    KernelCase one =
        little_case(fmt::format("rmsnorm/{}/rows:{}", kWidth, rows), 8.0 * rows * kWidth);
    if (!cases.wanted(one.name)) return;
    Matrix x(rows, kWidth, 2), out(rows, kWidth, 3), weight(1, kWidth, 4);
    auto compute = [&](KernelContext& context, Rows to) {
        rmsnorm(context, x.rows(), weight.values.data(), kEpsilon, to);
    };
    one.run = [&] { compute(cases.context, out.rows()); };
    one.check = [&] {
        double sum = 0;
        for (int i = 0; i < kWidth; ++i)
            sum += std::pow(double{x.values[static_cast<std::size_t>(i)]}, 2);
        return check_rows(cases, rows, kWidth, compute, [&](int i) {
            auto k = static_cast<std::size_t>(i);
            return x.values[k] / std::sqrt(sum / kWidth + kEpsilon) * weight.values[k];
        });
    };
    cases.use(one);
}

void activation(const KernelCases& cases, int rows) {
    KernelCase one = little_case(fmt::format("swiglu/{}/rows:{}", kFeedForward, rows),
                                 12.0 * rows * kFeedForward);
    if (!cases.wanted(one.name)) return;
    Matrix gate(rows, kFeedForward, 2), up(rows, kFeedForward, 3), out(rows, kFeedForward, 4);
    auto compute = [&](KernelContext& context, Rows to) {
        swiglu(context, gate.rows(), up.rows(), to);
    };
    one.run = [&] { compute(cases.context, out.rows()); };
    one.check = [&] {
        return check_rows(cases, rows, kFeedForward, compute, [&](int i) {
            auto k = static_cast<std::size_t>(i);
            return gate.values[k] / (1 + std::exp(-double{gate.values[k]})) * up.values[k];
        });
    };
    cases.use(one);
}

void rotation(const KernelCases& cases, int rows) {
    constexpr int kColumns = kHeads * kDim;
    KernelCase one =
        little_case(fmt::format("rope/{}x{}/rows:{}", kHeads, kDim, rows), 8.0 * rows * kColumns);
    if (!cases.wanted(one.name)) return;
    const RopeTable table(kDim, 1e5, {}, {}, rows + 7);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
    std::iota(positions.begin(), positions.end(), 7);
    Matrix x(rows, kColumns, 1);
    const std::vector<float> before = x.values;
    auto compute = [&](KernelContext& context, Rows to) {
        rope(context, table, RopePairs::kInterleaved, to, kHeads, kDim, positions);
    };
    one.run = [&] { compute(cases.context, x.rows()); };
    one.check = [&] {  // check_rows begins with the same values as x did
        return check_rows(cases, rows, kColumns, compute, [&](int i) {
            const auto pair = static_cast<std::size_t>(i / 2 * 2);
            const double angle = 7 * std::pow(1e5, -static_cast<double>(i % kDim / 2 * 2) / kDim);
            const double a = before[pair], b = before[pair + 1];
            return i % 2 == 0 ? a * std::cos(angle) - b * std::sin(angle)
                              : b * std::cos(angle) + a * std::sin(angle);
        });
    };
    cases.use(one);
}

// Every field of every block, and what the quants stand for against the row they came from.
KernelCheck check_quantized(const QuantizedRows& got, const QuantizedRows& expected, Rows exact) {
    KernelCheck check;
    RelativeError error;
    for (int row = 0; row < got.rows(); ++row) {
        for (int b = 0; b < got.blocks(); ++b) {
            const ActivationBlock& one = got.row(row)[b];
            const ActivationBlock& want = expected.row(row)[b];
            check.compared += 35;
            check.differing += count_differing(&one.d, &want.d, 1) +
                               count_differing(&one.scaled_sum, &want.scaled_sum, 1) +
                               (one.sum != want.sum ? 1 : 0);
            for (int i = 0; i < 32; ++i) {
                check.differing += one.q[i] != want.q[i] ? 1 : 0;
                error.add(double{one.d} * one.q[i], exact.row(row)[32 * b + i]);
            }
        }
    }
    check.error = error.value();
    return check;
}

// `compute` quantises floats [rows][columns], which begin as random ones, or makes both.
template <typename Compute>
void quantized_case(const KernelCases& cases, KernelCase one, int rows, int columns,
                    const Compute& compute) {
    Matrix floats(rows, columns, 5), reference_floats(rows, columns, 5);
    QuantizedRows out, expected;
    one.run = [&] { compute(cases.context, floats.rows(), &out); };
    one.check = [&] {
        compute(cases.context, floats.rows(), &out);
        compute(cases.reference, reference_floats.rows(), &expected);
        return check_quantized(out, expected, reference_floats.rows());
    };
    cases.use(one);
}

void quantise(const KernelCases& cases, int rows, int columns) {
    KernelCase one =
        little_case(fmt::format("quantize/{}/rows:{}", columns, rows), 5.5 * rows * columns);
    if (!cases.wanted(one.name)) return;
    quantized_case(cases, one, rows, columns,
                   [](KernelContext& context, Rows floats, QuantizedRows* out) {
                       quantize_rows(context, floats, out);
                   });
}

// What the model calls when the next matrix reads quants.
void fused(const KernelCases& cases, int rows) {
    KernelCase norm =
        little_case(fmt::format("rmsnorm_quantized/{}/rows:{}", kWidth, rows), 9.5 * rows * kWidth);
    if (cases.wanted(norm.name)) {
        Matrix x(rows, kWidth, 2), weight(1, kWidth, 4);
        quantized_case(cases, norm, rows, kWidth,
                       [&](KernelContext& context, Rows floats, QuantizedRows* out) {
                           rmsnorm_quantized(context, x.rows(), weight.values.data(), kEpsilon,
                                             floats, out);
                       });
    }
    KernelCase gate_case = little_case(
        fmt::format("swiglu_quantized/{}/rows:{}", kFeedForward, rows), 13.5 * rows * kFeedForward);
    if (!cases.wanted(gate_case.name)) return;
    Matrix gate(rows, kFeedForward, 2), up(rows, kFeedForward, 3);
    quantized_case(cases, gate_case, rows, kFeedForward,
                   [&](KernelContext& context, Rows floats, QuantizedRows* out) {
                       swiglu_quantized(context, gate.rows(), up.rows(), floats, out);
                   });
}

void argmax(const KernelCases& cases) {
    KernelCase one = little_case(fmt::format("argmax/{}", kVocabulary), 4.0 * kVocabulary);
    if (!cases.wanted(one.name)) return;
    Matrix logits(1, kVocabulary, 2);
    RowMax found;
    one.run = [&] { found = row_max(logits.values); };
    one.check = [&] {
        auto most = std::max_element(logits.values.begin(), logits.values.end());
        KernelCheck check{.compared = 1};
        check.differing =
            found.token == most - logits.values.begin() && found.logit == *most ? 0 : 1;
        return check;
    };
    cases.use(one);
}

}  // namespace

void elementwise_cases(const KernelCases& cases) {
    for (int rows : {1, 16, 512}) {
        norm(cases, rows);
        activation(cases, rows);
        rotation(cases, rows);
        quantise(cases, rows, kWidth);
        quantise(cases, rows, kFeedForward);
        fused(cases, rows);
    }
    argmax(cases);
}

}  // namespace taproot::cli
