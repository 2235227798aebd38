// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "base/types.h"
#include "kernels/linear.h"
#include "worker/model/loaded_model.h"

namespace taproot::testing {

// The forward pass as a paper would write it, in double, one token after another, straight from the
// file's tensors: an independent opinion about what the model computes.
class NaiveLlama {
public:
    explicit NaiveLlama(const LoadedModel& model) : model_(model), config_(model.config) {
        keys_.resize(static_cast<std::size_t>(config_.layers));
        values_.resize(static_cast<std::size_t>(config_.layers));
    }

    // Logits after the next token.
    std::vector<double> step(TokenId token) {
        std::vector<double> x = row("token_embd", token);
        for (int layer = 0; layer < config_.layers; ++layer) {
            std::string blk = "blk." + std::to_string(layer) + ".";
            std::vector<double> a = normed(x, blk + "attn_norm");
            std::vector<double> q = multiply(blk + "attn_q", a), k = multiply(blk + "attn_k", a);
            rotate(q, config_.heads);
            rotate(k, config_.kv_heads);
            keys_[static_cast<std::size_t>(layer)].push_back(k);
            values_[static_cast<std::size_t>(layer)].push_back(multiply(blk + "attn_v", a));
            add(x, multiply(blk + "attn_output", attend(q, layer)));
            std::vector<double> f = normed(x, blk + "ffn_norm");
            std::vector<double> gate = multiply(blk + "ffn_gate", f);
            std::vector<double> up = multiply(blk + "ffn_up", f);
            for (std::size_t i = 0; i < gate.size(); ++i)
                gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
            add(x, multiply(blk + "ffn_down", gate));
        }
        ++position_;
        bool untied = model_.file.find_tensor("output.weight") != nullptr;
        auto logits = multiply(untied ? "output" : "token_embd", normed(x, "output_norm"));
        logits.resize(static_cast<std::size_t>(config_.vocabulary));
        return logits;
    }

private:
    std::vector<double> row(const std::string& name, std::int64_t index) const {
        const GgufTensor* tensor = model_.file.find_tensor(name + ".weight");
        auto columns = static_cast<std::int64_t>(tensor->columns());
        std::vector<float> out(static_cast<std::size_t>(columns));
        std::size_t row_bytes = tensor->bytes.size() / tensor->rows();
        dequantize(dtype(*tensor),
                   tensor->bytes.data() + static_cast<std::size_t>(index) * row_bytes, columns,
                   out.data());
        return {out.begin(), out.end()};
    }
    static DType dtype(const GgufTensor& tensor) {
        for (DType type : kDTypes)
            if (dtype_info(type).name == tensor.type->name) return type;
        return DType::kF32;
    }
    std::vector<double> multiply(const std::string& name, const std::vector<double>& x) const {
        const GgufTensor* tensor = model_.file.find_tensor(name + ".weight");
        std::vector<double> out;
        for (std::uint64_t r = 0; r < tensor->rows(); ++r) {
            std::vector<double> w = row(name, static_cast<std::int64_t>(r));
            double sum = 0;
            for (std::size_t i = 0; i < x.size(); ++i) sum += w[i] * x[i];
            out.push_back(sum);
        }
        return out;
    }
    std::vector<double> normed(const std::vector<double>& x, const std::string& name) const {
        std::vector<double> out = row(name, 0);
        double sum = 0;
        for (double value : x) sum += value * value;
        double root = std::sqrt(sum / static_cast<double>(x.size()) +
                                static_cast<double>(config_.norm_epsilon));
        for (std::size_t i = 0; i < x.size(); ++i) out[i] *= x[i] / root;
        return out;
    }
    void rotate(std::vector<double>& x, int heads) const {
        for (int head = 0; head < heads; ++head)
            for (int pair = 0; pair < config_.rotary_dim / 2; ++pair) {
                double angle =
                    position_ * std::pow(config_.rope_base, -2.0 * pair / config_.rotary_dim);
                double* at = &x[static_cast<std::size_t>(head * config_.head_dim + 2 * pair)];
                double a = at[0], b = at[1];
                at[0] = a * std::cos(angle) - b * std::sin(angle);
                at[1] = b * std::cos(angle) + a * std::sin(angle);
            }
    }
    std::vector<double> attend(const std::vector<double>& q, int layer) const {
        const auto& keys = keys_[static_cast<std::size_t>(layer)];
        const auto& values = values_[static_cast<std::size_t>(layer)];
        auto dim = static_cast<std::size_t>(config_.head_dim);
        std::vector<double> out(q.size(), 0.0);
        for (std::size_t head = 0; head < static_cast<std::size_t>(config_.heads); ++head) {
            std::size_t from =
                head / static_cast<std::size_t>(config_.heads / config_.kv_heads) * dim;
            std::vector<double> weights;
            double total = 0;
            for (const auto& k : keys) {
                double dot = 0;
                for (std::size_t i = 0; i < dim; ++i) dot += q[head * dim + i] * k[from + i];
                weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(dim))));
                total += weights.back();
            }
            for (std::size_t t = 0; t < keys.size(); ++t)
                for (std::size_t i = 0; i < dim; ++i)
                    out[head * dim + i] += weights[t] / total * values[t][from + i];
        }
        return out;
    }
    static void add(std::vector<double>& x, const std::vector<double>& y) {
        for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    }

    const LoadedModel& model_;
    const ModelConfig& config_;
    int position_ = 0;
    std::vector<std::vector<std::vector<double>>> keys_, values_;  // [layer][token][kv heads * dim]
};

}  // namespace taproot::testing
