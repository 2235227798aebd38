// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "cli/kernel_cases.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/half.h"

namespace taproot::cli {
namespace {

// SmolLM2-135M.
constexpr int kHeads = 9;
constexpr int kKvHeads = 3;
constexpr int kDim = 64;
constexpr int kLayers = 30;
constexpr float kScale = 0.125f;
constexpr int kCheckedTokens = 4;  // at the end of a prefill: the scalar reference is slow

// `streams` sequences of `tokens` tokens in pages in shuffled order, the first `shared` tokens in
// common ones.
struct Pages {
    Pages(int streams, int tokens, int shared) {
        const int per_stream = (tokens + kBlockTokens - 1) / kBlockTokens;
        const int common = shared / kBlockTokens;
        const int blocks = common + streams * (per_stream - common);
        memory = AlignedBuffer(static_cast<std::size_t>(geometry.block_bytes()) *
                               static_cast<std::size_t>(blocks));
        TAPROOT_ASSERT(memory.data() != nullptr);
        auto* halves = memory.as<std::uint16_t>();
        for (std::size_t i = 0; i < memory.bytes() / 2; ++i) {  // around 1/4, of both signs
            const std::uint64_t bits = i * 0x9E3779B97F4A7C15ull >> 40;
            halves[i] = static_cast<std::uint16_t>(0x3000u + (bits & 0x87ffu));
        }
        std::vector<std::uint32_t> order(static_cast<std::size_t>(blocks));
        std::iota(order.begin(), order.end(), 0u);
        Random random(1);
        for (std::size_t i = order.size(); i > 1; --i)
            std::swap(order[i - 1], order[random.below(i)]);
        auto used = static_cast<std::size_t>(common);
        tables.resize(static_cast<std::size_t>(streams));
        for (auto& table : tables)
            for (int b = 0; b < per_stream; ++b)
                table.push_back(BlockId{order[b < common ? static_cast<std::size_t>(b) : used++]});
    }
    KvView view() { return {memory.data(), geometry}; }

    KvGeometry geometry{kLayers, kKvHeads, kDim, KvDType::kF16};
    AlignedBuffer memory;
    std::vector<std::vector<BlockId>> tables;
};

struct Matrix {
    explicit Matrix(int rows) : values(static_cast<std::size_t>(rows) * kHeads * kDim) {
        Random random(2);
        for (float& value : values) value = static_cast<float>(random.unit() - 0.5);
    }
    [[nodiscard]] Rows rows() {
        constexpr int kColumns = kHeads * kDim;
        return {values.data(), kColumns, static_cast<int>(values.size() / kColumns), kColumns};
    }
    std::vector<float> values;
};

// One head of one row, in double over what the pages hold. Layer 0.
void exact_row(Pages& pages, const std::vector<BlockId>& table, int tokens, int head,
               const float* q, std::vector<double>& out) {
    const int kv_head = head / (kHeads / kKvHeads);
    const KvView kv = pages.view();
    auto plane = [&](int token, std::int64_t offset) {
        const BlockId block = table[static_cast<std::size_t>(token / kBlockTokens)];
        return reinterpret_cast<const std::uint16_t*>(kv.block(block) + offset);
    };
    std::vector<double> scores(static_cast<std::size_t>(tokens));
    for (int t = 0; t < tokens; ++t) {
        const std::uint16_t* k = plane(t, pages.geometry.k_offset(0, kv_head));
        double dot = 0;
        for (int d = 0; d < kDim; ++d)
            dot +=
                static_cast<double>(q[d]) * half_to_float(k[d * kBlockTokens + t % kBlockTokens]);
        scores[static_cast<std::size_t>(t)] = dot * kScale;
    }
    const double top = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    out.assign(kDim, 0.0);
    for (int t = 0; t < tokens; ++t) {
        const double weight = std::exp(scores[static_cast<std::size_t>(t)] - top);
        const std::uint16_t* v = plane(t, pages.geometry.v_offset(0, kv_head));
        sum += weight;
        for (int d = 0; d < kDim; ++d)
            out[static_cast<std::size_t>(d)] +=
                weight * half_to_float(v[t % kBlockTokens * kDim + d]);
    }
    for (double& value : out) value /= sum;
}

// Layer 0 of the same call, `sequences` being parts of what was timed.
KernelCheck check_attention(const KernelCases& cases, Pages& pages, Matrix& q,
                            std::span<const AttentionSequence> timed,
                            std::span<const AttentionSequence> checked) {
    KernelCheck out;
    RelativeError error;
    Matrix got(q.rows().rows), expected(q.rows().rows);
    attention(cases.context, pages.view(), 0, kHeads, kScale, q.rows(), got.rows(), timed);
    attention(cases.reference, pages.view(), 0, kHeads, kScale, q.rows(), expected.rows(), checked);
    std::vector<double> exact;
    for (const AttentionSequence& s : checked) {
        for (int row = s.row; row < s.row + s.count; ++row) {
            out.compared += kHeads * kDim;
            out.differing +=
                count_differing(got.rows().row(row), expected.rows().row(row), kHeads * kDim);
        }
        const int last = s.row + s.count - 1;
        const std::vector<BlockId> table(s.blocks.begin(), s.blocks.end());
        exact_row(pages, table, s.position + s.count, 4, q.rows().row(last) + 4 * kDim, exact);
        for (int d = 0; d < kDim; ++d)
            error.add(got.rows().row(last)[4 * kDim + d], exact[static_cast<std::size_t>(d)]);
    }
    out.error = error.value();
    return out;
}

// One new token for each stream, all layers, so that pages come from where the model finds them.
void decode(const KernelCases& cases, int streams, int tokens, int shared) {
    KernelCase one;
    one.name = fmt::format("attention/decode/streams:{}/depth:{}", streams, tokens);
    if (shared > 0) one.name += fmt::format("/shared:{}", shared);
    if (!cases.wanted(one.name)) return;
    Pages pages(streams, tokens, shared);
    Matrix q(streams), out(streams);
    std::vector<AttentionSequence> sequences;
    for (int i = 0; i < streams; ++i)
        sequences.push_back({i, 1, tokens - 1, pages.tables[static_cast<std::size_t>(i)]});
    one.ops = 4.0 * streams * tokens * kDim * kHeads * kLayers;
    one.bytes = static_cast<double>(pages.geometry.block_bytes()) *
                (shared + static_cast<double>(streams) * (tokens - shared)) / kBlockTokens;
    one.from_memory = one.bytes > 64e6;
    one.run = [&] {
        for (int layer = 0; layer < kLayers; ++layer)
            attention(cases.context, pages.view(), layer, kHeads, kScale, q.rows(), out.rows(),
                      sequences);
    };
    one.check = [&] { return check_attention(cases, pages, q, sequences, sequences); };
    cases.use(one);
}

// A chunk of `count` new tokens at the end of a context of `tokens`, one layer after the other.
void prefill(const KernelCases& cases, int count, int tokens) {
    KernelCase one;
    one.name = fmt::format("attention/prefill/tokens:{}/context:{}", count, tokens);
    if (!cases.wanted(one.name)) return;
    Pages pages(1, tokens, 0);
    Matrix q(count), out(count);
    const AttentionSequence sequence{0, count, tokens - count, pages.tables[0]};
    const int checked = std::min(count, kCheckedTokens);
    const AttentionSequence end{count - checked, checked, tokens - checked, pages.tables[0]};
    const double seen = static_cast<double>(count) * (tokens - count) + 0.5 * count * (count + 1.0);
    one.ops = 4.0 * seen * kDim * kHeads;
    one.bytes = static_cast<double>(pages.geometry.block_bytes()) * tokens / kBlockTokens / kLayers;
    int layer = 0;
    one.run = [&] {
        attention(cases.context, pages.view(), layer, kHeads, kScale, q.rows(), out.rows(),
                  {&sequence, 1});
        layer = (layer + 1) % kLayers;
    };
    one.check = [&] { return check_attention(cases, pages, q, {&sequence, 1}, {&end, 1}); };
    cases.use(one);
}

// New tokens' K and V into pages.
void append(const KernelCases& cases, int count) {
    KernelCase one;
    one.name = fmt::format("kv_append/tokens:{}", count);
    if (!cases.wanted(one.name)) return;
    Pages pages(1, count, 0), expected(1, count, 0);
    Matrix k(count), v(count);
    auto part = [](Matrix& m) {
        Rows rows = m.rows();
        rows.columns = kKvHeads * kDim;
        return rows;
    };
    const AttentionSequence sequence{0, count, 0, pages.tables[0]};
    one.bytes = 6.0 * 2 * count * kKvHeads * kDim;  // float32 in, f16 out
    one.roofed = false;
    one.run = [&] { kv_append(cases.context, pages.view(), 0, part(k), part(v), {&sequence, 1}); };
    one.check = [&] {
        kv_append(cases.reference, expected.view(), 0, part(k), part(v), {&sequence, 1});
        KernelCheck check;
        RelativeError error;
        const auto* a = pages.memory.as<std::uint16_t>();
        const auto* b = expected.memory.as<std::uint16_t>();
        check.compared = pages.memory.bytes() / 2;
        for (std::size_t i = 0; i < check.compared; ++i) check.differing += a[i] != b[i] ? 1 : 0;
        for (int t = 0; t < count; ++t) {
            const BlockId block = pages.tables[0][static_cast<std::size_t>(t / kBlockTokens)];
            const auto* stored = reinterpret_cast<const std::uint16_t*>(
                pages.view().block(block) + pages.geometry.v_offset(0, 0));
            for (int d = 0; d < kDim; ++d)
                error.add(half_to_float(stored[t % kBlockTokens * kDim + d]), v.rows().row(t)[d]);
        }
        check.error = error.value();
        return check;
    };
    cases.use(one);
}

}  // namespace

void attention_cases(const KernelCases& cases) {
    for (int depth : {128, 512, 1024, 4096, 8000}) decode(cases, 1, depth, 0);
    for (int streams : {4, 16, 32}) decode(cases, streams, 512, 0);
    decode(cases, 16, 1100, 0);
    decode(cases, 16, 1100, 1024);
    for (int context : {128, 512, 2048, 8000}) prefill(cases, std::min(512, context), context);
    for (int count : {7, 37}) prefill(cases, count, 2048);
    for (int count : {1, 16, 512}) append(cases, count);
}

}  // namespace taproot::cli
