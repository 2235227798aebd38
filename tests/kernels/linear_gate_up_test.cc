// SPDX-License-Identifier: Apache-2.0
#include "kernels/fused.h"
#include "tests/kernels/linear_support.h"

namespace taproot {
namespace {

struct Scene {
    DType type;
    int rows;
    int columns;
    int feed_forward;
    std::vector<Range> precise;
};

struct Outcome {
    std::vector<ActivationBlock> quantized;
    std::vector<float> precise_h;  // of the precise rows
};

// A matrix of floats for a view of it.
struct Floats {
    Floats(int rows, int columns)
        : values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns)),
          view{values.data(), columns, rows, columns} {}
    std::vector<float> values;
    Rows view;
};

Outcome outcome(const Scene& scene, Rows h, const QuantizedRows& quantized) {
    Outcome out;
    out.quantized.assign(quantized.row(0), quantized.row(scene.rows));
    for (const Range& range : scene.precise)
        for (int r = range.begin; r < range.end; ++r)
            out.precise_h.insert(out.precise_h.end(), h.row(r), h.row(r) + h.columns);
    return out;
}

// The calls one after another.
Outcome separate(KernelContext& context, const Scene& scene, const PanelMatrix& w, ConstRows x) {
    Floats gate_up(scene.rows, 2 * scene.feed_forward);
    QuantizedRows quantized, rest, result;
    quantize_rows(context, x, &quantized);
    linear(context, w, {x, &quantized}, gate_up.view);
    if (w.quantized()) {
        for (const Range& range : scene.precise) {
            quantize_remainders(context, x, quantized, range, &rest);
            int count = range.end - range.begin;
            ConstRows rows{x.row(range.begin), x.stride, count, x.columns};
            Rows out{gate_up.view.row(range.begin), gate_up.view.stride, count,
                     gate_up.view.columns};
            linear(context, w, {rows, &rest, range.begin}, out, Accumulate::kAdd);
        }
    }
    Rows gate{gate_up.view.data, gate_up.view.stride, scene.rows, scene.feed_forward};
    Rows up{gate.data + scene.feed_forward, gate.stride, scene.rows, scene.feed_forward};
    swiglu_quantized(context, gate, up, gate, &result);
    return outcome(scene, gate, result);
}

Outcome fused(KernelContext& context, const Scene& scene, const PanelMatrix& w, ConstRows x) {
    Floats h(scene.rows, scene.feed_forward);
    QuantizedRows quantized, rest, result;
    quantize_rows(context, x, &quantized);
    rest.resize(scene.rows, scene.columns);
    if (w.quantized()) {
        for (const Range& range : scene.precise)
            quantize_remainders(context, x, quantized, range, &rest);
    }
    gate_up_quantized(context, w, {x, &quantized}, scene.precise, rest, h.view, &result);
    return outcome(scene, h.view, result);
}

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size() || a.empty()) return a.size() == b.size();
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

TEST(LinearGateUp, GivesTheBitsOfTheSeparateCallsForEveryTypeShapeAndInstructionSet) {
    Random random(11);
    for (DType type : testing::kAllTypes) {
        int columns = testing::whole_blocks(type, 96);
        for (const Scene& scene :
             {Scene{type, 1, columns, 32, {}}, Scene{type, 3, columns, 96, {{0, 1}, {2, 3}}},
              Scene{type, 17, columns, 64, {{0, 16}}},
              Scene{type, 150, columns, 64, {{3, 19}, {126, 131}}}}) {
            auto bytes = testing::random_weights(random, type, 2 * scene.feed_forward, columns);
            PanelMatrix w = testing::must_pack(type, columns, bytes, 2 * scene.feed_forward);
            ASSERT_TRUE(gate_up_fits(w));
            auto values = testing::random_activations(random, scene.rows, columns);
            ConstRows x{values.data(), columns, scene.rows, columns};
            ForkJoin one(1);
            KernelContext reference{ops_for(Isa::kRef), one};
            Outcome expected = separate(reference, scene, w, x);
            for (Isa isa : available_isas()) {
                for (int threads : {1, 3}) {
                    ForkJoin pool(threads);
                    KernelContext context{ops_for(isa), pool};
                    Outcome got = fused(context, scene, w, x);
                    EXPECT_TRUE(same(got.quantized, expected.quantized))
                        << dtype_info(type).name << " " << scene.rows << " rows, " << to_string(isa)
                        << ", " << threads << " threads";
                    EXPECT_TRUE(same(got.precise_h, expected.precise_h))
                        << dtype_info(type).name << " " << scene.rows << " rows, "
                        << to_string(isa);
                }
            }
        }
    }
}

TEST(LinearGateUp, FitsWhereATileHoldsWholeBlocksOfBoth) {
    Random random(1);
    for (int feed_forward : {16, 32, 48, 64}) {
        auto bytes = testing::random_weights(random, DType::kQ8_0, 2 * feed_forward, 32);
        PanelMatrix w = testing::must_pack(DType::kQ8_0, 32, bytes, 2 * feed_forward);
        EXPECT_EQ(gate_up_fits(w), feed_forward % 32 == 0) << feed_forward;
    }
}

}  // namespace
}  // namespace taproot
