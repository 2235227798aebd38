// SPDX-License-Identifier: Apache-2.0
#include "worker/model/weights.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <chrono>
#include <cstring>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/log.h"
#include "base/units.h"
#include "kernels/aligned_buffer.h"
#include "kernels/panel_layout.h"
#include "kernels/work_ranges.h"

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

// Counts changes of the order of matrices, or of their panels, that the text below does not show.
constexpr int kLayoutVersion = 1;
constexpr auto kProgressInterval = std::chrono::seconds(2);

// Goes through the tensors of a file in the order in which a step reads them. The first time only
// to see that all are there and how large they are, the second time with the memory.
class Loader {
public:
    enum class Pass : std::uint8_t { kPlan, kFill, kCheck };

    Loader(const GgufFile& file, WeightMode mode) : file_(file), mode_(mode) {}
    // kFill writes every matrix to `memory`, kCheck compares a few panels with it.
    Loader(const GgufFile& file, WeightMode mode, Pass pass, ForkJoin& pool,
           const std::byte* memory, std::byte* writable, std::size_t bytes)
        : file_(file),
          mode_(mode),
          pass_(pass),
          pool_(&pool),
          memory_(memory),
          writable_(writable),
          bytes_(bytes) {}

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

    [[nodiscard]] std::size_t end() const { return end_; }
    [[nodiscard]] std::uint64_t layout_digest() const {
        return XXH3_64bits_withSeed(layout_.data(), layout_.size(), kLayoutVersion);
    }
    // kCheck: the first matrix that is not what packing would write; empty: none.
    [[nodiscard]] const std::string& mismatch() const { return mismatch_; }

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
        for (const Found& found : group) sources.push_back({found.data, found.rows});
        auto shaped = PanelMatrix::of_shape(widen ? DType::kF32 : group[0].dtype, columns, sources);
        if (!shaped)
            return file_.tensor_error(shaped.error().code, group[0].name,
                                      shaped.error().describe());
        PanelMatrix& matrix = *shaped;
        std::size_t begin = end_;
        end_ += round_up(matrix.bytes(), kVectorBytes);
        if (pass_ == Pass::kPlan) {
            note_layout(begin, matrix, group);
            return shaped;
        }
        TAPROOT_ASSERT(end_ <= bytes_);
        std::vector<AlignedBuffer> widened;
        if (widen) TAPROOT_CHECK_OK(widen_all(columns, group, &sources, &widened));
        matrix.place(memory_ + begin);
        if (pass_ == Pass::kFill)
            fill(matrix, sources, writable_ + begin);
        else if (mismatch_.empty() && !is_packed(matrix, sources))
            mismatch_ = group[0].name;
        return shaped;
    }

    void note_layout(std::size_t begin, const PanelMatrix& matrix,
                     const std::vector<Found>& group) {
        layout_ += fmt::format("{} {} {}x{}", begin, dtype_info(matrix.dtype()).name, matrix.rows(),
                               matrix.columns());
        for (const Found& found : group) layout_ += fmt::format(" {} {}", found.name, found.rows);
        layout_ += '\n';
    }

    Result<void> widen_all(int columns, const std::vector<Found>& group,
                           std::vector<PanelMatrix::Source>* sources,
                           std::vector<AlignedBuffer>* widened) const {
        for (std::size_t i = 0; i < group.size(); ++i) {
            std::int64_t count = std::int64_t{group[i].rows} * columns;
            AlignedBuffer& buffer =
                widened->emplace_back(static_cast<std::size_t>(count) * sizeof(float));
            if (buffer.data() == nullptr)
                return file_.tensor_error(ErrorCode::kUnavailable, group[i].name,
                                          "no memory to dequantise it");
            dequantize(group[i].dtype, group[i].data, count, buffer.as<float>());
            (*sources)[i].data = buffer.data();
        }
        return {};
    }

    void fill(const PanelMatrix& matrix, std::span<const PanelMatrix::Source> sources,
              std::byte* out) {
        WorkRanges ranges(matrix.panels(), pool_->threads(), 1);
        pool_->share([&](int thread) {
            ranges.work(thread, [&](int p) {
                matrix.pack_panel(sources, p,
                                  out + static_cast<std::size_t>(p) * matrix.panel_bytes());
            });
        });
        auto now = std::chrono::steady_clock::now();
        if (now < next_report_) return;
        log_info("repacking the weights: {} of {} MiB", end_ / 1_MiB, bytes_ / 1_MiB);
        next_report_ = now + kProgressInterval;
    }

    // Compares the first and the last panel with what packing gives: this finds a layout that has
    // changed without its version.
    [[nodiscard]] bool is_packed(const PanelMatrix& matrix,
                                 std::span<const PanelMatrix::Source> sources) const {
        for (int p : {0, matrix.panels() - 1}) {
            std::vector<std::byte> expected(matrix.panel_bytes());
            matrix.pack_panel(sources, p, expected.data());
            if (std::memcmp(expected.data(), matrix.panel(p), expected.size()) != 0) return false;
        }
        return true;
    }

    const GgufFile& file_;
    WeightMode mode_;
    Pass pass_ = Pass::kPlan;
    ForkJoin* pool_ = nullptr;           // null in kPlan, as are the next three
    const std::byte* memory_ = nullptr;  // [bytes_]
    std::byte* writable_ = nullptr;      // the same, in kFill
    std::size_t bytes_ = 0;
    std::size_t end_ = 0;  // of the matrices so far
    std::string layout_;   // kPlan: a line per matrix
    std::string mismatch_;
    std::unordered_set<std::string_view> used_;
    std::chrono::steady_clock::time_point next_report_ =
        std::chrono::steady_clock::now() + kProgressInterval;
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
    }
}

namespace {

Result<Weights> load_all(Loader& loader, const GgufFile& file, const ModelConfig& config) {
    Weights out;
    for (int layer = 0; layer < config.layers; ++layer) {
        TAPROOT_TRY(LayerWeights weights, load_layer(loader, config, layer));
        out.bytes += weights.qkv.bytes() + weights.attention_out.bytes() + weights.gate_up.bytes() +
                     weights.down.bytes() +
                     2 * sizeof(float) * static_cast<std::size_t>(config.embedding);
        out.layers.push_back(std::move(weights));
    }
    TAPROOT_TRY(out.output_norm, loader.vector("output_norm.weight", config.embedding));
    TAPROOT_TRY(out.embedding,
                loader.table(config.embedding, {"token_embd.weight", config.vocabulary}));
    out.bytes += out.embedding.bytes() + sizeof(float) * static_cast<std::size_t>(config.embedding);
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

}  // namespace

Result<WeightIdentity> plan_weights(const LoadedModel& model, WeightMode mode) {
    Loader loader(model.file, mode);
    TAPROOT_TRY([[maybe_unused]] Weights shapes, load_all(loader, model.file, model.config));
    return WeightIdentity{model.digest, model.file.bytes().size(), loader.layout_digest(),
                          loader.end()};
}

Result<Weights> load_weights(const LoadedModel& model, WeightMode mode, ForkJoin& pool,
                             WeightStore memory) {
    using Pass = Loader::Pass;
    if (!memory.opened()) {
        TAPROOT_TRY(WeightIdentity identity, plan_weights(model, mode));
        TAPROOT_CHECK_OK(memory.open(identity));
    }
    std::size_t bytes = memory.identity().payload_bytes;
    if (memory.ready()) {
        Loader loader(model.file, mode, Pass::kCheck, pool, memory.data(), nullptr, bytes);
        TAPROOT_TRY(Weights out, load_all(loader, model.file, model.config));
        if (loader.mismatch().empty() && memory.matches_digest(pool)) {
            out.memory = std::move(memory);
            return out;
        }
        TAPROOT_CHECK_OK(
            memory.reject(loader.mismatch().empty()
                              ? std::string("the weights in it are damaged")
                              : fmt::format("'{}' is packed in another way", loader.mismatch())));
    }
    Loader loader(model.file, mode, Pass::kFill, pool, memory.data(), memory.writable(), bytes);
    TAPROOT_TRY(Weights out, load_all(loader, model.file, model.config));
    memory.finish(pool);
    out.memory = std::move(memory);
    return out;
}

}  // namespace taproot
