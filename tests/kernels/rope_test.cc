// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "kernels/dispatch.h"
#include "kernels/elementwise.h"
#include "tests/golden/rope_frequencies.h"

namespace taproot {
namespace {

using Kind = RopeScaling::Kind;

// The table is what kernels read: equal float32 bits at near and far positions prove that the
// frequencies agree far beyond float32. The frequencies themselves may differ in the last digits of
// a double (pow against exp, order of the blend).
void expect_frequencies(const RopeTable& table, const std::vector<double>& own,
                        const std::vector<double>& golden, double magnitude) {
    ASSERT_EQ(own.size(), golden.size());
    for (std::size_t i = 0; i < own.size(); ++i) EXPECT_DOUBLE_EQ(own[i], golden[i]) << i;
    for (int position : {0, 1, 2, 17, 1023, table.positions() - 1}) {
        for (std::size_t i = 0; i < golden.size(); ++i) {
            const double angle = position * golden[i];
            EXPECT_EQ(table.cos(position)[i], static_cast<float>(std::cos(angle) * magnitude));
            EXPECT_EQ(table.sin(position)[i], static_cast<float>(std::sin(angle) * magnitude));
        }
    }
}

TEST(RopeTable, PlainFrequenciesEqualTheGolden) {
    const RopeScaling none;
    expect_frequencies(RopeTable(64, 1e5, none, {}, 8192), rope_frequencies(64, 1e5, none, {}),
                       golden::kPlainFrequencies, 1.0);
}

TEST(RopeTable, LinearScalingDividesEveryFrequency) {
    const RopeScaling linear = {.kind = Kind::kLinear, .factor = 4.0f};
    std::vector<double> expected = golden::kPlainFrequencies;
    for (double& f : expected) f /= 4.0;
    expect_frequencies(RopeTable(64, 1e5, linear, {}, 2048), rope_frequencies(64, 1e5, linear, {}),
                       expected, 1.0);
}

TEST(RopeTable, Llama3ScalingEqualsTheGolden) {
    const RopeScaling f8 = {.kind = Kind::kLlama3, .factor = 8.0f, .original_context = 8192.0f};
    expect_frequencies(RopeTable(128, 5e5, f8, {}, 2048), rope_frequencies(128, 5e5, f8, {}),
                       golden::kLlama318bFrequencies, 1.0);
    const RopeScaling f32 = {.kind = Kind::kLlama3, .factor = 32.0f, .original_context = 8192.0f};
    expect_frequencies(RopeTable(64, 5e5, f32, {}, 2048), rope_frequencies(64, 5e5, f32, {}),
                       golden::kLlama321bFrequencies, 1.0);
}

// Model files of the llama family store the scaling as float32 divisors instead.
TEST(RopeTable, DivisorsGiveTheScaledFrequenciesWithinFloatRounding) {
    const std::vector<float> divisors(golden::kLlama318bDivisors.begin(),
                                      golden::kLlama318bDivisors.end());
    const std::vector<double> own = rope_frequencies(128, 5e5, {}, divisors);
    for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_NEAR(own[i], golden::kLlama318bFrequencies[i],
                    golden::kLlama318bFrequencies[i] * 0x1p-24);
    }
}

TEST(RopeTable, YarnFrequenciesAndMagnitudeEqualTheGolden) {
    const RopeScaling qwen = {.kind = Kind::kYarn, .factor = 4.0f, .original_context = 32768.0f};
    EXPECT_DOUBLE_EQ(rope_magnitude(qwen), 1.138629436111989);
    expect_frequencies(RopeTable(128, 1e6, qwen, {}, 2048), rope_frequencies(128, 1e6, qwen, {}),
                       golden::kQwenYarnFrequencies, 1.138629436111989);
    const RopeScaling deepseek = {.kind = Kind::kYarn,
                                  .factor = 40.0f,
                                  .original_context = 4096.0f,
                                  .attention_factor = 1.0f};
    EXPECT_DOUBLE_EQ(rope_magnitude(deepseek), 1.0);
    expect_frequencies(RopeTable(64, 1e4, deepseek, {}, 2048),
                       rope_frequencies(64, 1e4, deepseek, {}), golden::kDeepseekYarnFrequencies,
                       1.0);
}

struct RopeCase {
    int heads, head_dim, rotary_dim;
};

TEST(Rope, EveryInstructionSetRotatesToTheSameBits) {
    Random random(3);
    ForkJoin pool(2);
    for (const RopeCase& c : {RopeCase{3, 64, 64},
                              {2, 16, 16},
                              {5, 80, 80},
                              {2, 128, 64},
                              {1, 96, 24},
                              {3, 32, 6},
                              {2, 64, 2}}) {
        const RopeTable table(c.rotary_dim, 1e4, {}, {}, 64);
        const int rows = 37;
        const int columns = c.heads * c.head_dim;
        std::vector<float> input(static_cast<std::size_t>(rows * columns));
        for (float& v : input) v = static_cast<float>(random.unit() * 8 - 4);
        std::vector<std::int32_t> positions;
        for (int r = 0; r < rows; ++r) positions.push_back(static_cast<int>(random.below(64)));
        for (RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kHalves}) {
            std::vector<float> expected;
            for (Isa isa : available_isas()) {
                KernelContext context{ops_for(isa), pool};
                std::vector<float> x = input;
                rope(context, table, pairs, {x.data(), columns, rows, columns}, c.heads, c.head_dim,
                     positions);
                if (expected.empty()) expected = x;
                ASSERT_EQ(x, expected) << to_string(isa) << " rotary " << c.rotary_dim;
            }
            // Against the definition, and what must not move.
            for (int r = 0; r < rows; ++r) {
                for (int h = 0; h < c.heads; ++h) {
                    const std::size_t at = static_cast<std::size_t>(r * columns + h * c.head_dim);
                    const int p = positions[static_cast<std::size_t>(r)];
                    for (int i = 0; i < c.rotary_dim / 2; ++i) {
                        const bool inter = pairs == RopePairs::kInterleaved;
                        const std::size_t a = at + static_cast<std::size_t>(inter ? 2 * i : i);
                        const std::size_t b = inter ? a + 1 : a + c.rotary_dim / 2;
                        const double co = table.cos(p)[i];
                        const double si = table.sin(p)[i];
                        EXPECT_NEAR(expected[a], input[a] * co - input[b] * si, 1e-6);
                        EXPECT_NEAR(expected[b], input[b] * co + input[a] * si, 1e-6);
                    }
                    for (int d = c.rotary_dim; d < c.head_dim; ++d) {
                        EXPECT_EQ(expected[at + d], input[at + d]);
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace taproot
