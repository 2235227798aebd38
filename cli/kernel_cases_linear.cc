// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "cli/dtypes.h"
#include "cli/kernel_cases.h"
#include "kernels/linear.h"

namespace taproot::cli {
namespace {

struct Shape {
    int outputs;  // N
    int inputs;   // K
    int rows_max;
};

// SmolLM2-135M (qkv, out, gate and up, down, head) and one layer of a model of about 1 B.
constexpr Shape kShapes[] = {{960, 576, 512},  {576, 576, 512},  {3072, 576, 512},
                             {576, 1536, 512}, {49152, 576, 32}, {8192, 2048, 512}};
constexpr int kRows[] = {1, 2, 4, 8, 16, 32, 128, 512};
constexpr int kModelLayers = 30;
constexpr int kLargeInputs = 4096;
constexpr std::size_t kLargeBytes = std::size_t{256} << 20;
constexpr int kCheckedOutputs = 64;  // against double

// GGUF rows of `type`. Quantised: random bytes with bit 6 clear, so that no half-precision scale is
// infinite or NaN wherever a layout has it. Float: random values of both signs around 1/4.
std::vector<std::byte> random_weights(DType type, std::size_t count) {
    const DTypeInfo info = dtype_info(type);
    std::vector<std::byte> raw(count / static_cast<std::size_t>(info.block_elements) *
                               static_cast<std::size_t>(info.block_bytes));
    Random random(1);
    std::size_t at = 0;
    auto fill = [&](std::uint64_t keep, std::uint64_t set) {
        for (; at < raw.size(); at += sizeof keep) {
            std::uint64_t word = (random.next() & keep) | set;
            std::memcpy(raw.data() + at, &word, std::min(sizeof word, raw.size() - at));
        }
    };
    // Sign and mantissa are free; the exponent says 2^-2.
    if (type == DType::kF32)
        fill(0x807fffff807fffffull, 0x3e8000003e800000ull);
    else if (type == DType::kF16)
        fill(0x83ff83ff83ff83ffull, 0x3400340034003400ull);
    else if (type == DType::kBF16)
        fill(0x807f807f807f807full, 0x3e803e803e803e80ull);
    else
        fill(0xbfbfbfbfbfbfbfbfull, 0);
    return raw;
}

struct Weights {
    Weights(DType type_in, int outputs_in, int inputs_in, ForkJoin& pool)
        : type(type_in),
          outputs(outputs_in),
          inputs(inputs_in),
          raw(random_weights(type_in, static_cast<std::size_t>(outputs_in) *
                                          static_cast<std::size_t>(inputs_in))) {
        PanelMatrix::Source source{raw.data(), outputs};
        packed = PanelMatrix::pack(type, inputs, {&source, 1}, pool).value();
    }
    DType type;
    int outputs, inputs;
    std::vector<std::byte> raw;
    PanelMatrix packed;

    void dequantize_output(int n, float* out) const {
        const std::size_t row_bytes = raw.size() / static_cast<std::size_t>(outputs);
        dequantize(type, raw.data() + static_cast<std::size_t>(n) * row_bytes, inputs, out);
    }
};

struct Activations {
    Activations(KernelContext& context, int rows_in, int inputs_in, int outputs_in)
        : rows(rows_in), inputs(inputs_in), outputs(outputs_in) {
        x = AlignedBuffer(sizeof(float) * static_cast<std::size_t>(rows) *
                          static_cast<std::size_t>(inputs));
        out = AlignedBuffer(sizeof(float) * static_cast<std::size_t>(rows) *
                            static_cast<std::size_t>(outputs));
        TAPROOT_ASSERT(x.data() != nullptr);
        TAPROOT_ASSERT(out.data() != nullptr);
        Random random(2);
        for (std::size_t i = 0; i < x.bytes() / sizeof(float); ++i)
            x.as<float>()[i] = static_cast<float>(random.unit() - 0.5);
        quantize_rows(context, input(), &quantized);
    }
    [[nodiscard]] ConstRows input() const { return {x.as<float>(), inputs, rows, inputs}; }
    [[nodiscard]] Rows output() { return {out.as<float>(), outputs, rows, outputs}; }
    void run(KernelContext& context, const PanelMatrix& w) {
        linear(context, w, {input(), &quantized}, output());
    }
    int rows, inputs, outputs;
    AlignedBuffer x, out;
    QuantizedRows quantized;
};

// The first and the last row of `a`, as run() left them.
KernelCheck check_linear(KernelContext& reference, const Weights& w, Activations& a) {
    KernelCheck out;
    RelativeError error;
    std::vector<float> expected(static_cast<std::size_t>(w.outputs));
    std::vector<float> weights(static_cast<std::size_t>(w.inputs));
    for (int row = 0; row < a.rows; row += std::max(1, a.rows - 1)) {
        const ConstRows x{a.input().row(row), w.inputs, 1, w.inputs};
        QuantizedRows quantized;
        quantize_rows(reference, x, &quantized);
        linear(reference, w.packed, {x, &quantized}, {expected.data(), w.outputs, 1, w.outputs});
        const float* got = a.output().row(row);
        out.compared += expected.size();
        out.differing += count_differing(got, expected.data(), expected.size());
        for (int i = 0; i < kCheckedOutputs; ++i) {
            const int n = static_cast<int>(std::int64_t{w.outputs - 1} * i / (kCheckedOutputs - 1));
            w.dequantize_output(n, weights.data());
            double exact = 0;
            for (int k = 0; k < w.inputs; ++k)
                exact += static_cast<double>(weights[static_cast<std::size_t>(k)]) * x.data[k];
            error.add(got[n], exact);
        }
    }
    out.error = error.value();
    return out;
}

KernelCase make_case(std::string name, const PanelMatrix& w, int rows) {
    KernelCase out;
    out.name = std::move(name);
    out.ops = 2.0 * w.rows() * w.columns() * rows;
    out.bytes = static_cast<double>(w.bytes());
    out.int8 = dtype_info(w.dtype()).quantized;
    return out;
}

std::string case_name(DType type, const std::string& shape, int rows) {
    return fmt::format("linear/{}/{}/rows:{}", dtype_info(type).name, shape, rows);
}

// Which rows of a shape are wanted at all.
std::vector<int> wanted_rows(const KernelCases& cases, DType type, const std::string& shape,
                             int rows_max) {
    std::vector<int> out;
    for (int rows : kRows)
        if (rows <= rows_max && cases.wanted(case_name(type, shape, rows))) out.push_back(rows);
    return out;
}

// One matrix, again and again: from a cache, unless it is large.
void one_matrix(const KernelCases& cases, DType type, const Shape& shape, bool from_memory) {
    if (shape.inputs % dtype_info(type).block_elements != 0) return;
    const std::string text = fmt::format("{}x{}", shape.outputs, shape.inputs);
    const std::vector<int> wanted = wanted_rows(cases, type, text, shape.rows_max);
    if (wanted.empty()) return;
    const Weights w(type, shape.outputs, shape.inputs, cases.context.pool);
    for (int rows : wanted) {
        Activations a(cases.context, rows, shape.inputs, shape.outputs);
        KernelCase one = make_case(case_name(type, text, rows), w.packed, rows);
        one.from_memory = from_memory;
        one.run = [&] { a.run(cases.context, w.packed); };
        one.check = [&] { return check_linear(cases.reference, w, a); };
        cases.use(one);
    }
}

// The linear layers of the whole model in their order: the weights come from where a step of the
// engine finds them.
void whole_model(const KernelCases& cases, DType type) {
    const Shape layer[] = {kShapes[0], kShapes[1], kShapes[2], kShapes[3]};
    for (const Shape& shape : layer)
        if (shape.inputs % dtype_info(type).block_elements != 0) return;
    const std::vector<int> wanted = wanted_rows(cases, type, "model", 512);
    if (wanted.empty()) return;
    std::vector<Weights> matrices;
    for (int i = 0; i < kModelLayers; ++i)
        for (const Shape& shape : layer)
            matrices.emplace_back(type, shape.outputs, shape.inputs, cases.context.pool);
    for (int rows : wanted) {
        std::vector<Activations> activations;
        KernelCase one;
        for (std::size_t i = 0; i < std::size(layer); ++i) {
            activations.emplace_back(cases.context, rows, layer[i].inputs, layer[i].outputs);
            KernelCase part = make_case(case_name(type, "model", rows), matrices[i].packed, rows);
            part.ops = kModelLayers * part.ops + one.ops;
            part.bytes = kModelLayers * part.bytes + one.bytes;
            one = std::move(part);
        }
        one.from_memory = true;
        one.run = [&] {
            for (std::size_t i = 0; i < matrices.size(); ++i)
                activations[i % std::size(layer)].run(cases.context, matrices[i].packed);
        };
        one.check = [&] {  // of the last layer, which has written last
            KernelCheck sum;
            for (std::size_t i = 0; i < std::size(layer); ++i) {
                const Weights& w = matrices[matrices.size() - std::size(layer) + i];
                KernelCheck part = check_linear(cases.reference, w, activations[i]);
                sum.compared += part.compared;
                sum.differing += part.differing;
                sum.error = std::max(sum.error, part.error);
            }
            return sum;
        };
        cases.use(one);
    }
}

}  // namespace

void linear_cases(const KernelCases& cases) {
    for (DType type : all_dtypes()) {
        for (const Shape& shape : kShapes) one_matrix(cases, type, shape, false);
        whole_model(cases, type);
        const DTypeInfo info = dtype_info(type);
        const auto row_bytes =
            static_cast<std::size_t>(kLargeInputs / info.block_elements * info.block_bytes);
        one_matrix(cases, type, {static_cast<int>(kLargeBytes / row_bytes), kLargeInputs, 4}, true);
    }
}

}  // namespace taproot::cli
