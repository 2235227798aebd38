// SPDX-License-Identifier: Apache-2.0
#include "worker/model/weights.h"

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>

#include "kernels/aligned_buffer.h"

namespace taproot {
namespace {

// "F32, F16, ... and IQ4_XS"
std::string supported_types() {
    std::string out;
    for (DType dtype : kDTypes) {
        if (!out.empty()) out += dtype == std::end(kDTypes)[-1] ? " and " : ", ";
        out += dtype_info(dtype).name;
    }
    return out;
}

class Loader {
public:
    Loader(const GgufFile& file, WeightMode mode, ForkJoin& pool)
        : file_(file), mode_(mode), pool_(pool) {}

    struct Wanted {
        std::string name;
        int rows;
    };

    Result<StackedMatrix> stack(int columns, const std::vector<Wanted>& wanted) {
        std::vector<PanelMatrix> parts;
        for (std::size_t begin = 0; begin < wanted.size();) {
            TAPROOT_TRY(DType dtype, dtype_of(wanted[begin].name));
            std::size_t end = begin;
            std::vector<Found> group;
            for (; end < wanted.size(); ++end) {
                TAPROOT_TRY(Found found, find(wanted[end], columns, false));
                if (found.dtype != dtype) break;
                group.push_back(found);
            }
            TAPROOT_TRY(PanelMatrix part, pack(columns, group));
            parts.push_back(std::move(part));
            begin = end;
        }
        return StackedMatrix(std::move(parts));
    }

    // The first `wanted.rows` rows; further ones are padding of the vocabulary.
    Result<PanelMatrix> table(int columns, const Wanted& wanted) {
        TAPROOT_TRY(Found found, find(wanted, columns, true));
        return pack(columns, {found});
    }

    Result<std::vector<float>> vector(const std::string& name, int length) {
        TAPROOT_TRY(Found found, find({name, 1}, length, false));
        if (found.dtype != DType::kF32 && found.dtype != DType::kF16 && found.dtype != DType::kBF16)
            return file_.tensor_error(ErrorCode::kUnsupported, name, "is a quantised vector");
        std::vector<float> out(static_cast<std::size_t>(length));
        dequantize(found.dtype, found.data, length, out.data());
        return out;
    }

    [[nodiscard]] bool has(const std::string& name) const {
        return file_.find_tensor(name) != nullptr;
    }

    Result<void> check_all_used() const {
        for (const GgufTensor& tensor : file_.tensors())
            if (!used_.contains(tensor.name))
                return file_.tensor_error(ErrorCode::kUnsupported, tensor.name,
                                          "is not part of the llama architecture that we run");
        return {};
    }

private:
    struct Found {
        DType dtype;
        const std::byte* data;
        int rows;
        std::string_view name;
    };

    Result<DType> dtype_of(const std::string& name) const {
        const GgufTensor* tensor = file_.find_tensor(name);
        if (tensor == nullptr)
            return file_.tensor_error(ErrorCode::kInvalidArgument, name, "is missing");
        auto dtype = find_dtype(*tensor->type);
        if (!dtype)
            return file_.tensor_error(ErrorCode::kUnsupported, name,
                                      fmt::format("is of type {}; {} are supported",
                                                  tensor->type->name, supported_types()));
        return *dtype;
    }

    Result<Found> find(const Wanted& wanted, int columns, bool more_rows) {
        TAPROOT_TRY(DType dtype, dtype_of(wanted.name));
        const GgufTensor* tensor = file_.find_tensor(wanted.name);
        auto rows = static_cast<std::uint64_t>(wanted.rows);
        bool rows_fit = more_rows ? tensor->rows() >= rows : tensor->rows() == rows;
        if (tensor->columns() != static_cast<std::uint64_t>(columns) || !rows_fit ||
            tensor->dims_count > 2)
            return file_.tensor_error(ErrorCode::kInvalidArgument, wanted.name,
                                      fmt::format("has shape {}, [{}, {}] is expected",
                                                  tensor->shape(), columns, wanted.rows));
        used_.insert(tensor->name);
        return Found{dtype, tensor->bytes.data(), wanted.rows, tensor->name};
    }

    Result<PanelMatrix> pack(int columns, const std::vector<Found>& group) {
        bool widen = mode_ == WeightMode::kF32 && group[0].dtype != DType::kF32;
        std::vector<PanelMatrix::Source> sources;
        std::vector<AlignedBuffer> widened;
        for (const Found& found : group) {
            const std::byte* data = found.data;
            if (widen) {
                std::int64_t count = std::int64_t{found.rows} * columns;
                widened.emplace_back(static_cast<std::size_t>(count) * sizeof(float));
                if (widened.back().data() == nullptr)
                    return file_.tensor_error(ErrorCode::kUnavailable, found.name,
                                              "no memory to dequantise it");
                dequantize(found.dtype, found.data, count, widened.back().as<float>());
                data = widened.back().data();
            }
            sources.push_back({data, found.rows});
        }
        auto packed =
            PanelMatrix::pack(widen ? DType::kF32 : group[0].dtype, columns, sources, pool_);
        if (!packed)
            return file_.tensor_error(packed.error().code, group[0].name,
                                      packed.error().describe());
        return packed;
    }

    const GgufFile& file_;
    WeightMode mode_;
    ForkJoin& pool_;
    std::unordered_set<std::string_view> used_;
};

Result<LayerWeights> load_layer(Loader& loader, const ModelConfig& config, int layer) {
    auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}.weight", layer, part); };
    int queries = config.heads * config.head_dim;
    int keys = config.kv_heads * config.head_dim;
    int ff = config.feed_forward;
    LayerWeights out;
    TAPROOT_TRY(out.attention_norm, loader.vector(name("attn_norm"), config.embedding));
    TAPROOT_TRY(out.qkv, loader.stack(config.embedding, {{name("attn_q"), queries},
                                                         {name("attn_k"), keys},
                                                         {name("attn_v"), keys}}));
    TAPROOT_TRY(out.attention_out,
                loader.stack(queries, {{name("attn_output"), config.embedding}}));
    TAPROOT_TRY(out.feed_forward_norm, loader.vector(name("ffn_norm"), config.embedding));
    TAPROOT_TRY(out.gate_up,
                loader.stack(config.embedding, {{name("ffn_gate"), ff}, {name("ffn_up"), ff}}));
    TAPROOT_TRY(out.down, loader.stack(ff, {{name("ffn_down"), config.embedding}}));
    return out;
}

}  // namespace

std::optional<DType> find_dtype(const GgmlType& type) {
    for (DType dtype : kDTypes)
        if (dtype_info(dtype).name == type.name) return dtype;
    return std::nullopt;
}

StackedMatrix::StackedMatrix(std::vector<PanelMatrix> parts) : parts_(std::move(parts)) {
    for (const PanelMatrix& part : parts_) {
        rows_ += part.rows();
        bytes_ += part.bytes();
        quantized_ = quantized_ || dtype_info(part.dtype()).quantized;
    }
}

Result<Weights> load_weights(const GgufFile& file, const ModelConfig& config, WeightMode mode,
                             ForkJoin& pool) {
    Loader loader(file, mode, pool);
    Weights out;
    TAPROOT_TRY(out.embedding,
                loader.table(config.embedding, {"token_embd.weight", config.vocabulary}));
    out.bytes = out.embedding.bytes() + sizeof(float) * static_cast<std::size_t>(config.embedding);
    for (int layer = 0; layer < config.layers; ++layer) {
        TAPROOT_TRY(LayerWeights weights, load_layer(loader, config, layer));
        out.bytes += weights.qkv.bytes() + weights.attention_out.bytes() + weights.gate_up.bytes() +
                     weights.down.bytes() +
                     2 * sizeof(float) * static_cast<std::size_t>(config.embedding);
        out.layers.push_back(std::move(weights));
    }
    TAPROOT_TRY(out.output_norm, loader.vector("output_norm.weight", config.embedding));
    if (loader.has("output.weight")) {
        TAPROOT_TRY(out.untied_head,
                    loader.table(config.embedding, {"output.weight", config.vocabulary}));
        out.bytes += out.untied_head->bytes();
    }
    if (loader.has("rope_freqs.weight")) {
        TAPROOT_TRY(out.rope_divisors, loader.vector("rope_freqs.weight", config.rotary_dim / 2));
        out.bytes += sizeof(float) * out.rope_divisors.size();
        for (float divisor : out.rope_divisors)
            if (!(divisor > 0.0f))
                return file.tensor_error(ErrorCode::kInvalidArgument, "rope_freqs.weight",
                                         fmt::format("divides by {}", divisor));
    }
    TAPROOT_CHECK_OK(loader.check_all_used());
    return out;
}

}  // namespace taproot
