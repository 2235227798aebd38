// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "kernels/linear.h"
#include "worker/model/gguf.h"
#include "worker/model/loaded_model.h"
#include "worker/model/weight_store.h"

namespace taproot {

// kF32 dequantises every matrix: slow and large, for comparison with float32 references.
enum class WeightMode : std::uint8_t { kNative, kF32 };

// The kernels' name of a file's tensor type; none: we cannot run it.
std::optional<DType> find_dtype(const GgmlType& type);

// Matrices that read the same input, applied as one: their outputs lie side by side in a row. One
// PanelMatrix when their types agree (the usual case), else one each.
class StackedMatrix {
public:
    StackedMatrix() = default;
    explicit StackedMatrix(std::vector<PanelMatrix> parts);

    [[nodiscard]] int rows() const { return rows_; }  // output features of all parts
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] const std::vector<PanelMatrix>& parts() const { return parts_; }

private:
    std::vector<PanelMatrix> parts_;
    int rows_ = 0;
    std::size_t bytes_ = 0;
};

struct LayerWeights {
    std::vector<float> attention_norm;     // [embedding]
    StackedMatrix qkv;                     // [q heads, k heads, v heads] * head_dim x embedding
    StackedMatrix attention_out;           // embedding x heads * head_dim
    std::vector<float> feed_forward_norm;  // [embedding]
    StackedMatrix gate_up;                 // 2 * feed_forward x embedding
    StackedMatrix down;                    // embedding x feed_forward
};

// Everything a forward pass reads, repacked for the kernels. Immutable after load_weights().
struct Weights {
    WeightStore memory;     // of all matrices, in the order in which a step reads them
    PanelMatrix embedding;  // vocabulary x embedding
    std::vector<LayerWeights> layers;
    std::vector<float> output_norm;          // [embedding]
    std::optional<PanelMatrix> untied_head;  // absent: the embedding table is the head
    std::vector<float> rope_divisors;        // [rotary_dim / 2] or empty
    std::size_t bytes = 0;

    [[nodiscard]] const PanelMatrix& head() const { return untied_head ? *untied_head : embedding; }
};

// What load_weights() would put into a store, from the file's header and vectors alone; errors as
// there.
Result<WeightIdentity> plan_weights(const LoadedModel& model, WeightMode mode);

// Repacks all matrices (on the threads of `pool`, with a log line now and then) into `memory`,
// which is opened here if it was not, or takes what lies there ready, after a look at the first and
// last panel of every matrix. Every tensor of the file must be used and of the expected shape: a
// leftover means that we would compute another model. Errors: kUnsupported, kInvalidArgument,
// kUnavailable, each naming the tensor.
Result<Weights> load_weights(const LoadedModel& model, WeightMode mode, ForkJoin& pool,
                             WeightStore memory = WeightStore());

}  // namespace taproot
