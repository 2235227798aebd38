// SPDX-License-Identifier: Apache-2.0
#include "worker/model/llama.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/units.h"
#include "kernels/attention_plan.h"
#include "kernels/fused.h"

namespace taproot {
namespace {

// Columns [begin, begin + count) of the same rows.
Rows slice(Rows rows, int begin, int count) {
    return {rows.data + begin, rows.stride, rows.rows, count};
}

// Adds `row` to the last range when it continues it.
void add_row(int row, std::vector<Range>* ranges) {
    if (!ranges->empty() && ranges->back().end == row)
        ++ranges->back().end;
    else
        ranges->push_back({row, row + 1});
}

bool any_quantized(std::span<const PanelMatrix> matrices) {
    return std::any_of(matrices.begin(), matrices.end(),
                       [](const PanelMatrix& matrix) { return matrix.quantized(); });
}

Rows rows_of(Rows all, int begin, int end) {
    return {all.row(begin), all.stride, end - begin, all.columns};
}

}  // namespace

Result<Llama> Llama::create(const ModelConfig& config, const Weights& weights, int max_positions,
                            int max_rows) {
    TAPROOT_ASSERT(max_rows > 0 && max_positions > 0);
    RopeTable rope(config.rotary_dim, config.rope_base, config.rope_scaling, weights.rope_divisors,
                   max_positions);
    Llama out(config, weights, std::move(rope), max_rows);
    for (Matrix* matrix : {&out.hidden_, &out.normed_, &out.qkv_, &out.attended_, &out.gate_up_}) {
        matrix->stride = round_up(matrix->columns, 16);
        matrix->buffer = AlignedBuffer(static_cast<std::size_t>(matrix->stride) * sizeof(float) *
                                       static_cast<std::size_t>(max_rows));
        if (matrix->buffer.data() == nullptr)
            return Error{ErrorCode::kUnavailable, "no memory for the scratch of a step", "model"};
    }
    return out;
}

Llama::Llama(const ModelConfig& config, const Weights& weights, RopeTable rope, int max_rows)
    : config_(config), weights_(&weights), rope_(std::move(rope)), max_rows_(max_rows) {
    hidden_.columns = config.embedding;
    normed_.columns = config.embedding;
    qkv_.columns = (config.heads + 2 * config.kv_heads) * config.head_dim;
    attended_.columns = config.heads * config.head_dim;
    gate_up_.columns = 2 * config.feed_forward;
    // The widest input a quantised matrix reads, so that later resizes find the memory in place.
    int widest = std::max({config.embedding, attended_.columns, config.feed_forward});
    quantized_.resize(max_rows, round_up(widest, 32));
    remainders_.resize(max_rows, round_up(widest, 32));
    precise_.reserve(static_cast<std::size_t>(max_rows));
    precise_wanted_.reserve(static_cast<std::size_t>(max_rows));
}

std::size_t Llama::scratch_bytes() const {
    std::size_t bytes = 0;
    for (const Matrix* matrix : {&hidden_, &normed_, &qkv_, &attended_, &gate_up_})
        bytes += matrix->buffer.bytes();
    return bytes;
}

void Llama::forward(KernelContext& context, const KvView& kv, const PackedStep& step, Rows logits) {
    int rows = static_cast<int>(step.tokens.size());
    TAPROOT_ASSERT(rows <= max_rows_ && step.positions.size() == step.tokens.size());
    precise_.clear();
    for (int row = 0; row < rows; ++row)
        if (step.positions[static_cast<std::size_t>(row)] < kBlockTokens) add_row(row, &precise_);
    Rows hidden = hidden_.rows(rows);
    if (profile_ != nullptr) {
        count_kv_bytes(context, kv, step.sequences);
        profile_->begin();
    }
    embed_rows(context, weights_->embedding, step.tokens, hidden);
    mark(StepPart::kEmbed);
    for (int layer = 0; layer < config_.layers; ++layer) {
        attend(context, kv, step, layer);
        feed_forward(context, weights_->layers[static_cast<std::size_t>(layer)], rows);
    }

    int wanted = static_cast<int>(step.wanted.size());
    if (wanted == 0) return;
    Rows last = normed_.rows(wanted);
    precise_wanted_.clear();
    for (int i = 0; i < wanted; ++i) {
        std::int32_t row = step.wanted[static_cast<std::size_t>(i)];
        std::copy_n(hidden.row(row), last.columns, last.row(i));
        if (step.positions[static_cast<std::size_t>(row)] < kBlockTokens)
            add_row(i, &precise_wanted_);
    }
    std::span<const PanelMatrix> head{&weights_->head(), 1};
    normalize(context, last, weights_->output_norm, last, head);
    mark(StepPart::kNorm);
    multiply(context, head, last, logits, Accumulate::kOverwrite, precise_wanted_);
    mark(StepPart::kHead);
}

// hidden += O * attention(rope(Q), rope(K), V), all of norm(hidden).
void Llama::attend(KernelContext& context, const KvView& kv, const PackedStep& step, int layer) {
    const LayerWeights& weights = weights_->layers[static_cast<std::size_t>(layer)];
    int rows = static_cast<int>(step.tokens.size());
    int queries = config_.heads * config_.head_dim;
    int keys = config_.kv_heads * config_.head_dim;
    Rows hidden = hidden_.rows(rows), normed = normed_.rows(rows);
    Rows qkv = qkv_.rows(rows), attended = attended_.rows(rows);
    Rows q = slice(qkv, 0, queries), k = slice(qkv, queries, keys);
    Rows v = slice(qkv, queries + keys, keys);

    normalize(context, hidden, weights.attention_norm, normed, weights.qkv.parts());
    mark(StepPart::kNorm);
    multiply(context, weights.qkv.parts(), normed, qkv, Accumulate::kOverwrite, precise_);
    mark(StepPart::kQkv);
    // q and k heads are neighbours: one call rotates both.
    rope(context, rope_, config_.rope_pairs, slice(qkv, 0, queries + keys),
         config_.heads + config_.kv_heads, config_.head_dim, step.positions);
    kv_append(context, kv, layer, k, v, step.sequences);
    mark(StepPart::kRope);
    float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
    attention(context, kv, layer, config_.heads, scale, q, attended, step.sequences);
    mark(StepPart::kAttention);
    if (any_quantized(weights.attention_out.parts())) quantize_rows(context, attended, &quantized_);
    mark(StepPart::kNorm);
    multiply(context, weights.attention_out.parts(), attended, hidden, Accumulate::kAdd, precise_);
    mark(StepPart::kOut);
}

// hidden += Down * (silu(Gate * x) * (Up * x)), x = norm(hidden).
void Llama::feed_forward(KernelContext& context, const LayerWeights& weights, int rows) {
    Rows hidden = hidden_.rows(rows), normed = normed_.rows(rows), gate_up = gate_up_.rows(rows);
    Rows gate = slice(gate_up, 0, config_.feed_forward);
    Rows up = slice(gate_up, config_.feed_forward, config_.feed_forward);

    normalize(context, hidden, weights.feed_forward_norm, normed, weights.gate_up.parts());
    mark(StepPart::kNorm);
    multiply(context, weights.gate_up.parts(), normed, gate_up, Accumulate::kOverwrite, precise_);
    mark(StepPart::kGateUp);
    if (any_quantized(weights.down.parts()))
        swiglu_quantized(context, gate, up, gate, &quantized_);
    else
        swiglu(context, gate, up, gate);
    mark(StepPart::kSwiglu);
    multiply(context, weights.down.parts(), gate, hidden, Accumulate::kAdd, precise_);
    mark(StepPart::kDown);
}

// out = norm(x), quantised too when one of `readers` wants that.
void Llama::normalize(KernelContext& context, ConstRows x, const std::vector<float>& weight,
                      Rows out, std::span<const PanelMatrix> readers) {
    if (any_quantized(readers))
        rmsnorm_quantized(context, x, weight.data(), config_.norm_epsilon, out, &quantized_);
    else
        rmsnorm(context, x, weight.data(), config_.norm_epsilon, out);
}

void Llama::multiply(KernelContext& context, std::span<const PanelMatrix> parts, ConstRows x,
                     Rows out, Accumulate accumulate, std::span<const Range> precise) {
    auto for_parts = [&](LinearInput in, Rows to, Accumulate how, bool only_quantized) {
        int begin = 0;
        for (const PanelMatrix& part : parts) {
            if (!only_quantized || part.quantized())
                linear(context, part, in, slice(to, begin, part.rows()), how);
            begin += part.rows();
        }
    };
    for_parts({x, &quantized_}, out, accumulate, false);
    if (!any_quantized(parts)) return;
    for (const Range& range : precise) {
        ConstRows rows{x.row(range.begin), x.stride, range.end - range.begin, x.columns};
        quantize_remainders(context, rows, quantized_, range.begin, &remainders_);
        for_parts({rows, &remainders_}, rows_of(out, range.begin, range.end), Accumulate::kAdd,
                  true);
    }
}

// The plan that attention() makes for itself, made once more: measuring costs only who measures.
void Llama::count_kv_bytes(const KernelContext& context, const KvView& kv,
                           std::span<const AttentionSequence> sequences) {
    AttentionPlan plan;
    plan.build(kv.geometry, config_.heads, context.pool.threads(), sequences);
    profile_->kv_bytes_read += plan.kv_bytes_read(sequences) * config_.layers;
    profile_->kv_bytes_minimum += plan.kv_bytes_minimum(sequences) * config_.layers;
}

}  // namespace taproot
