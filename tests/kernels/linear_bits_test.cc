// SPDX-License-Identifier: Apache-2.0
// Every instruction set, number of rows, thread count and split gives the bits of ref/.
#include <algorithm>

#include "kernels/panel_layout.h"
#include "tests/kernels/linear_support.h"

namespace taproot {
namespace {

using testing::Case;

// Rows of x and of out are longer than used: what lies beyond must stay untouched.
constexpr int kGap = 5;
constexpr float kUntouched = 12345.0f;

struct Layer {
    Case shape;
    PanelMatrix w;
    std::vector<float> x;  // [rows][columns + kGap]

    [[nodiscard]] ConstRows input() const {
        return {x.data(), shape.columns + kGap, shape.rows, shape.columns};
    }
};

Layer make_layer(const Case& shape, std::uint64_t seed) {
    Random random(seed);
    auto bytes = testing::random_weights(random, shape.type, shape.outputs, shape.columns);
    auto dense = testing::random_activations(random, shape.rows, shape.columns);
    std::vector<float> x(static_cast<std::size_t>(shape.rows * (shape.columns + kGap)), NAN);
    for (int r = 0; r < shape.rows; ++r) {
        std::copy_n(dense.begin() + r * shape.columns, shape.columns,
                    x.begin() + r * (shape.columns + kGap));
    }
    return {shape, testing::must_pack(shape.type, shape.columns, bytes, shape.outputs),
            std::move(x)};
}

std::vector<float> run(const Layer& layer, Isa isa, int threads, Accumulate accumulate) {
    ForkJoin pool(threads);
    KernelContext context{ops_for(isa), pool};
    const Case& shape = layer.shape;
    std::vector<float> out(static_cast<std::size_t>(shape.rows * (shape.outputs + kGap)),
                           kUntouched);
    if (accumulate == Accumulate::kAdd) {
        for (std::size_t i = 0; i < out.size(); ++i) {
            bool used = i % static_cast<std::size_t>(shape.outputs + kGap) <
                        static_cast<std::size_t>(shape.outputs);
            if (used) out[i] = 0.37f * static_cast<float>(i % 101) - 11.0f;
        }
    }
    QuantizedRows quantized;
    bool needs_quantized = dtype_info(shape.type).quantized;
    if (needs_quantized) quantize_rows(context, layer.input(), &quantized);
    linear(context, layer.w, {layer.input(), needs_quantized ? &quantized : nullptr},
           {out.data(), shape.outputs + kGap, shape.rows, shape.outputs}, accumulate);
    return out;
}

// The first differing element, or "" when all bits agree.
std::string difference(const std::vector<float>& expected, const std::vector<float>& actual) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (std::memcmp(&expected[i], &actual[i], 4) != 0) {
            return "element " + std::to_string(i) + ": " + std::to_string(expected[i]) +
                   " became " + std::to_string(actual[i]);
        }
    }
    return "";
}

// `shape.columns` is rounded up to whole blocks of the type.
void expect_all_equal_ref(Case shape, const std::vector<int>& thread_counts) {
    shape.columns = testing::whole_blocks(shape.type, shape.columns);
    Layer layer = make_layer(shape, 77 + static_cast<std::uint64_t>(shape.rows));
    for (Accumulate accumulate : {Accumulate::kOverwrite, Accumulate::kAdd}) {
        std::vector<float> expected = run(layer, Isa::kRef, 1, accumulate);
        for (int r = 0; r < shape.rows; ++r) {
            float last = expected[static_cast<std::size_t>((r + 1) * (shape.outputs + kGap) - 1)];
            ASSERT_EQ(last, kUntouched) << shape.describe();
        }
        for (Isa isa : testing::simd_isas()) {
            for (int threads : thread_counts) {
                ASSERT_EQ(difference(expected, run(layer, isa, threads, accumulate)), "")
                    << shape.describe() << " " << to_string(isa) << " threads=" << threads;
            }
        }
    }
}

TEST(LinearBits, EveryRowCountUpToFortyAgreesWithRef) {
    for (DType type : testing::kAllTypes) {
        for (int rows = 1; rows <= 40; ++rows) {
            expect_all_equal_ref({type, rows, 96, 49}, {1});
        }
    }
}

TEST(LinearBits, LongerBatchesAgreeWithRef) {
    for (DType type : testing::kAllTypes) {
        for (int rows : {63, 64, 65, 127, 129, 512}) {
            expect_all_equal_ref({type, rows, 64, 65}, {1, 2});
        }
    }
}

TEST(LinearBits, EveryShapeAgreesWithRef) {
    for (DType type : testing::kAllTypes) {
        for (int columns : {32, 96, 576, 1536}) {
            for (int outputs : {1, 15, 16, 17, 192, 576}) {
                if (columns >= 576 && outputs >= 192) continue;  // below
                for (int rows : {1, 2, 5, 7, 12}) {
                    expect_all_equal_ref({type, rows, columns, outputs}, {1});
                }
            }
        }
    }
}

TEST(LinearBits, TheModelsShapesAgreeWithRef) {
    for (DType type : testing::kAllTypes) {
        expect_all_equal_ref({type, 1, 1536, 576}, {1, 2});
        expect_all_equal_ref({type, 3, 576, 960}, {2});
        expect_all_equal_ref({type, 16, 576, 192}, {2});
        expect_all_equal_ref({type, 70, 1536, 48}, {2});
    }
}

// More columns than one unpacked chunk of any kernel, and an odd number of blocks.
TEST(LinearBits, ManyAndOddBlocksAgreeWithRef) {
    for (DType type : testing::kAllTypes) {
        for (int rows : {1, 6, 7, 20}) expect_all_equal_ref({type, rows, 32 * 133, 33}, {1});
    }
}

TEST(LinearBits, ThreadsDoNotChangeBits) {
    for (DType type : {DType::kQ4_1, DType::kQ8_0, DType::kF16}) {
        for (int rows : {1, 8, 33, 150}) {
            expect_all_equal_ref({type, rows, 288, 200}, {1, 2, 3, 5});
        }
    }
}

// A row's result may not depend on which rows are computed with it.
TEST(LinearBits, ARowAloneEqualsTheRowInABatch) {
    for (DType type : testing::kAllTypes) {
        int columns = testing::whole_blocks(type, 160);
        Layer batch = make_layer({type, 45, columns, 80}, 5);
        for (Isa isa : available_isas()) {
            std::vector<float> all = run(batch, isa, 2, Accumulate::kOverwrite);
            for (int r : {0, 1, 7, 31, 44}) {
                Layer alone{{type, 1, columns, 80}, PanelMatrix{}, {}};
                alone.x.assign(batch.x.begin() + r * (columns + kGap),
                               batch.x.begin() + (r + 1) * (columns + kGap));
                std::swap(alone.w, batch.w);
                std::vector<float> one = run(alone, isa, 1, Accumulate::kOverwrite);
                std::swap(alone.w, batch.w);
                std::vector<float> row(all.begin() + r * (80 + kGap),
                                       all.begin() + (r + 1) * (80 + kGap));
                ASSERT_EQ(difference(row, one), "") << to_string(isa) << " row " << r;
            }
        }
    }
}

// Every product at its largest, all of one sign: what saturates, saturates here.
TEST(LinearBits, ExtremeQuantsStayExact) {
    constexpr int kRows = 8;
    constexpr int kOutputs = 17;
    for (DType type : testing::kQuantizedTypes) {
        DTypeInfo info = dtype_info(type);
        testing::HalvesAt halves = testing::halves_at(type);
        int columns = testing::whole_blocks(type, 64);
        for (unsigned fill : {0x00u, 0x7fu, 0x80u, 0x81u, 0xf0u, 0xffu}) {
            std::vector<std::byte> bytes(
                static_cast<std::size_t>(kOutputs * columns / info.block_elements *
                                         info.block_bytes),
                static_cast<std::byte>(fill));
            for (std::size_t at = 0; at < bytes.size();
                 at += static_cast<std::size_t>(info.block_bytes)) {
                const std::uint16_t one = 0x3c00, zero = 0;
                std::memcpy(&bytes[at + static_cast<std::size_t>(halves.d)], &one, 2);
                if (halves.m >= 0) {
                    std::memcpy(&bytes[at + static_cast<std::size_t>(halves.m)], &zero, 2);
                }
            }
            std::vector<float> w(static_cast<std::size_t>(kOutputs * columns));
            dequantize(type, bytes.data(), kOutputs * columns, w.data());
            Layer layer{{type, kRows, columns, kOutputs},
                        testing::must_pack(type, columns, bytes, kOutputs),
                        {}};
            for (int r = 0; r < kRows; ++r) {
                for (int k = 0; k < columns + kGap; ++k) {
                    bool negative =
                        r % 4 == 1 || (r % 4 == 2 && k % 2 == 1) || (r % 4 == 3 && k % 4 >= 2);
                    layer.x.push_back(negative ? -127.0f : 127.0f);
                }
            }
            for (Isa isa : available_isas()) {
                std::vector<float> out = run(layer, isa, 1, Accumulate::kOverwrite);
                for (int r = 0; r < kRows; ++r) {
                    // Each block is an integer below 2^24, their sum may round.
                    float expected = 0.0f;
                    for (int b = 0; b < columns; b += 32) {
                        float block = 0.0f;
                        for (int k = b; k < b + 32; ++k) {
                            block += w[static_cast<std::size_t>(k)] *
                                     layer.x[static_cast<std::size_t>(r * (columns + kGap) + k)];
                        }
                        expected += block;
                    }
                    for (int n = 0; n < kOutputs; ++n) {
                        ASSERT_EQ(out[static_cast<std::size_t>(r * (kOutputs + kGap) + n)],
                                  expected)
                            << info.name << " " << to_string(isa) << " fill " << fill;
                    }
                }
            }
        }
    }
}

// Scales no sane file has, and every sub-scale at its least and most: the same bits, NaN wherever
// ref has NaN.
TEST(LinearBits, StrangeScalesAgreeWithRef) {
    constexpr std::uint16_t kZero = 0, kLeast = 1, kMost = 0x7bff, kMinusMost = 0xfbff;
    constexpr std::uint16_t kInfinity = 0x7c00, kNan = 0x7e00;
    Random random(78);
    for (DType type : testing::kQuantizedTypes) {
        DTypeInfo info = dtype_info(type);
        testing::HalvesAt halves = testing::halves_at(type);
        Case shape{type, 1, testing::whole_blocks(type, 64), 21};
        for (std::uint16_t scale : {kZero, kLeast, kMost, kMinusMost, kInfinity, kNan}) {
            for (int fill : {0x00, 0xff, 0x80, -1}) {  // -1: random
                auto bytes = testing::random_weights(random, type, shape.outputs, shape.columns);
                for (std::size_t i = 0; i < bytes.size() && fill >= 0; ++i) {
                    bytes[i] = static_cast<std::byte>(fill);
                }
                for (auto at = bytes.data(); at < bytes.data() + bytes.size();
                     at += info.block_bytes) {
                    std::memcpy(at + halves.d, &scale, 2);
                    if (halves.m >= 0) std::memcpy(at + halves.m, &scale, 2);
                }
                for (int rows : {1, 3, 8, 11}) {
                    shape.rows = rows;
                    Layer layer = make_layer(shape, 79);
                    layer.w = testing::must_pack(type, shape.columns, bytes, shape.outputs);
                    auto expected = run(layer, Isa::kRef, 1, Accumulate::kOverwrite);
                    for (Isa isa : testing::simd_isas()) {
                        auto actual = run(layer, isa, 1, Accumulate::kOverwrite);
                        for (std::size_t i = 0; i < actual.size(); ++i) {
                            if (std::isnan(actual[i])) actual[i] = NAN;  // payloads are free
                            if (std::isnan(expected[i])) expected[i] = NAN;
                        }
                        ASSERT_EQ(difference(expected, actual), "")
                            << shape.describe() << " " << to_string(isa) << " scale " << scale
                            << " fill " << fill;
                    }
                }
            }
        }
    }
}

TEST(LinearBits, NoRowsIsNothingToDo) {
    Layer layer = make_layer({DType::kQ4_1, 1, 32, 16}, 9);
    ForkJoin pool(1);
    KernelContext context{ops_for(Isa::kRef), pool};
    QuantizedRows quantized;
    quantize_rows(context, {layer.x.data(), 32, 0, 32}, &quantized);
    linear(context, layer.w, {{layer.x.data(), 32, 0, 32}, &quantized}, {nullptr, 16, 0, 16});
    SUCCEED();
}

}  // namespace
}  // namespace taproot
