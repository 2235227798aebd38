// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "tests/kernels/linear_support.h"

namespace taproot {
namespace {

std::vector<float> dequantized(DType type, const std::vector<std::byte>& bytes,
                               std::int64_t count) {
    std::vector<float> out(static_cast<std::size_t>(count));
    dequantize(type, bytes.data(), count, out.data());
    return out;
}

TEST(LinearPack, EmbedRowsReturnsTheDequantisedRowsBitForBit) {
    Random random(21);
    for (DType type : testing::kAllTypes) {
        int columns = testing::whole_blocks(type, 96);
        auto row_bytes = static_cast<std::size_t>(columns) * 4;
        for (int rows : {1, 15, 16, 17, 50}) {
            auto bytes = testing::random_weights(random, type, rows, columns);
            std::vector<float> expected = dequantized(type, bytes, rows * columns);
            PanelMatrix table = testing::must_pack(type, columns, bytes, rows);
            for (int threads : {1, 2}) {
                ForkJoin pool(threads);
                KernelContext context{ops_for(Isa::kRef), pool};
                std::vector<std::int32_t> ids(static_cast<std::size_t>(rows) + 1);
                std::iota(ids.begin(), ids.end(), 0);
                ids.back() = 0;  // an id may repeat
                int stride = columns + 4;
                std::vector<float> out(ids.size() * static_cast<std::size_t>(stride), -1.0f);
                Rows to{out.data(), stride, static_cast<int>(ids.size()), columns};
                embed_rows(context, table, ids, to);
                for (int i = 0; i < to.rows; ++i) {
                    int from = ids[static_cast<std::size_t>(i)] * columns;
                    ASSERT_EQ(std::memcmp(to.row(i), &expected[static_cast<std::size_t>(from)],
                                          row_bytes),
                              0)
                        << dtype_info(type).name << " row " << i;
                    ASSERT_EQ(to.row(i)[columns], -1.0f);
                }
            }
        }
    }
}

TEST(LinearPack, StackedSourcesEqualOneMatrix) {
    Random random(22);
    for (DType type : testing::kAllTypes) {
        int columns = testing::whole_blocks(type, 64);
        auto q = testing::random_weights(random, type, 37, columns);
        auto k = testing::random_weights(random, type, 5, columns);
        auto v = testing::random_weights(random, type, 22, columns);
        std::vector<std::byte> all = q;
        all.insert(all.end(), k.begin(), k.end());
        all.insert(all.end(), v.begin(), v.end());
        PanelMatrix one = testing::must_pack(type, columns, all, 64);
        for (int threads : {1, 3}) {
            ForkJoin pool(threads);
            std::vector<PanelMatrix::Source> sources = {
                {q.data(), 37}, {k.data(), 5}, {v.data(), 22}};
            Result<PanelMatrix> stacked = PanelMatrix::pack(type, columns, sources, pool);
            ASSERT_TRUE(stacked.has_value());
            EXPECT_EQ(stacked->rows(), 64);
            ASSERT_EQ(stacked->bytes(), one.bytes());
            EXPECT_EQ(std::memcmp(stacked->panel(0), one.panel(0), one.bytes()), 0);
        }
    }
}

TEST(LinearPack, PanelsPlacedElsewhereEqualPackedOnes) {
    Random random(26);
    for (DType type : testing::kAllTypes) {
        int columns = testing::whole_blocks(type, 64);
        auto one = testing::random_weights(random, type, 23, columns);
        auto two = testing::random_weights(random, type, 12, columns);
        std::vector<PanelMatrix::Source> sources = {{one.data(), 23}, {two.data(), 12}};
        ForkJoin pool(2);
        Result<PanelMatrix> packed = PanelMatrix::pack(type, columns, sources, pool);
        Result<PanelMatrix> placed = PanelMatrix::of_shape(type, columns, sources);
        ASSERT_TRUE(packed && placed);
        ASSERT_EQ(placed->panels(), 3);
        ASSERT_EQ(placed->bytes(), packed->bytes());
        AlignedBuffer memory(placed->bytes());
        for (int p : {2, 0, 1}) {
            placed->pack_panel(sources, p,
                               memory.data() + static_cast<std::size_t>(p) * placed->panel_bytes());
        }
        placed->place(memory.data());
        EXPECT_EQ(std::memcmp(placed->panel(0), packed->panel(0), packed->bytes()), 0);
        PanelMatrix moved = std::move(*placed);
        EXPECT_EQ(moved.panel(2), memory.data() + 2 * moved.panel_bytes());
    }
}

// Where GGUF packs scales of sub-blocks into 4 or 6 bits, the panels have a byte each.
TEST(LinearPack, TakesNoMoreBytesThanTheFileButForSubScales) {
    Random random(23);
    for (DType type : testing::kAllTypes) {
        int columns = testing::whole_blocks(type, 576);
        auto bytes = testing::random_weights(random, type, 32, columns);
        std::size_t packed = testing::must_pack(type, columns, bytes, 32).bytes();
        bool packed_scales = type == DType::kQ3_K || type == DType::kQ4_K || type == DType::kQ5_K ||
                             type == DType::kIQ4_XS;
        if (packed_scales) {
            EXPECT_GT(packed, bytes.size()) << dtype_info(type).name;
            EXPECT_LT(packed, bytes.size() * 105 / 100) << dtype_info(type).name;
        } else {
            EXPECT_EQ(packed, bytes.size() + (type == DType::kQ6_K ? 2 * 32 : 0))
                << dtype_info(type).name;
        }
    }
}

TEST(LinearPack, PanelsStartAtCacheLines) {
    Random random(24);
    for (DType type : testing::kAllTypes) {
        int columns = testing::whole_blocks(type, 96);
        auto bytes = testing::random_weights(random, type, 40, columns);
        PanelMatrix w = testing::must_pack(type, columns, bytes, 40);
        ASSERT_EQ(w.panels(), 3);
        for (int p = 0; p < w.panels(); ++p) {
            EXPECT_EQ(reinterpret_cast<std::uintptr_t>(w.panel(p)) % 64, 0u);
        }
    }
}

// Unquantised columns need not be a multiple of anything.
TEST(LinearPack, FloatWeightsTakeAnyNumberOfColumns) {
    Random random(25);
    for (DType type : {DType::kF32, DType::kF16, DType::kBF16}) {
        for (int columns : {1, 3, 33}) {
            auto bytes = testing::random_weights(random, type, 18, columns);
            std::vector<float> w = dequantized(type, bytes, 18 * columns);
            PanelMatrix packed = testing::must_pack(type, columns, bytes, 18);
            std::vector<float> x = testing::random_activations(random, 2, columns);
            for (Isa isa : available_isas()) {
                ForkJoin pool(1);
                KernelContext context{ops_for(isa), pool};
                std::vector<float> out(2 * 18);
                linear(context, packed, {{x.data(), columns, 2, columns}, nullptr},
                       {out.data(), 18, 2, 18});
                for (int t = 0; t < 2; ++t) {
                    for (int n = 0; n < 18; ++n) {
                        float sum = 0.0f;
                        for (int k = 0; k < columns; ++k) {
                            sum = std::fma(w[static_cast<std::size_t>(n * columns + k)],
                                           x[static_cast<std::size_t>(t * columns + k)], sum);
                        }
                        ASSERT_EQ(out[static_cast<std::size_t>(t * 18 + n)], sum);
                    }
                }
            }
        }
    }
}

Error pack_error(DType type, int columns, std::vector<PanelMatrix::Source> sources) {
    ForkJoin pool(1);
    Result<PanelMatrix> result = PanelMatrix::pack(type, columns, sources, pool);
    EXPECT_FALSE(result.has_value());
    return result.has_value() ? Error{} : result.error();
}

TEST(LinearPack, RefusesWhatItCannotHold) {
    std::vector<std::byte> bytes(4096);
    PanelMatrix::Source some{bytes.data(), 4};
    struct Refusal {
        DType type;
        int columns;
        std::vector<PanelMatrix::Source> sources;
        const char* says;
    };
    const std::vector<Refusal> refusals = {
        {DType::kQ4_1, 33, {some}, "33 columns of Q4_1"},
        {DType::kQ8_0, 16, {some}, "16 columns of Q8_0"},
        {DType::kQ4_K, 576, {some}, "576 columns of Q4_K, which comes in blocks of 256"},
        {DType::kQ4_1, 0, {some}, "0 columns"},
        {DType::kF32, -4, {some}, "-4 columns"},
        {DType::kF32, 1 << 25, {some}, "33554432 columns"},
        {DType::kF32, 4, {}, "0 rows"},
        {DType::kF32, 4, {{bytes.data(), 0}}, "without rows"},
        {DType::kF32, 4, {some, {bytes.data(), -1}}, "without rows"},
        {DType::kF32, 4, {{nullptr, 4}}, "without rows"},
        {DType::kF32, 4, {{bytes.data(), 1 << 30}}, "1073741824 rows"},
    };
    for (const Refusal& refusal : refusals) {
        Error error = pack_error(refusal.type, refusal.columns, refusal.sources);
        EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
        EXPECT_NE(error.message.find(refusal.says), std::string::npos) << error.message;
    }
}

TEST(LinearPack, SaysSoWhenThereIsNoMemory) {
    std::byte one{};
    Error error = pack_error(DType::kF32, 1 << 24, {{&one, 1 << 28}});  // 16 PiB
    EXPECT_EQ(error.code, ErrorCode::kUnavailable);
    EXPECT_NE(error.message.find("bytes of weights"), std::string::npos) << error.message;
}

TEST(AlignedBuffer, IsZeroedAlignedAndMovable) {
    for (std::size_t bytes :
         {std::size_t{1}, std::size_t{100}, std::size_t{2} << 20, (std::size_t{5} << 20) + 17}) {
        AlignedBuffer buffer(bytes);
        ASSERT_NE(buffer.data(), nullptr);
        EXPECT_EQ(buffer.bytes(), bytes);
        std::uintptr_t alignment = bytes >= (std::size_t{2} << 20) ? std::size_t{2} << 20 : 64;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment, 0u);
        EXPECT_EQ(buffer.data()[0], std::byte{0});
        EXPECT_EQ(buffer.data()[bytes - 1], std::byte{0});
        buffer.data()[bytes - 1] = std::byte{7};
        AlignedBuffer moved = std::move(buffer);
        EXPECT_EQ(moved.data()[bytes - 1], std::byte{7});
        buffer = AlignedBuffer(64);
        EXPECT_EQ(buffer.bytes(), 64u);
    }
    EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
    EXPECT_EQ(AlignedBuffer(~std::size_t{0}).data(), nullptr);
}

}  // namespace
}  // namespace taproot
