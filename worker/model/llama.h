// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "worker/model/model_config.h"
#include "worker/model/row_scratch.h"
#include "worker/model/step_profile.h"
#include "worker/model/weights.h"

namespace taproot {

// The rows of one step, all sequences packed one after another.
struct PackedStep {
    std::span<const TokenId> tokens;          // [rows], in the vocabulary
    std::span<const std::int32_t> positions;  // [rows], below the rope table's length
    std::span<const AttentionSequence> sequences;
    std::span<const std::int32_t> wanted;  // rows whose logits are wanted, ascending
};

// A decoder of the Llama family (Llama, Mistral, SmolLM2): RMSNorm, rotary attention with grouped
// queries, SwiGLU. Holds the scratch of one step, so forward() allocates nothing.
// Every later token attends to the first ones, so their errors reach everything: rows of a
// sequence's first block enter quantised matrices with about 15 bits (quantize_remainders), all
// others with 8. Owner: one thread. Results of a row depend only on its sequence's tokens, never on
// the others in the step (kernels/README.md gives the canonical arithmetic). Method: Touvron et al.
// 2023, "Llama 2"; rotary pairs as GGUF stores them.
//
// Between two attentions a row meets no other row. Few rows (decode) go through that part together,
// every matrix cut over the threads; many rows (prefill) are cut into blocks, and a thread takes a
// block from attention to attention alone, everything in its cache (row_scratch.h):
//
//      few    norm | q k v | rope | append |      attention      | out | norm | gate up | ...
//      many   norm  q k v  rope  append     |     attention      | out  norm  gate up  swiglu  down
//                                          join                 join
class Llama {
public:
    // `weights` must outlive this. `threads`: of the contexts that forward() will get, at most.
    // Error: kUnavailable (no memory for the scratch).
    static Result<Llama> create(const ModelConfig& config, const Weights& weights,
                                int max_positions, int max_rows, int threads);

    // Computes up to max_rows() rows, appends their K and V to the cache, and writes the logits of
    // the wanted rows: logits is [wanted][vocabulary].
    // Cost: reads every weight once (once per block of rows where there are many); per layer 2
    // forks of the thread pool with many rows, about 9 with few.
    void forward(KernelContext& context, const KvView& kv, const PackedStep& step, Rows logits);

    [[nodiscard]] int max_rows() const { return max_rows_; }
    [[nodiscard]] int max_positions() const { return rope_.positions(); }
    [[nodiscard]] std::size_t scratch_bytes() const;

    // From now on every step adds to `profile`, which must outlive that; null (the default): none.
    void set_profile(StepProfile* profile) { profile_ = profile; }

private:
    // What one forward pass is about.
    struct Pass {
        KernelContext& context;
        const KvView& kv;
        const PackedStep& step;
    };
    // Rows [begin, begin + count) of the step, and what they need on their way to the next
    // attention: threads (all, or only the one that is here) and scratch.
    struct Block {
        KernelContext& context;
        RowScratch& scratch;
        int begin;
        int count;
    };

    Llama(const ModelConfig& config, const Weights& weights, RopeTable rope, int max_rows);

    // Calls part(Block) for all rows of the step: once, or for blocks of them side by side.
    template <typename Part>
    void for_rows(const Pass& pass, const Part& part);
    void prepare(const Pass& pass, const Block& block);
    void finish_parts();

    void before_attention(const Pass& pass, const Block& block, int layer);
    void attend(const Pass& pass, int layer);
    void after_attention(const Block& block, int layer);
    void feed_forward(const Block& block, const LayerWeights& layer);
    void gate_then_up(const Block& block, const LayerWeights& layer);
    void project_wanted(const Pass& pass, Rows logits);

    [[nodiscard]] Rows rows_of(ScratchMatrix& matrix, const Block& block);
    void normalize(const Block& block, ConstRows x, const std::vector<float>& weight, Rows out,
                   std::span<const PanelMatrix> readers);
    // out (+)= parts * x, side by side. Where a part is quantised, the block's scratch holds x.
    void multiply(const Block& block, std::span<const PanelMatrix> parts, ConstRows x, Rows out,
                  Accumulate accumulate);
    void mark(const Block& block, StepPart part) {
        if (profile_ != nullptr) block.scratch.clock.mark(part);
    }
    void count_kv_bytes(const KernelContext& context, const KvView& kv,
                        std::span<const AttentionSequence> sequences);

    ModelConfig config_;
    const Weights* weights_;
    RopeTable rope_;
    int max_rows_;
    ScratchMatrix hidden_;    // the residual stream
    ScratchMatrix qkv_;       // q heads, k heads, v heads
    ScratchMatrix attended_;  // heads * head_dim
    // By thread. The first holds max_rows rows, the others a block of them.
    std::vector<RowScratch> scratch_;
    std::unique_ptr<ForkJoin> alone_;  // the pool of a thread that takes a block through
    StepProfile* profile_ = nullptr;
};

}  // namespace taproot
