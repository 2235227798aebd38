// SPDX-License-Identifier: Apache-2.0
#include "worker/model/model_config.h"

#include <fmt/format.h>

#include <cmath>

namespace taproot {
namespace {

// Reads `llama.*` keys with range checks; the first failure is kept by TAPROOT_TRY at the caller.
class ConfigReader {
public:
    ConfigReader(const GgufFile& file, std::string prefix)
        : file_(file), prefix_(std::move(prefix)) {}

    [[nodiscard]] std::string key(std::string_view name) const {
        return prefix_ + std::string(name);
    }

    // Accepts one integer, or an array per layer whose elements agree.
    [[nodiscard]] Result<std::optional<int>> find_count(std::string_view name, std::int64_t low,
                                                        std::int64_t high) const {
        std::string full = key(name);
        std::optional<std::int64_t> value;
        const GgufValue* stored = file_.find(full);
        if (stored != nullptr && stored->type == GgufType::kArray) {
            TAPROOT_TRY(auto values, file_.find_integers(full));
            for (std::int64_t element : *values)
                if (element != values->front())
                    return file_.key_error(ErrorCode::kUnsupported, full,
                                           "differs between layers, which is not supported");
            if (!values->empty()) value = values->front();
        } else {
            TAPROOT_TRY(value, file_.find_integer(full));
        }
        if (!value) return std::optional<int>();
        if (*value < low || *value > high)
            return file_.key_error(ErrorCode::kInvalidArgument, full,
                                   fmt::format("is {}, {}..{} is allowed", *value, low, high));
        return std::optional<int>(static_cast<int>(*value));
    }
    [[nodiscard]] Result<int> need_count(std::string_view name, std::int64_t low,
                                         std::int64_t high) const {
        TAPROOT_TRY(auto value, find_count(name, low, high));
        if (!value) return missing(name);
        return *value;
    }
    [[nodiscard]] Result<std::optional<double>> find_real(std::string_view name, double low,
                                                          double high) const {
        TAPROOT_TRY(auto value, file_.find_real(key(name)));
        // Written so that NaN fails.
        if (value && !(*value >= low && *value <= high))
            return file_.key_error(ErrorCode::kInvalidArgument, key(name),
                                   fmt::format("is {}, {}..{} is allowed", *value, low, high));
        return value;
    }
    [[nodiscard]] Error missing(std::string_view name) const {
        return file_.key_error(ErrorCode::kInvalidArgument, key(name), "is missing");
    }
    [[nodiscard]] Error unsupported(std::string_view name, std::string message) const {
        return file_.key_error(ErrorCode::kUnsupported, key(name), std::move(message));
    }

    [[nodiscard]] const GgufFile& file() const { return file_; }

private:
    const GgufFile& file_;
    std::string prefix_;
};

// Attention scales of llama.cpp's files multiply YaRN's own 0.1 ln(factor) + 1.
float yarn_attention_factor(double factor, std::optional<double> stored) {
    if (!stored || *stored == 1.0) return 0.0f;  // derive
    return static_cast<float>(*stored * (factor <= 1.0 ? 1.0 : 0.1 * std::log(factor) + 1.0));
}

Result<RopeScaling> read_rope_scaling(const ConfigReader& reader) {
    RopeScaling scaling;
    std::string type_key = reader.key("rope.scaling.type");
    TAPROOT_TRY(auto type, reader.file().find_string(type_key));
    TAPROOT_TRY(auto factor, reader.find_real("rope.scaling.factor", 0.0, 1e6));
    TAPROOT_TRY(auto legacy, reader.find_real("rope.scale_linear", 0.0, 1e6));
    if (!factor) factor = legacy;
    double scale = factor.value_or(0.0) == 0.0 ? 1.0 : *factor;
    if (scale < 1.0)
        return reader.unsupported("rope.scaling.factor", fmt::format("is {}, below 1", scale));
    scaling.factor = static_cast<float>(scale);

    std::string_view kind = type.value_or("linear");
    if (kind == "none" || (kind == "linear" && scale == 1.0)) {
        scaling.factor = 1.0f;
    } else if (kind == "linear") {
        scaling.kind = RopeScaling::Kind::kLinear;
    } else if (kind == "yarn") {
        scaling.kind = RopeScaling::Kind::kYarn;
        TAPROOT_TRY(int original,
                    reader.need_count("rope.scaling.original_context_length", 1, 1 << 24));
        TAPROOT_TRY(auto attention, reader.find_real("rope.scaling.attn_factor", 0.0, 100.0));
        TAPROOT_TRY(auto fast, reader.find_real("rope.scaling.yarn_beta_fast", 0.0, 1e4));
        TAPROOT_TRY(auto slow, reader.find_real("rope.scaling.yarn_beta_slow", 0.0, 1e4));
        scaling.original_context = static_cast<float>(original);
        scaling.beta_fast = static_cast<float>(fast.value_or(32.0));
        scaling.beta_slow = static_cast<float>(slow.value_or(1.0));
        scaling.attention_factor = yarn_attention_factor(scale, attention);
    } else {
        return reader.unsupported(
            "rope.scaling.type", fmt::format("is '{}'; none, linear and yarn are supported", kind));
    }
    return scaling;
}

// Embedding rows beyond the tokens are padding; rows short of them would be read out of bounds.
Result<int> read_vocabulary(const GgufFile& file) {
    constexpr std::uint64_t kVocabularyMax = 1u << 22;
    constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
    const GgufValue* tokens = file.find(kTokens);
    if (tokens == nullptr || tokens->type != GgufType::kArray)
        return file.key_error(ErrorCode::kInvalidArgument, kTokens,
                              "is missing; the model file must hold its vocabulary");
    if (tokens->count < 1 || tokens->count > kVocabularyMax)
        return file.key_error(
            ErrorCode::kInvalidArgument, kTokens,
            fmt::format("has {} tokens, 1..{} are allowed", tokens->count, kVocabularyMax));
    for (std::string_view name : {"token_embd.weight", "output.weight"}) {
        const GgufTensor* table = file.find_tensor(name);
        if (table != nullptr && table->rows() < tokens->count)
            return file.tensor_error(
                ErrorCode::kInvalidArgument, name,
                fmt::format("has {} rows for a vocabulary of {} tokens (tokenizer.ggml.tokens)",
                            table->rows(), tokens->count));
    }
    return static_cast<int>(tokens->count);
}

Result<void> read_heads(const ConfigReader& reader, ModelConfig* config) {
    TAPROOT_TRY(config->heads, reader.need_count("attention.head_count", 1, 1024));
    TAPROOT_TRY(auto kv_heads, reader.find_count("attention.head_count_kv", 1, 1024));
    config->kv_heads = kv_heads.value_or(config->heads);
    if (config->heads % config->kv_heads != 0)
        return reader.file().key_error(ErrorCode::kInvalidArgument,
                                       reader.key("attention.head_count_kv"),
                                       fmt::format("is {}, which does not divide the {} heads",
                                                   config->kv_heads, config->heads));

    TAPROOT_TRY(auto key_length, reader.find_count("attention.key_length", 1, 4096));
    if (!key_length && config->embedding % config->heads != 0)
        return reader.file().key_error(
            ErrorCode::kInvalidArgument, reader.key("attention.head_count"),
            fmt::format("is {}, which does not divide the embedding length {}", config->heads,
                        config->embedding));
    config->head_dim = key_length.value_or(config->embedding / config->heads);
    if (config->head_dim % 16 != 0 || config->head_dim > 512)
        return reader.unsupported(
            "attention.key_length",
            fmt::format("head size {}; multiples of 16 up to 512 are supported", config->head_dim));
    TAPROOT_TRY(auto value_length, reader.find_count("attention.value_length", 1, 4096));
    if (value_length.value_or(config->head_dim) != config->head_dim)
        return reader.unsupported("attention.value_length",
                                  fmt::format("is {}, only the key length {} is supported",
                                              *value_length, config->head_dim));
    TAPROOT_TRY(auto rotary, reader.find_count("rope.dimension_count", 2, config->head_dim));
    config->rotary_dim = rotary.value_or(config->head_dim);
    if (config->rotary_dim % 2 != 0)
        return reader.file().key_error(ErrorCode::kInvalidArgument,
                                       reader.key("rope.dimension_count"),
                                       fmt::format("is {}, an odd number", config->rotary_dim));
    return {};
}

// Features of the architecture's name that would make this another model.
Result<void> refuse_variants(const ConfigReader& reader) {
    TAPROOT_TRY(auto experts, reader.find_count("expert_count", 0, 1 << 20));
    if (experts.value_or(0) > 0)
        return reader.unsupported("expert_count", "mixture-of-experts models are not supported");
    TAPROOT_TRY(auto window, reader.find_count("attention.sliding_window", 0, INT64_C(1) << 31));
    if (window.value_or(0) > 0)
        return reader.unsupported("attention.sliding_window",
                                  "sliding-window attention is not supported");
    TAPROOT_TRY(auto splits, reader.file().find_integer("split.count"));
    if (splits.value_or(1) > 1)
        return reader.file().key_error(
            ErrorCode::kUnsupported, "split.count",
            fmt::format("is {}; models split over several files are not supported", *splits));
    return {};
}

}  // namespace

Result<ModelConfig> read_model_config(const GgufFile& file) {
    constexpr std::string_view kArchitecture = "general.architecture";
    TAPROOT_TRY(auto architecture, file.find_string(kArchitecture));
    if (!architecture)
        return file.key_error(ErrorCode::kInvalidArgument, kArchitecture, "is missing");
    if (*architecture != "llama")
        return file.key_error(
            ErrorCode::kUnsupported, kArchitecture,
            fmt::format("is '{}'; 'llama' (Llama, Mistral, SmolLM2, TinyLlama) is supported",
                        architecture->substr(0, 64)));

    ConfigReader reader(file, "llama.");
    TAPROOT_CHECK_OK(refuse_variants(reader));
    ModelConfig config;
    config.architecture = "llama";
    TAPROOT_TRY(auto name, file.find_string("general.name"));
    config.name = name.value_or("").substr(0, 256);
    TAPROOT_TRY(config.layers, reader.need_count("block_count", 1, 1024));
    TAPROOT_TRY(config.embedding, reader.need_count("embedding_length", 16, 1 << 16));
    TAPROOT_TRY(config.feed_forward, reader.need_count("feed_forward_length", 16, 1 << 20));
    TAPROOT_TRY(config.context, reader.need_count("context_length", 1, 1 << 24));
    TAPROOT_CHECK_OK(read_heads(reader, &config));
    TAPROOT_TRY(config.vocabulary, read_vocabulary(file));

    constexpr std::string_view kEpsilon = "attention.layer_norm_rms_epsilon";
    TAPROOT_TRY(auto epsilon, reader.find_real(kEpsilon, 1e-12, 1.0));
    if (!epsilon) return reader.missing(kEpsilon);
    config.norm_epsilon = static_cast<float>(*epsilon);
    TAPROOT_TRY(auto base, reader.find_real("rope.freq_base", 1.0, 1e12));
    config.rope_base = base.value_or(10000.0);
    TAPROOT_TRY(config.rope_scaling, read_rope_scaling(reader));
    return config;
}

}  // namespace taproot
