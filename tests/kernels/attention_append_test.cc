// SPDX-License-Identifier: Apache-2.0
// What kv_append stores, to the bit, for every type of the cache.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/attention.h"
#include "kernels/ops.h"
#include "tests/kernels/attention_scene.h"

namespace taproot {
namespace {

using testing::kAllKvDTypes;
using testing::Scene;

TEST(KvDType, NamesReadBack) {
    for (KvDType dtype : kAllKvDTypes) EXPECT_EQ(parse_kv_dtype(to_string(dtype)), dtype);
    EXPECT_EQ(parse_kv_dtype("fp8"), std::nullopt);
    EXPECT_EQ(parse_kv_dtype(""), std::nullopt);
}

TEST(KvGeometry, CountsValuesAndScalesOfABlock) {
    auto block = [](KvDType dtype) { return KvGeometry{30, 3, 64, dtype}.block_bytes(); };
    EXPECT_EQ(block(KvDType::kF32), 30 * 3 * 2 * 16 * 64 * 4);
    EXPECT_EQ(block(KvDType::kF16), 30 * 3 * 2 * 16 * 64 * 2);
    EXPECT_EQ(block(KvDType::kBf16), block(KvDType::kF16));
    EXPECT_EQ(block(KvDType::kInt8), 30 * 3 * 2 * 16 * (64 + 4));
    const KvGeometry geometry{2, 3, 64, KvDType::kInt8};
    EXPECT_EQ(geometry.v_offset(0, 0), 16 * (64 + 4));
    EXPECT_EQ(geometry.k_offset(1, 2) + 2 * geometry.plane_bytes(), geometry.block_bytes());
}

TEST(KvAppend, HalvesAreRoundedToNearestEvenClampedAndKeepNan) {
    ForkJoin pool(1);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const struct {
        float value;
        std::uint16_t bits;
    } cases[] = {{0.0f, 0x0000},
                 {-0.0f, 0x8000},
                 {1.0f, 0x3c00},
                 {65504.0f, 0x7bff},
                 {65519.9f, 0x7bff},
                 {65520.0f, 0x7bff},
                 {1e30f, 0x7bff},
                 {-1e30f, 0xfbff},
                 {kInfinity, 0x7bff},
                 {-kInfinity, 0xfbff},
                 {0x1p-24f, 0x0001},
                 {0x1p-25f, 0x0000},
                 {0x1.8p-24f, 0x0002},
                 {0x1p-14f, 0x0400},
                 {0x1.ff8p-15f, 0x03ff},
                 {0x1.ffcp-15f, 0x0400},
                 {1.0f + 0x1p-11f, 0x3c00},
                 {1.0f + 0x1.8p-10f, 0x3c02},
                 {-1.0f - 0x1.002p-11f, 0xbc01},
                 {1e-40f, 0x0000}};
    for (Isa isa : available_isas()) {
        KernelContext context{ops_for(isa), pool};
        Scene scene({.kv_heads = 1, .group = 1, .head_dim = 32}, {16}, 14);
        auto& k = const_cast<std::vector<float>&>(scene.k(0));
        auto& v = const_cast<std::vector<float>&>(scene.v(0));
        for (std::size_t i = 0; i < std::size(cases); ++i) k[i] = v[i] = cases[i].value;
        k[31] = v[31] = std::bit_cast<float>(0xff812345u);  // signalling NaN
        scene.step_all(context, 0);
        const std::byte* block = scene.view().block(scene.tables()[0][0]);
        const auto* keys =
            reinterpret_cast<const std::uint16_t*>(block + scene.view().geometry.k_offset(0, 0));
        const auto* values =
            reinterpret_cast<const std::uint16_t*>(block + scene.view().geometry.v_offset(0, 0));
        for (std::size_t i = 0; i < std::size(cases); ++i) {
            EXPECT_EQ(keys[i * kBlockTokens], cases[i].bits) << to_string(isa) << cases[i].value;
            EXPECT_EQ(values[i], cases[i].bits) << to_string(isa) << cases[i].value;
        }
        EXPECT_EQ(values[31], 0xfe09) << to_string(isa);
        EXPECT_EQ(keys[31 * kBlockTokens], 0xfe09) << to_string(isa);
    }
}

TEST(KvAppend, BFloat16IsRoundedToNearestEvenAndKeepsNanAndInfinity) {
    ForkJoin pool(1);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const struct {
        float value;
        std::uint16_t bits;
    } cases[] = {{0.0f, 0x0000},
                 {-0.0f, 0x8000},
                 {1.0f, 0x3f80},
                 {1.0f + 0x1p-8f, 0x3f80},  // halfway: to the even one
                 {1.0f + 0x1.8p-7f, 0x3f82},
                 {-1.0f - 0x1.01p-8f, 0xbf81},
                 {0x1.fep127f, 0x7f7f},
                 {0x1.feffp127f, 0x7f7f},
                 {0x1.ffp127f, 0x7f80},  // halfway beyond the largest, which is odd
                 {kInfinity, 0x7f80},
                 {-kInfinity, 0xff80},
                 {0x1p-126f, 0x0080},
                 {0x1p-133f, 0x0001},  // denormals are kept
                 {0x1p-134f, 0x0000},
                 {0x1.8p-133f, 0x0002},
                 {std::bit_cast<float>(0x7f800001u), 0x7fc0},
                 {std::bit_cast<float>(0xff812345u), 0xffc1}};
    for (Isa isa : available_isas()) {
        KernelContext context{ops_for(isa), pool};
        Scene scene({.kv_heads = 1, .group = 1, .head_dim = 32, .dtype = KvDType::kBf16}, {16}, 14);
        auto& k = const_cast<std::vector<float>&>(scene.k(0));
        auto& v = const_cast<std::vector<float>&>(scene.v(0));
        for (std::size_t i = 0; i < std::size(cases); ++i) k[i] = v[i] = cases[i].value;
        scene.step_all(context, 0);
        const std::byte* block = scene.view().block(scene.tables()[0][0]);
        const auto* keys =
            reinterpret_cast<const std::uint16_t*>(block + scene.view().geometry.k_offset(0, 0));
        const auto* values =
            reinterpret_cast<const std::uint16_t*>(block + scene.view().geometry.v_offset(0, 0));
        for (std::size_t i = 0; i < std::size(cases); ++i) {
            EXPECT_EQ(keys[i * kBlockTokens], cases[i].bits) << to_string(isa) << cases[i].value;
            EXPECT_EQ(values[i], cases[i].bits) << to_string(isa) << cases[i].value;
        }
    }
}

// Token t's key (and its value) of the only head and block.
struct Int8Block {
    Int8Block(Scene& scene, int head_dim) : dims(head_dim) {
        const std::byte* block = scene.view().block(scene.tables()[0][0]);
        keys = block + scene.view().geometry.k_offset(0, 0);
        values = block + scene.view().geometry.v_offset(0, 0);
    }
    int key(int token, int d) const {
        return reinterpret_cast<const std::int8_t*>(keys)[d * kBlockTokens + token];
    }
    int value(int token, int d) const {
        return reinterpret_cast<const std::int8_t*>(values)[token * dims + d];
    }
    float key_scale(int token) const { return scales(keys)[token]; }
    float value_scale(int token) const { return scales(values)[token]; }

    const float* scales(const std::byte* plane) const {
        return reinterpret_cast<const float*>(plane + kBlockTokens * dims);
    }
    int dims;
    const std::byte* keys;
    const std::byte* values;
};

TEST(KvAppend, Int8HoldsEachVectorWithinHalfAStepOfItsScale) {
    ForkJoin pool(1);
    const int dims = 48;
    for (Isa isa : available_isas()) {
        KernelContext context{ops_for(isa), pool};
        Scene scene({.kv_heads = 1, .group = 1, .head_dim = dims, .dtype = KvDType::kInt8}, {16},
                    17);
        auto& k = const_cast<std::vector<float>&>(scene.k(0));
        for (int d = 0; d < dims; ++d) k[static_cast<std::size_t>(3 * dims + d)] *= 1e30f;
        scene.step_all(context, 0);
        const Int8Block block(scene, dims);
        for (int t = 0; t < kBlockTokens; ++t) {
            float top = 0;
            for (int d = 0; d < dims; ++d) {
                const float x = scene.k(0)[static_cast<std::size_t>(t * dims + d)];
                const float y = scene.v(0)[static_cast<std::size_t>(t * dims + d)];
                top = std::max(top, std::abs(x));
                // Half a step, and what rounding 127/amax, the product and the scale may add.
                const double half = 0.5 + 127 * 3 * 0x1p-24;
                ASSERT_NEAR(double{block.key_scale(t)} * block.key(t, d), x,
                            block.key_scale(t) * half)
                    << to_string(isa) << " key of token " << t << " dim " << d;
                ASSERT_NEAR(double{block.value_scale(t)} * block.value(t, d), y,
                            block.value_scale(t) * half)
                    << to_string(isa) << " value of token " << t << " dim " << d;
            }
            ASSERT_EQ(block.key_scale(t), top / 127.0f) << to_string(isa);
        }
    }
}

TEST(KvAppend, Int8RoundsToNearestEvenAndMarksVectorsThatAreNoNumbers) {
    ForkJoin pool(1);
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    const int dims = 16;
    for (Isa isa : available_isas()) {
        for (int count : {16, 6}) {  // by transposes and one by one
            KernelContext context{ops_for(isa), pool};
            Scene scene({.kv_heads = 1, .group = 1, .head_dim = dims, .dtype = KvDType::kInt8},
                        {count}, 18);
            auto set = [&](int token, std::vector<float> x) {
                x.resize(dims);
                for (auto* rows : {&scene.k(0), &scene.v(0)}) {
                    std::copy(x.begin(), x.end(),
                              const_cast<std::vector<float>&>(*rows).begin() + token * dims);
                }
            };
            set(0, {127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f, -127.0f, 1.4999f});
            set(1, {1.0f, kInfinity, -3.0f});
            set(2, {1.0f, std::numeric_limits<float>::quiet_NaN(), -3.0f});
            set(3, {0x1p-111f, -0x1p-120f});  // below 2^-110 nothing matters
            set(4, {0.0f, -0.0f});
            set(5, {0x1p-110f, -0x1p-111f});
            scene.step_all(context, 0);
            const Int8Block block(scene, dims);
            const int want[] = {127, 0, 2, 2, 0, -2, -2, 126, -127, 1, 0};
            for (int d = 0; d < static_cast<int>(std::size(want)); ++d) {
                EXPECT_EQ(block.key(0, d), want[d]) << to_string(isa) << " dim " << d;
                EXPECT_EQ(block.value(0, d), want[d]) << to_string(isa) << " dim " << d;
            }
            EXPECT_EQ(block.key_scale(0), 1.0f);
            for (int t = 1; t <= 4; ++t) {
                for (int d = 0; d < dims; ++d) {
                    ASSERT_EQ(block.key(t, d), 0) << to_string(isa) << " token " << t;
                    ASSERT_EQ(block.value(t, d), 0) << to_string(isa) << " token " << t;
                }
                EXPECT_EQ(std::isnan(block.key_scale(t)), t <= 2) << to_string(isa) << t;
                EXPECT_EQ(std::isnan(block.value_scale(t)), t <= 2) << to_string(isa) << t;
            }
            for (int t : {3, 4}) EXPECT_EQ(block.key_scale(t), 0.0f) << to_string(isa) << t;
            EXPECT_EQ(block.key(5, 0), 127);
            EXPECT_EQ(block.key(5, 1), -64);  // -63.5
            EXPECT_EQ(block.value_scale(5), 0x1p-110f / 127.0f);
        }
    }
}

TEST(KvAppend, EveryInstructionSetStoresTheSameBytesFromAnyPosition) {
    ForkJoin pool(2);
    for (KvDType dtype : kAllKvDTypes) {
        for (int head_dim : {16, 64, 80}) {
            Scene scene({.kv_heads = 2, .group = 1, .head_dim = head_dim, .dtype = dtype}, {61, 16},
                        15);
            const std::size_t bytes =
                static_cast<std::size_t>(scene.view().geometry.block_bytes()) * 5;
            std::vector<std::byte> expected;
            for (Isa isa : available_isas()) {
                for (int cut : {1, 15, 16, 17, 40}) {
                    KernelContext context{ops_for(isa), pool};
                    scene.poison();
                    scene.step(context, 1, {{0, 0, cut}, {1, 0, 16}});
                    scene.step(context, 1, {{0, cut, 61 - cut}});
                    std::vector<std::byte> got(scene.view().base, scene.view().base + bytes);
                    if (expected.empty()) expected = got;
                    ASSERT_EQ(std::memcmp(got.data(), expected.data(), bytes), 0)
                        << to_string(isa) << " " << to_string(dtype) << " cut " << cut;
                }
            }
        }
    }
}

}  // namespace
}  // namespace taproot
