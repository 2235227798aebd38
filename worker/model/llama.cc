// SPDX-License-Identifier: Apache-2.0
#include "worker/model/llama.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/assert.h"
#include "base/units.h"
#include "kernels/attention_plan.h"
#include "kernels/fused.h"
#include "kernels/work_ranges.h"

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

Rows slice_rows(Rows all, int begin, int count) {
    return {all.row(begin), all.stride, count, all.columns};
}

// Rows that a thread takes through by itself. Fewer would unpack the weights too often; more leave
// the threads waiting for the one that the system slowed, and the L2 cache: 32 was best or equal on
// a busy machine, 32 to 128 alike on a quiet one.
constexpr int kBlockRows = 32;

// Rows per block; all of them when cutting is not worth it.
int block_rows(int rows, int threads) {
    if (rows <= kBlockRows || (threads > 1 && rows < 2 * kBlockRows * threads)) return rows;
    int blocks = round_up((rows + kBlockRows - 1) / kBlockRows, threads);
    return (rows + blocks - 1) / blocks;
}

}  // namespace

Result<Llama> Llama::create(const ModelConfig& config, const Weights& weights, int max_positions,
                            int max_rows, int threads) {
    TAPROOT_ASSERT(max_rows > 0 && max_positions > 0 && threads > 0);
    RopeTable rope(config.rotary_dim, config.rope_base, config.rope_scaling, weights.rope_divisors,
                   max_positions);
    Llama out(config, weights, std::move(rope), max_rows);
    int queries = config.heads * config.head_dim;
    // The widest input a quantised matrix reads.
    int widest = round_up(std::max({config.embedding, queries, config.feed_forward}), 32);
    bool fits = out.hidden_.allocate(max_rows, config.embedding) &&
                out.qkv_.allocate(max_rows, queries + 2 * config.kv_heads * config.head_dim) &&
                out.attended_.allocate(max_rows, queries);
    out.scratch_ = std::vector<RowScratch>(static_cast<std::size_t>(threads));
    for (RowScratch& scratch : out.scratch_) {
        bool first = &scratch == &out.scratch_.front();
        int rows = first ? max_rows : std::min(max_rows, kBlockRows);
        fits = fits && scratch.normed.allocate(rows, config.embedding) &&
               scratch.gate_up.allocate(rows, 2 * config.feed_forward);
        scratch.quantized.resize(rows, widest);  // later resizes find the memory in place
        scratch.remainders.resize(rows, widest);
        scratch.gated.resize(rows, widest);
        scratch.precise.reserve(static_cast<std::size_t>(rows));
        scratch.sequences.reserve(static_cast<std::size_t>(rows));
    }
    if (!fits)
        return Error{ErrorCode::kUnavailable, "no memory for the scratch of a step", "model"};
    return out;
}

Llama::Llama(const ModelConfig& config, const Weights& weights, RopeTable rope, int max_rows)
    : config_(config),
      weights_(&weights),
      rope_(std::move(rope)),
      max_rows_(max_rows),
      alone_(std::make_unique<ForkJoin>(1)) {}

std::size_t Llama::scratch_bytes() const {
    std::size_t bytes = 0;
    for (const ScratchMatrix* matrix : {&hidden_, &qkv_, &attended_})
        bytes += matrix->buffer.bytes();
    for (const RowScratch& scratch : scratch_) bytes += scratch.bytes();
    return bytes;
}

void Llama::forward(KernelContext& context, const KvView& kv, const PackedStep& step, Rows logits) {
    int rows = static_cast<int>(step.tokens.size());
    TAPROOT_ASSERT(rows <= max_rows_ && step.positions.size() == step.tokens.size());
    TAPROOT_ASSERT(context.pool.threads() <= static_cast<int>(scratch_.size()));
    if (profile_ != nullptr) {
        count_kv_bytes(context, kv, step.sequences);
        profile_->begin();
    }
    Pass pass{context, kv, step};
    for (int layer = 0; layer < config_.layers; ++layer) {
        for_rows(pass, [&](const Block& block) {
            if (layer == 0) {
                auto tokens = step.tokens.subspan(static_cast<std::size_t>(block.begin),
                                                  static_cast<std::size_t>(block.count));
                embed_rows(block.context, weights_->embedding, tokens, rows_of(hidden_, block));
                mark(block, StepPart::kEmbed);
            } else {
                after_attention(block, layer - 1);
            }
            before_attention(pass, block, layer);
        });
        attend(pass, layer);
    }
    for_rows(pass, [&](const Block& block) { after_attention(block, config_.layers - 1); });
    if (!step.wanted.empty()) project_wanted(pass, logits);
}

template <typename Part>
void Llama::for_rows(const Pass& pass, const Part& part) {
    int rows = static_cast<int>(pass.step.tokens.size());
    int threads = pass.context.pool.threads();
    int block = block_rows(rows, threads);
    auto run = [&](KernelContext& context, RowScratch& scratch, int begin) {
        Block here{context, scratch, begin, std::min(block, rows - begin)};
        prepare(pass, here);
        part(here);
    };
    if (block >= rows) {
        run(pass.context, scratch_.front(), 0);
    } else {
        KernelContext alone{pass.context.ops, *alone_};
        WorkRanges ranges((rows + block - 1) / block, threads, 1);
        pass.context.pool.share([&](int thread) {
            RowScratch& scratch = scratch_[static_cast<std::size_t>(thread)];
            ranges.work(thread, [&](int index) { run(alone, scratch, index * block); });
        });
    }
    if (profile_ != nullptr) finish_parts();
}

// Notes which rows of the block are precise, and which parts of sequences it holds.
void Llama::prepare(const Pass& pass, const Block& block) {
    if (profile_ != nullptr) block.scratch.clock.begin();
    std::vector<Range>& precise = block.scratch.precise;
    precise.clear();
    for (int i = 0; i < block.count; ++i) {
        std::int32_t position = pass.step.positions[static_cast<std::size_t>(block.begin + i)];
        if (position < kBlockTokens) add_row(i, &precise);
    }
    std::vector<AttentionSequence>& parts = block.scratch.sequences;
    parts.clear();
    for (const AttentionSequence& sequence : pass.step.sequences) {
        int begin = std::max(sequence.row, block.begin);
        int end = std::min(sequence.row + sequence.count, block.begin + block.count);
        if (begin >= end) continue;
        parts.push_back({begin - block.begin, end - begin,
                         sequence.position + (begin - sequence.row), sequence.blocks});
    }
}

void Llama::finish_parts() {
    std::array<double, kStepParts> worked{};
    for (RowScratch& scratch : scratch_) {
        std::array<double, kStepParts> of_thread = scratch.clock.take();
        for (std::size_t i = 0; i < kStepParts; ++i) worked[i] += of_thread[i];
    }
    profile_->share(worked);
}

Rows Llama::rows_of(ScratchMatrix& matrix, const Block& block) {
    return slice_rows(matrix.rows(max_rows_), block.begin, block.count);
}

// q, k, v = norm(hidden); q and k rotated; k and v into the cache.
void Llama::before_attention(const Pass& pass, const Block& block, int layer) {
    const LayerWeights& weights = weights_->layers[static_cast<std::size_t>(layer)];
    int queries = config_.heads * config_.head_dim;
    int keys = config_.kv_heads * config_.head_dim;
    Rows normed = block.scratch.normed.rows(block.count), qkv = rows_of(qkv_, block);

    normalize(block, rows_of(hidden_, block), weights.attention_norm, normed, weights.qkv.parts());
    mark(block, StepPart::kNorm);
    multiply(block, weights.qkv.parts(), normed, qkv, Accumulate::kOverwrite);
    mark(block, StepPart::kQkv);
    // q and k heads are neighbours: one call rotates both.
    auto positions = pass.step.positions.subspan(static_cast<std::size_t>(block.begin),
                                                 static_cast<std::size_t>(block.count));
    rope(block.context, rope_, config_.rope_pairs, slice(qkv, 0, queries + keys),
         config_.heads + config_.kv_heads, config_.head_dim, positions);
    kv_append(block.context, pass.kv, layer, slice(qkv, queries, keys),
              slice(qkv, queries + keys, keys), block.scratch.sequences);
    mark(block, StepPart::kRope);
}

void Llama::attend(const Pass& pass, int layer) {
    int rows = static_cast<int>(pass.step.tokens.size());
    float scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim));
    Rows q = slice(qkv_.rows(rows), 0, config_.heads * config_.head_dim);
    attention(pass.context, pass.kv, layer, config_.heads, scale, q, attended_.rows(rows),
              pass.step.sequences);
    if (profile_ != nullptr) profile_->mark(StepPart::kAttention);
}

// hidden += O * attended, then the feed-forward layer.
void Llama::after_attention(const Block& block, int layer) {
    const LayerWeights& weights = weights_->layers[static_cast<std::size_t>(layer)];
    Rows attended = rows_of(attended_, block);
    if (any_quantized(weights.attention_out.parts()))
        quantize_rows(block.context, attended, &block.scratch.quantized);
    mark(block, StepPart::kNorm);
    multiply(block, weights.attention_out.parts(), attended, rows_of(hidden_, block),
             Accumulate::kAdd);
    mark(block, StepPart::kOut);
    feed_forward(block, weights);
}

// hidden += Down * (silu(Gate * x) * (Up * x)), x = norm(hidden).
void Llama::feed_forward(const Block& block, const LayerWeights& weights) {
    RowScratch& scratch = block.scratch;
    Rows hidden = rows_of(hidden_, block), normed = scratch.normed.rows(block.count);
    Rows h = slice(scratch.gate_up.rows(block.count), 0, config_.feed_forward);

    normalize(block, hidden, weights.feed_forward_norm, normed, weights.gate_up.parts());
    mark(block, StepPart::kNorm);
    std::span<const PanelMatrix> parts = weights.gate_up.parts();
    if (parts.size() == 1 && gate_up_fits(parts[0]) && any_quantized(weights.down.parts())) {
        if (parts[0].quantized()) {
            for (const Range& range : scratch.precise)
                quantize_remainders(block.context, normed, scratch.quantized, range,
                                    &scratch.remainders);
        }
        gate_up_quantized(block.context, parts[0], {normed, &scratch.quantized}, scratch.precise,
                          scratch.remainders, h, &scratch.gated);
        std::swap(scratch.gated, scratch.quantized);
        mark(block, StepPart::kGateUp);
    } else {
        gate_then_up(block, weights);
    }
    multiply(block, weights.down.parts(), h, hidden, Accumulate::kAdd);
    mark(block, StepPart::kDown);
}

// The same step by step, for matrices that do not go through as one.
void Llama::gate_then_up(const Block& block, const LayerWeights& weights) {
    Rows normed = block.scratch.normed.rows(block.count);
    Rows gate_up = block.scratch.gate_up.rows(block.count);
    Rows gate = slice(gate_up, 0, config_.feed_forward);
    Rows up = slice(gate_up, config_.feed_forward, config_.feed_forward);
    multiply(block, weights.gate_up.parts(), normed, gate_up, Accumulate::kOverwrite);
    mark(block, StepPart::kGateUp);
    if (any_quantized(weights.down.parts()))
        swiglu_quantized(block.context, gate, up, gate, &block.scratch.quantized);
    else
        swiglu(block.context, gate, up, gate);
    mark(block, StepPart::kSwiglu);
}

// logits = Head * norm(hidden), of the wanted rows.
void Llama::project_wanted(const Pass& pass, Rows logits) {
    int wanted = static_cast<int>(pass.step.wanted.size());
    RowScratch& scratch = scratch_.front();
    Block block{pass.context, scratch, 0, wanted};
    if (profile_ != nullptr) scratch.clock.begin();
    Rows hidden = hidden_.rows(max_rows_), last = scratch.normed.rows(wanted);
    scratch.precise.clear();
    for (int i = 0; i < wanted; ++i) {
        std::int32_t row = pass.step.wanted[static_cast<std::size_t>(i)];
        std::copy_n(hidden.row(row), last.columns, last.row(i));
        if (pass.step.positions[static_cast<std::size_t>(row)] < kBlockTokens)
            add_row(i, &scratch.precise);
    }
    std::span<const PanelMatrix> head{&weights_->head(), 1};
    normalize(block, last, weights_->output_norm, last, head);
    mark(block, StepPart::kNorm);
    multiply(block, head, last, logits, Accumulate::kOverwrite);
    mark(block, StepPart::kHead);
    if (profile_ != nullptr) finish_parts();
}

// out = norm(x), quantised too when one of `readers` wants that.
void Llama::normalize(const Block& block, ConstRows x, const std::vector<float>& weight, Rows out,
                      std::span<const PanelMatrix> readers) {
    if (any_quantized(readers))
        rmsnorm_quantized(block.context, x, weight.data(), config_.norm_epsilon, out,
                          &block.scratch.quantized);
    else
        rmsnorm(block.context, x, weight.data(), config_.norm_epsilon, out);
}

void Llama::multiply(const Block& block, std::span<const PanelMatrix> parts, ConstRows x, Rows out,
                     Accumulate accumulate) {
    QuantizedRows& quantized = block.scratch.quantized;
    QuantizedRows& remainders = block.scratch.remainders;
    auto for_parts = [&](LinearInput in, Rows to, Accumulate how, bool only_quantized) {
        int begin = 0;
        for (const PanelMatrix& part : parts) {
            if (!only_quantized || part.quantized())
                linear(block.context, part, in, slice(to, begin, part.rows()), how);
            begin += part.rows();
        }
    };
    for_parts({x, &quantized}, out, accumulate, false);
    if (!any_quantized(parts)) return;
    for (const Range& range : block.scratch.precise) {
        int count = range.end - range.begin;
        ConstRows rows{x.row(range.begin), x.stride, count, x.columns};
        quantize_remainders(block.context, x, quantized, range, &remainders);
        for_parts({rows, &remainders, range.begin}, slice_rows(out, range.begin, count),
                  Accumulate::kAdd, true);
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
