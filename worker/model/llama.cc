// SPDX-License-Identifier: Apache-2.0
#include "worker/model/llama.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"
#include "base/units.h"

namespace taproot {
namespace {

// Columns [begin, begin + count) of the same rows.
Rows slice(Rows rows, int begin, int count) {
    return {rows.data + begin, rows.stride, rows.rows, count};
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
    Rows hidden = hidden_.rows(rows);
    embed_rows(context, weights_->embedding, step.tokens, hidden);
    for (int layer = 0; layer < config_.layers; ++layer) {
        attend(context, kv, step, layer);
        feed_forward(context, weights_->layers[static_cast<std::size_t>(layer)], rows);
    }

    int wanted = static_cast<int>(step.wanted.size());
    if (wanted == 0) return;
    Rows last = normed_.rows(wanted);
    for (int i = 0; i < wanted; ++i)
        std::copy_n(hidden.row(step.wanted[static_cast<std::size_t>(i)]), last.columns,
                    last.row(i));
    rmsnorm(context, last, weights_->output_norm.data(), config_.norm_epsilon, last);
    const PanelMatrix& head = weights_->head();
    bool quantized = dtype_info(head.dtype()).quantized;
    if (quantized) quantize_rows(context, last, &quantized_);
    linear(context, head, {last, quantized ? &quantized_ : nullptr}, logits);
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

    rmsnorm(context, hidden, weights.attention_norm.data(), config_.norm_epsilon, normed);
    apply(context, weights.qkv, normed, qkv, Accumulate::kOverwrite);
    // q and k heads are neighbours: one call rotates both.
    rope(context, rope_, config_.rope_pairs, slice(qkv, 0, queries + keys),
         config_.heads + config_.kv_heads, config_.head_dim, step.positions);
    kv_append(context, kv, layer, k, v, step.sequences);
    float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
    attention(context, kv, layer, config_.heads, scale, q, attended, step.sequences);
    apply(context, weights.attention_out, attended, hidden, Accumulate::kAdd);
}

// hidden += Down * (silu(Gate * x) * (Up * x)), x = norm(hidden).
void Llama::feed_forward(KernelContext& context, const LayerWeights& weights, int rows) {
    Rows hidden = hidden_.rows(rows), normed = normed_.rows(rows), gate_up = gate_up_.rows(rows);
    Rows gate = slice(gate_up, 0, config_.feed_forward);
    Rows up = slice(gate_up, config_.feed_forward, config_.feed_forward);

    rmsnorm(context, hidden, weights.feed_forward_norm.data(), config_.norm_epsilon, normed);
    apply(context, weights.gate_up, normed, gate_up, Accumulate::kOverwrite);
    swiglu(context, gate, up, gate);
    apply(context, weights.down, gate, hidden, Accumulate::kAdd);
}

void Llama::apply(KernelContext& context, const StackedMatrix& m, ConstRows x, Rows out,
                  Accumulate accumulate) {
    if (m.quantized()) quantize_rows(context, x, &quantized_);
    LinearInput in{x, m.quantized() ? &quantized_ : nullptr};
    int begin = 0;
    for (const PanelMatrix& part : m.parts()) {
        linear(context, part, in, slice(out, begin, part.rows()), accumulate);
        begin += part.rows();
    }
}

}  // namespace taproot
