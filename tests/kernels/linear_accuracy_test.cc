// SPDX-License-Identifier: Apache-2.0
// Against arithmetic in double: the chain of float32 roundings, and the price of quantising x.
#include <algorithm>

#include "tests/kernels/linear_support.h"

namespace taproot {
namespace {

struct Outcome {
    std::vector<float> actual;
    std::vector<double> same_quants;  // double sums over the same quantised activations
    std::vector<double> full;         // double sums over the activations as they came
};

constexpr int kRows = 9;
constexpr int kOutputs = 96;

std::vector<float> gaussian_rows(Random& random, int columns, bool outliers) {
    std::vector<float> x(static_cast<std::size_t>(kRows * columns));
    for (float& value : x) value = static_cast<float>(testing::gaussian(random));
    if (outliers) {  // a few channels much larger than the rest, as in real models
        for (int c = 3; c < columns; c += columns / 6) {
            for (int t = 0; t < kRows; ++t) x[static_cast<std::size_t>(t * columns + c)] *= 30.0f;
        }
    }
    return x;
}

Outcome compute(DType type, int columns_least, bool outliers, Isa isa) {
    int columns = testing::whole_blocks(type, columns_least);
    Random random(static_cast<std::uint64_t>(columns) + (outliers ? 1 : 0));
    auto bytes = testing::random_weights(random, type, kOutputs, columns);
    std::vector<float> w(static_cast<std::size_t>(kOutputs * columns));
    dequantize(type, bytes.data(), kOutputs * columns, w.data());
    std::vector<float> x = gaussian_rows(random, columns, outliers);
    PanelMatrix packed = testing::must_pack(type, columns, bytes, kOutputs);

    ForkJoin pool(1);
    KernelContext context{ops_for(isa), pool};
    Outcome outcome;
    outcome.actual.resize(kRows * kOutputs);
    QuantizedRows rows;
    ConstRows input{x.data(), columns, kRows, columns};
    bool quantized = dtype_info(type).quantized;
    if (quantized) quantize_rows(context, input, &rows);
    linear(context, packed, {input, quantized ? &rows : nullptr},
           {outcome.actual.data(), kOutputs, kRows, kOutputs});
    for (int t = 0; t < kRows; ++t) {
        for (int n = 0; n < kOutputs; ++n) {
            double same = 0.0;
            double full = 0.0;
            for (int k = 0; k < columns; ++k) {
                double weight = w[static_cast<std::size_t>(n * columns + k)];
                double value = x[static_cast<std::size_t>(t * columns + k)];
                double used = value;
                if (quantized) {
                    const ActivationBlock& block = rows.row(t)[k / 32];
                    used = double{block.d} * block.q[k % 32];
                }
                same += weight * used;
                full += weight * value;
            }
            outcome.same_quants.push_back(same);
            outcome.full.push_back(full);
        }
    }
    return outcome;
}

double relative_l2(const std::vector<float>& actual, const std::vector<double>& expected) {
    double error = 0.0;
    double norm = 0.0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
        error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    return std::sqrt(error / norm);
}

// A chain of n roundings of 2^-24 each, of partial sums no larger than about the result: random
// signs give about sqrt(n) * 2^-24. Quantised chains are K/32 or K/16 long, float ones K.
TEST(LinearAccuracy, OnlyFloat32RoundingsSeparateItFromDoubleOnTheSameQuants) {
    for (DType type : testing::kAllTypes) {
        for (int columns : {576, 1536}) {
            for (Isa isa : available_isas()) {
                Outcome outcome = compute(type, columns, false, isa);
                double bound =
                    dtype_info(type).quantized ? 1e-6 : 2.0 * std::sqrt(columns) * 0x1p-24;
                EXPECT_LE(relative_l2(outcome.actual, outcome.same_quants), bound)
                    << dtype_info(type).name << " K=" << columns << " " << to_string(isa);
            }
        }
    }
}

TEST(LinearAccuracy, QuantisingActivationsCostsLessThanOnePercent) {
    for (DType type : testing::kQuantizedTypes) {
        for (int columns : {576, 1536}) {
            Outcome outcome = compute(type, columns, false, Isa::kRef);
            double error = relative_l2(outcome.actual, outcome.full);
            EXPECT_LE(error, 0.01) << dtype_info(type).name << " K=" << columns;
            EXPECT_GE(error, 1e-4);  // it is quantised: a smaller error means it was not used
        }
    }
}

TEST(LinearAccuracy, OutlierChannelsCostLessThanTwoAndAHalfPercent) {
    for (DType type : testing::kQuantizedTypes) {
        Outcome outcome = compute(type, 1536, true, Isa::kRef);
        EXPECT_LE(relative_l2(outcome.actual, outcome.full), 0.025) << dtype_info(type).name;
    }
}

}  // namespace
}  // namespace taproot
