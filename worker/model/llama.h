// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/linear.h"
#include "kernels/work_ranges.h"
#include "worker/model/model_config.h"
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
class Llama {
public:
    // `weights` must outlive this. Error: kUnavailable (no memory for the scratch).
    static Result<Llama> create(const ModelConfig& config, const Weights& weights,
                                int max_positions, int max_rows);

    // Computes up to max_rows() rows, appends their K and V to the cache, and writes the logits of
    // the wanted rows: logits is [wanted][vocabulary].
    // Cost: reads every weight once; about 8 forks of the thread pool per layer.
    void forward(KernelContext& context, const KvView& kv, const PackedStep& step, Rows logits);

    [[nodiscard]] int max_rows() const { return max_rows_; }
    [[nodiscard]] int max_positions() const { return rope_.positions(); }
    [[nodiscard]] std::size_t scratch_bytes() const;

    // From now on every step adds to `profile`, which must outlive that; null (the default): none.
    void set_profile(StepProfile* profile) { profile_ = profile; }

private:
    struct Matrix {  // scratch: [max_rows][stride]
        AlignedBuffer buffer;
        int columns = 0;
        std::int64_t stride = 0;
        [[nodiscard]] Rows rows(int count) { return {buffer.as<float>(), stride, count, columns}; }
    };

    Llama(const ModelConfig& config, const Weights& weights, RopeTable rope, int max_rows);

    void attend(KernelContext& context, const KvView& kv, const PackedStep& step, int layer);
    void feed_forward(KernelContext& context, const LayerWeights& layer, int rows);
    void normalize(KernelContext& context, ConstRows x, const std::vector<float>& weight, Rows out,
                   std::span<const PanelMatrix> readers);
    // out (+)= parts * x, side by side. Where a part is quantised, quantized_ holds x. `precise`:
    // rows of x that enter quantised parts with their remainders too.
    void multiply(KernelContext& context, std::span<const PanelMatrix> parts, ConstRows x, Rows out,
                  Accumulate accumulate, std::span<const Range> precise);
    void mark(StepPart part) {
        if (profile_ != nullptr) profile_->mark(part);
    }
    void count_kv_bytes(const KernelContext& context, const KvView& kv,
                        std::span<const AttentionSequence> sequences);

    ModelConfig config_;
    const Weights* weights_;
    RopeTable rope_;
    int max_rows_;
    Matrix hidden_;    // the residual stream
    Matrix normed_;    // input of qkv, gate/up and the head
    Matrix qkv_;       // q heads, k heads, v heads
    Matrix attended_;  // heads * head_dim
    Matrix gate_up_;   // gate, then up
    QuantizedRows quantized_;
    QuantizedRows remainders_;
    std::vector<Range> precise_;         // rows of the step within the first block
    std::vector<Range> precise_wanted_;  // likewise, of the wanted rows
    StepProfile* profile_ = nullptr;
};

}  // namespace taproot
