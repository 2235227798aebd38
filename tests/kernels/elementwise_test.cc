// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "kernels/dispatch.h"
#include "kernels/ref/exp2.h"

namespace taproot {
namespace {

std::vector<float> random_floats(std::size_t count, Random& random, double scale) {
    std::vector<float> values(count);
    for (float& v : values) v = static_cast<float>((random.unit() * 2 - 1) * scale);
    return values;
}

double ulps(float got, double want) {
    const double spacing = std::max(std::ldexp(1.0, std::ilogb(want) - 23), 0x1p-149);
    return std::abs(got - want) / spacing;
}

TEST(Exp2, IsWithinOneUlpOverItsWholeRange) {
    double worst = 0;
    for (int i = -126 * 8192; i < 128 * 8192; i += 3) {
        const float x = static_cast<float>(i) / 8192.0f + 1.0f / 50000.0f;
        worst = std::max(worst, ulps(ref::exp2(x), std::exp2(static_cast<double>(x))));
    }
    for (float x = -1e-6f; x < 1e-6f; x += 1e-9f) {
        worst = std::max(worst, ulps(ref::exp2(x), std::exp2(static_cast<double>(x))));
    }
    EXPECT_LT(worst, 1.0);
}

TEST(Exp2, IsExactAtWholeNumbers) {
    for (int n = -126; n < 128; ++n) {
        EXPECT_EQ(ref::exp2(static_cast<float>(n)), std::ldexp(1.0f, n));
    }
}

TEST(Exp2, IsDefinedAtTheEdges) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    EXPECT_EQ(ref::exp2(-126.0f), 0x1p-126f);
    EXPECT_EQ(ref::exp2(std::nextafter(-126.0f, -200.0f)), 0.0f);
    EXPECT_EQ(ref::exp2(-kInfinity), 0.0f);
    EXPECT_EQ(ref::exp2(128.0f), kInfinity);
    EXPECT_LT(ref::exp2(std::nextafter(128.0f, 0.0f)), kInfinity);
    EXPECT_EQ(ref::exp2(kInfinity), kInfinity);
    EXPECT_TRUE(std::isnan(ref::exp2(std::numeric_limits<float>::quiet_NaN())));
    EXPECT_EQ(ref::exp2(-0.0f), 1.0f);
}

TEST(Exp, ErrorDoesNotGrowWithTheArgument) {
    double worst = 0;
    for (double x = -87.0; x < 88.0; x += 0.000331) {
        const float f = static_cast<float>(x);
        worst = std::max(worst, ulps(ref::exp(f), std::exp(static_cast<double>(f))));
    }
    EXPECT_LT(worst, 2.0);
    EXPECT_EQ(ref::exp(0.0f), 1.0f);
    EXPECT_EQ(ref::exp(-1000.0f), 0.0f);
    EXPECT_EQ(ref::exp(1000.0f), std::numeric_limits<float>::infinity());
    EXPECT_TRUE(std::isnan(ref::exp(std::numeric_limits<float>::quiet_NaN())));
}

TEST(RmsNorm, EveryInstructionSetGivesTheSameBitsForEveryWidth) {
    Random random(1);
    ForkJoin pool(2);
    for (int columns : {1, 2, 7, 15, 16, 17, 31, 33, 48, 63, 64, 65, 127, 576, 1000, 1536, 2049}) {
        const int rows = 9;
        const std::int64_t stride = columns + 5;
        const auto x = random_floats(static_cast<std::size_t>(rows * stride), random, 3.0);
        const auto weight = random_floats(static_cast<std::size_t>(columns), random, 2.0);
        std::vector<float> expected;
        for (Isa isa : available_isas()) {
            KernelContext context{ops_for(isa), pool};
            std::vector<float> out(x.size(), -7.0f);
            rmsnorm(context, {x.data(), stride, rows, columns}, weight.data(), 1e-5f,
                    {out.data(), stride, rows, columns});
            if (expected.empty()) expected = out;
            ASSERT_EQ(out, expected) << to_string(isa) << " columns " << columns;
            std::vector<float> in_place = x;
            const Rows view = {in_place.data(), stride, rows, columns};
            rmsnorm(context, view, weight.data(), 1e-5f, view);
            for (int r = 0; r < rows; ++r) {
                for (int c = 0; c < columns; ++c) ASSERT_EQ(view.row(r)[c], out[r * stride + c]);
            }
        }
        for (int r = 0; r < rows; ++r) {
            double sum = 0;
            for (int c = 0; c < columns; ++c) sum += std::pow(x[r * stride + c], 2.0);
            const double scale = 1.0 / std::sqrt(sum / columns + 1e-5);
            for (int c = 0; c < columns; ++c) {
                const double want = x[r * stride + c] * scale * weight[c];
                // A chain of columns/16 + 4 roundings, halved by the root, and three more.
                const double bound = (columns / 32.0 + 6) * 0x1p-24;
                EXPECT_NEAR(expected[r * stride + c], want, std::abs(want) * bound + 1e-30);
            }
            for (std::int64_t c = columns; c < stride; ++c) {
                EXPECT_EQ(expected[r * stride + c], -7.0f);  // padding untouched
            }
        }
    }
}

TEST(SwiGlu, EveryInstructionSetGivesTheSameBitsForEveryWidth) {
    Random random(2);
    ForkJoin pool(2);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (int columns : {1, 3, 8, 15, 16, 17, 40, 64, 95, 1536, 1999}) {
        const int rows = 5;
        auto gate = random_floats(static_cast<std::size_t>(rows * columns), random, 30.0);
        const auto up = random_floats(gate.size(), random, 4.0);
        const float special[] = {0.0f,  -0.0f, 87.0f,  -87.0f, 88.8f,   -88.8f,   1e4f,
                                 -1e4f, 3e38f, -3e38f, 1e-40f, -1e-40f, kInfinity};
        for (std::size_t i = 0; i < std::size(special) && i < gate.size(); ++i) {
            gate[gate.size() - 1 - i] = special[i];
        }
        std::vector<float> expected;
        for (Isa isa : available_isas()) {
            KernelContext context{ops_for(isa), pool};
            std::vector<float> out = gate;  // in place
            const Rows view = {out.data(), columns, rows, columns};
            swiglu(context, view, {up.data(), columns, rows, columns}, view);
            if (expected.empty()) expected = out;
            for (std::size_t i = 0; i < out.size(); ++i) {
                ASSERT_EQ(std::bit_cast<std::uint32_t>(out[i]),
                          std::bit_cast<std::uint32_t>(expected[i]))
                    << to_string(isa) << " gate " << gate[i];
            }
        }
        for (std::size_t i = 0; i < gate.size(); ++i) {
            if (std::abs(gate[i]) > 1e38f) continue;  // the product overflows
            const double g = gate[i];
            const double want = g / (1.0 + std::exp(-g)) * up[i];
            EXPECT_NEAR(expected[i], want, std::abs(want) * 5 * 0x1p-23 + 1e-36) << g;
        }
    }
}

TEST(SwiGlu, NanGateOrUpGivesNanEverywhere) {
    ForkJoin pool(1);
    const float nan = std::bit_cast<float>(0x7fc001ffu);  // a payload that must not become a number
    for (Isa isa : available_isas()) {
        KernelContext context{ops_for(isa), pool};
        std::vector<float> gate(33, nan);
        std::vector<float> up(33, 1.0f);
        const Rows view = {gate.data(), 33, 1, 33};
        swiglu(context, view, {up.data(), 33, 1, 33}, view);
        for (float v : gate) EXPECT_TRUE(std::isnan(v)) << to_string(isa);
    }
}

}  // namespace
}  // namespace taproot
