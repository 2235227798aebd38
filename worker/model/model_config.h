// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"
#include "kernels/elementwise.h"
#include "worker/model/gguf.h"

namespace taproot {

// The numbers that define a decoder, validated: whoever holds one may multiply and index freely.
struct ModelConfig {
    std::string architecture;  // "llama"
    std::string name;          // general.name, may be empty
    int layers = 0;
    int embedding = 0;     // width of the residual stream
    int feed_forward = 0;  // width of gate and up
    int heads = 0;
    int kv_heads = 0;  // divides heads
    int head_dim = 0;  // a multiple of 16
    int context = 0;   // positions the model was trained for
    // Tokens that have a text. Embedding rows beyond it are padding: they are not loaded, so that a
    // padded id has no logit and no embedding.
    int vocabulary = 0;
    float norm_epsilon = 0.0f;
    int rotary_dim = 0;  // even, <= head_dim
    double rope_base = 10000.0;
    RopeScaling rope_scaling;
    RopePairs rope_pairs = RopePairs::kInterleaved;
};

// From metadata and the shape of the embedding table. Errors name the key, its value and the
// allowed range; kUnsupported for another architecture or a feature of it that we do not run.
Result<ModelConfig> read_model_config(const GgufFile& file);

}  // namespace taproot
