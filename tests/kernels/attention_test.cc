// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/half.h"
#include "kernels/ops.h"
#include "tests/kernels/attention_scene.h"

namespace taproot {
namespace {

using testing::kAllKvDTypes;
using testing::Scene;
using testing::SceneShape;

// Bits, not values: -0 is not 0, and a NaN must not hide.
void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want,
                      const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
            << what << ": value " << i << " is " << got[i] << ", want " << want[i];
    }
}

void expect_finite(const std::vector<float>& values, const std::string& what) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_TRUE(std::isfinite(values[i])) << what << ": value " << i;
        ASSERT_NE(values[i], -99.0f) << what << ": value " << i << " was never written";
    }
}

std::string describe(const SceneShape& s, Isa isa) {
    return std::string(to_string(isa)) + " head_dim " + std::to_string(s.head_dim) + " group " +
           std::to_string(s.group) + " " + std::string(to_string(s.dtype));
}

// Steps of every kind: long and short prefill, decode, continuation at odd places.
std::vector<std::vector<float>> mixed_steps(Scene& scene, KernelContext& context) {
    scene.poison();
    const int a = scene.lengths()[0];
    const int b = scene.lengths()[1];
    std::vector<std::vector<float>> results;
    results.push_back(scene.step(context, 1, {{0, 0, 100}, {1, 0, b - 9}}));
    results.push_back(scene.step(context, 1, {{1, b - 9, 1}, {0, 100, a - 105}}));
    results.push_back(scene.step(context, 1, {{0, a - 5, 4}, {1, b - 8, 8}}));
    results.push_back(scene.step(context, 1, {{0, a - 1, 1}}));
    return results;
}

TEST(Attention, EveryInstructionSetGivesTheReferenceBitsForEveryShape) {
    ForkJoin pool(2);
    for (KvDType dtype : kAllKvDTypes) {
        for (int head_dim : {16, 32, 64, 80, 96, 112, 128}) {
            for (int group = 1; group <= 8; ++group) {
                // The reference is slow: all groups at the main width, some at the others.
                if (head_dim != 64 && group != 1 && group != 4 && group != 7) continue;
                if (dtype != KvDType::kF16 && group != 3 && group != 4) continue;
                const SceneShape shape = {.kv_heads = group > 4 ? 1 : 2,
                                          .group = group,
                                          .head_dim = head_dim,
                                          .dtype = dtype};
                Scene scene(shape, {150, 137}, static_cast<std::uint64_t>(head_dim + group));
                std::vector<std::vector<float>> expected;
                for (Isa isa : available_isas()) {
                    KernelContext context{ops_for(isa), pool};
                    const auto got = mixed_steps(scene, context);
                    if (expected.empty()) expected = got;
                    for (std::size_t i = 0; i < got.size(); ++i) {
                        expect_finite(got[i], describe(shape, isa));
                        expect_same_bits(got[i], expected[i], describe(shape, isa));
                        if (HasFatalFailure()) return;
                    }
                }
            }
        }
    }
}

TEST(Attention, DecodeAtEveryFillOfTheLastPageEqualsOnePrefill) {
    ForkJoin pool(2);
    const int length = 180;
    for (KvDType dtype : kAllKvDTypes) {
        const SceneShape shape{.dtype = dtype};
        Scene scene(shape, {length}, 5);
        const auto columns = static_cast<std::ptrdiff_t>(scene.q_columns());
        for (Isa isa : available_isas()) {
            KernelContext context{ops_for(isa), pool};
            scene.poison();
            const auto whole = scene.step_all(context, 0);
            expect_finite(whole, "prefill");
            scene.poison();
            for (int p = 0; p < length; ++p) {
                const auto one = scene.step(context, 0, {{0, p, 1}});
                const auto at = whole.begin() + p * columns;
                expect_same_bits(one, std::vector<float>(at, at + columns),
                                 describe(shape, isa) + " position " + std::to_string(p));
                if (HasFatalFailure()) return;
            }
        }
    }
}

TEST(Attention, ChunkSizeNeverChangesABit) {
    ForkJoin pool(2);
    const int length = 700;
    for (const SceneShape& shape :
         {SceneShape{}, SceneShape{.kv_heads = 1, .group = 8}, SceneShape{.dtype = KvDType::kF32},
          SceneShape{.dtype = KvDType::kBf16}, SceneShape{.dtype = KvDType::kInt8}}) {
        Scene scene(shape, {length}, 6);
        KernelContext context{ops_for(available_isas().back()), pool};
        const auto whole = scene.step_all(context, 0);
        for (int chunk : {1, 7, 33, 64, 512}) {
            scene.poison();
            std::vector<float> rows;
            for (int p = 0; p < length; p += chunk) {
                const auto part = scene.step(context, 0, {{0, p, std::min(chunk, length - p)}});
                rows.insert(rows.end(), part.begin(), part.end());
            }
            expect_same_bits(rows, whole, "chunk " + std::to_string(chunk));
        }
    }
}

TEST(Attention, ThreadCountNeverChangesABit) {
    Scene scene({}, {390, 20, 300}, 7);
    std::vector<float> prefill;
    std::vector<float> decode;
    for (int threads : {1, 2, 3}) {
        ForkJoin pool(threads);
        KernelContext context{ops_for(available_isas().back()), pool};
        scene.poison();
        const auto all = scene.step_all(context, 0);
        const auto last = scene.attend(context, 0, {{0, 389, 1}, {1, 19, 1}, {2, 299, 1}});
        if (prefill.empty()) prefill = all;
        if (decode.empty()) decode = last;
        expect_same_bits(all, prefill, "threads " + std::to_string(threads));
        expect_same_bits(last, decode, "threads " + std::to_string(threads));
    }
}

// Sequences that begin with the same pages are computed together; nobody may notice.
TEST(Attention, SharedPrefixGivesTheBitsOfEachSequenceAlone) {
    ForkJoin pool(2);
    for (int shared_blocks : {3, 8, 17, 33}) {
        const int prefix = shared_blocks * kBlockTokens;
        std::vector<int> lengths;
        for (int i = 0; i < 37; ++i) lengths.push_back(prefix + 1 + i * 5 % 150);
        Scene scene({.kv_heads = 1}, lengths, 8, shared_blocks);
        KernelContext context{ops_for(available_isas().back()), pool};
        scene.step_all(context, 0);
        std::vector<Scene::Piece> pieces;
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            const int count = i % 5 == 0 ? 2 : 1;
            pieces.push_back({i, std::max(0, lengths[i] - count), std::min(count, lengths[i])});
        }
        const auto together = scene.attend(context, 0, pieces);
        expect_finite(together, "shared prefix");
        std::vector<float> alone;
        for (const Scene::Piece& piece : pieces) {
            const auto part = scene.attend(context, 0, {piece});
            alone.insert(alone.end(), part.begin(), part.end());
        }
        expect_same_bits(together, alone, "shared blocks " + std::to_string(shared_blocks));
    }
}

TEST(Attention, UnusedMemoryNeverMatters) {
    ForkJoin pool(2);
    for (KvDType dtype : kAllKvDTypes) {
        const SceneShape shape{.dtype = dtype};
        Scene scene(shape, {203, 129}, 9);
        for (Isa isa : available_isas()) {
            KernelContext context{ops_for(isa), pool};
            scene.poison();
            const auto poisoned = scene.step_all(context, 0);
            expect_finite(poisoned, describe(shape, isa));
            std::memset(scene.view().base, 0,
                        static_cast<std::size_t>(scene.view().geometry.block_bytes()) * 22);
            expect_same_bits(scene.step_all(context, 0), poisoned, describe(shape, isa));
        }
    }
}

// A later token's NaN must not reach rows that cannot see it, though they share its tile.
TEST(Attention, NanTokenReachesOnlyRowsThatSeeIt) {
    ForkJoin pool(2);
    Scene clean({}, {150}, 10);
    Scene broken({}, {150}, 10);
    const int at = 141;
    const std::size_t columns = clean.q_columns();
    for (Isa isa : available_isas()) {
        KernelContext context{ops_for(isa), pool};
        const auto want = clean.step_all(context, 0);
        broken.step_all(context, 0);
        const BlockId id = broken.tables()[0][at / kBlockTokens];
        std::byte* block = broken.view().block(id);
        for (int head = 0; head < 3; ++head) {
            std::byte* v = block + broken.view().geometry.v_offset(0, head);
            std::memset(v + at % kBlockTokens * 64 * 2, 0xff, 64 * 2);
        }
        const auto got = broken.attend(context, 0, {{0, 0, 150}});
        for (std::size_t i = 0; i < got.size(); ++i) {
            if (i / columns < static_cast<std::size_t>(at)) {
                ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]),
                          std::bit_cast<std::uint32_t>(want[i]))
                    << to_string(isa) << " row " << i / columns;
            } else {
                ASSERT_TRUE(std::isnan(got[i])) << to_string(isa) << " row " << i / columns;
            }
        }
    }
}

// A key or value that is no number in int8: seen by whoever sees the token, and by nobody else.
TEST(Attention, Int8VectorsWithoutAValueShowAsNan) {
    ForkJoin pool(2);
    for (bool key : {true, false}) {
        Scene clean({.dtype = KvDType::kInt8}, {150}, 16);
        Scene broken({.dtype = KvDType::kInt8}, {150}, 16);
        const int at = 70;
        const auto& rows = key ? broken.k(0) : broken.v(0);
        for (std::size_t head = 0; head < 3; ++head) {
            const std::size_t index = at * broken.kv_columns() + head * 64 + 5;
            const_cast<std::vector<float>&>(rows)[index] = std::numeric_limits<float>::infinity();
        }
        const std::size_t columns = clean.q_columns();
        for (Isa isa : available_isas()) {
            KernelContext context{ops_for(isa), pool};
            const auto want = clean.step_all(context, 0);
            const auto got = broken.step_all(context, 0);
            for (std::size_t i = 0; i < got.size(); ++i) {
                if (i / columns < static_cast<std::size_t>(at)) {
                    ASSERT_EQ(got[i], want[i]) << to_string(isa) << " row " << i / columns;
                } else {
                    ASSERT_TRUE(std::isnan(got[i])) << to_string(isa) << " row " << i / columns;
                }
            }
        }
    }
}

// What int8 may cost. With scores off by at most e (half a step of the key's scale times the sum
// of |q|), a weight is off by a factor within exp(+-2e); values are off by half a step of theirs.
TEST(Attention, Int8StaysWithinItsRoundingOfFloat32) {
    ForkJoin pool(2);
    Scene exact({.kv_heads = 1, .group = 2, .dtype = KvDType::kF32}, {200}, 19);
    Scene rounded({.kv_heads = 1, .group = 2, .dtype = KvDType::kInt8}, {200}, 19);
    KernelContext context{ops_for(available_isas().back()), pool};
    const auto want = exact.step_all(context, 0);
    const auto got = rounded.step_all(context, 0);
    const int dim = 64;
    const double k_top = 2.0, v_top = 3.0;  // the scene's largest values
    double worst = 0;
    for (int row = 0; row < 400; ++row) {
        double q_sum = 0;
        for (int d = 0; d < dim; ++d) {
            q_sum += std::abs(exact.q(0)[static_cast<std::size_t>(row * dim + d)]);
        }
        const double e = q_sum * exact.scale() * k_top / 254;
        const double bound = (std::exp(2 * e) - 1) * v_top + v_top / 254 + 1e-4;
        for (int d = 0; d < dim; ++d) {
            const auto i = static_cast<std::size_t>(row * dim + d);
            ASSERT_NEAR(got[i], want[i], bound) << "row " << row << " dim " << d;
            worst = std::max(worst, static_cast<double>(std::abs(got[i] - want[i])));
        }
    }
    EXPECT_GT(worst, 1e-4);  // it is rounded at all
}

// Softmax over all tokens at once, in double, on the values as stored.
TEST(Attention, AgreesWithPlainSoftmaxInDouble) {
    ForkJoin pool(2);
    for (KvDType dtype : kAllKvDTypes) {
        Scene scene({.kv_heads = 2, .group = 2, .dtype = dtype}, {300}, 11);
        KernelContext context{ops_for(available_isas().back()), pool};
        const auto got = scene.step_all(context, 0);
        const int dim = 64;
        const KvView kv = scene.view();
        auto stored = [&](int head, bool key, int token, int d) -> double {
            const std::byte* block = kv.block(scene.tables()[0][token / kBlockTokens]);
            const int slot = token % kBlockTokens;
            const int index = key ? d * kBlockTokens + slot : slot * dim + d;
            block += key ? kv.geometry.k_offset(0, head) : kv.geometry.v_offset(0, head);
            if (dtype == KvDType::kF32) return reinterpret_cast<const float*>(block)[index];
            if (dtype == KvDType::kInt8) {
                const auto* scales = reinterpret_cast<const float*>(block + kBlockTokens * dim);
                return static_cast<double>(scales[slot]) *
                       reinterpret_cast<const std::int8_t*>(block)[index];
            }
            const std::uint16_t bits = reinterpret_cast<const std::uint16_t*>(block)[index];
            return dtype == KvDType::kF16 ? half_to_float(bits) : bfloat16_to_float(bits);
        };
        for (int t : {0, 1, 15, 16, 127, 128, 255, 299}) {
            for (int h = 0; h < 4; ++h) {
                const float* q = scene.q(0).data() + (t * 4 + h) * dim;
                std::vector<double> p;
                double magnitude = 0;
                for (int s = 0; s <= t; ++s) {
                    double dot = 0;
                    double absolute = 0;
                    for (int d = 0; d < dim; ++d) {
                        dot += q[d] * stored(h / 2, true, s, d);
                        absolute += std::abs(q[d] * stored(h / 2, true, s, d));
                    }
                    p.push_back(dot * scene.scale());
                    magnitude = std::max(magnitude, absolute * scene.scale());
                }
                const double max = *std::max_element(p.begin(), p.end());
                double sum = 0;
                for (double& x : p) sum += x = std::exp(x - max);
                // Score error (head_dim + 4 roundings of the largest partial sum) moves every
                // weight by that much relatively; 128 + tiles + 9 roundings follow in the sums.
                const double bound = (magnitude * (dim + 4) + t + 13) * 0x1p-24;
                for (int d = 0; d < dim; ++d) {
                    double want = 0;
                    double absolute = 0;
                    for (int s = 0; s <= t; ++s) {
                        want += p[s] / sum * stored(h / 2, false, s, d);
                        absolute += p[s] / sum * std::abs(stored(h / 2, false, s, d));
                    }
                    ASSERT_NEAR(got[(t * 4 + h) * dim + d], want, 2 * bound * absolute)
                        << "token " << t << " head " << h << " dim " << d;
                }
            }
        }
    }
}

TEST(Attention, ExtremeScoresStayDefined) {
    ForkJoin pool(1);
    // One key far above all others, in each tile in turn: weights of the rest underflow to 0.
    for (int peak : {0, 5, 130, 259}) {
        Scene scene({.kv_heads = 1, .group = 1}, {260}, 12);
        auto& k = const_cast<std::vector<float>&>(scene.k(0));
        auto& q = const_cast<std::vector<float>&>(scene.q(0));
        for (int d = 0; d < 64; ++d) {
            q[static_cast<std::size_t>(259 * 64 + d)] = 100.0f;
            k[static_cast<std::size_t>(peak * 64 + d)] = 60000.0f;
        }
        std::vector<float> expected;
        for (Isa isa : available_isas()) {
            KernelContext context{ops_for(isa), pool};
            scene.step_all(context, 0);
            const auto got = scene.attend(context, 0, {{0, 259, 1}});
            for (int d = 0; d < 64; ++d) {
                const float v = scene.v(0)[static_cast<std::size_t>(peak * 64 + d)];
                EXPECT_NEAR(got[static_cast<std::size_t>(d)], v, std::abs(v) * 0x1p-11);
            }
            if (expected.empty()) expected = got;
            expect_same_bits(got, expected, std::string(to_string(isa)));
        }
    }
}

TEST(Attention, EmptyStepAndEmptySequencesAreNothing) {
    ForkJoin pool(2);
    Scene scene({}, {40, 50}, 13);
    KernelContext context{ops_for(available_isas().back()), pool};
    EXPECT_TRUE(scene.step(context, 0, {}).empty());
    scene.step_all(context, 0);
    const auto want = scene.attend(context, 0, {{1, 49, 1}});
    const auto got = scene.attend(context, 0, {{0, 40, 0}, {1, 49, 1}, {0, 0, 0}});
    expect_same_bits(got, want, "empty sequences");
}

}  // namespace
}  // namespace taproot
