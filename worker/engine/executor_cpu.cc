// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/executor_cpu.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/units.h"
#include "kernels/fork_join.h"
#include "worker/model/llama.h"

namespace taproot {

struct CpuExecutor::State {
    State(const ModelConfig& model, const CpuExecutorOptions& chosen)
        : config(model),
          options(chosen),
          pool(chosen.threads),
          context{ops_for(chosen.isa), pool} {}

    ModelConfig config;
    CpuExecutorOptions options;
    ForkJoin pool;
    KernelContext context;
    Weights weights;
    std::optional<Llama> llama;
    AlignedBuffer kv_memory;
    KvView kv{};
    std::uint64_t layout_digest = 0;
    AlignedBuffer logits;  // [wanted rows of a step][vocabulary]

    // One part of a step; kept for their capacity.
    std::vector<TokenId> tokens;
    std::vector<std::int32_t> positions;
    std::vector<AttentionSequence> sequences;
    std::vector<std::int32_t> wanted;

    void reserve_logits(std::size_t rows);
    void check(const StepSequence& sequence) const;
    void add(const StepSequence& sequence, int begin, int count);
    void flush(std::size_t* logits_rows);
};

namespace {

// What a stored block's bytes mean. The version counts changes of the canonical arithmetic or of
// the block's layout.
std::uint64_t layout_digest_of(const ModelConfig& config, const CpuExecutorOptions& options) {
    constexpr int kVersion = 2;
    std::string text = fmt::format(
        "taproot-cpu {} block {} layers {} kv_heads {} head_dim {} dtype {} weights {} rope {} {} "
        "{} {}",
        kVersion, kBlockTokens, config.layers, config.kv_heads, config.head_dim,
        static_cast<int>(options.kv_dtype), static_cast<int>(options.weights),
        static_cast<int>(config.rope_pairs), config.rope_base,
        static_cast<int>(config.rope_scaling.kind), config.rope_scaling.factor);
    return XXH3_64bits(text.data(), text.size());
}

Result<void> check_options(const CpuExecutorOptions& options) {
    auto available = available_isas();
    if (std::find(available.begin(), available.end(), options.isa) == available.end())
        return invalid_argument(fmt::format("this CPU cannot run {}", to_string(options.isa)),
                                "isa");
    if (options.threads < 1 || options.threads > 1024)
        return invalid_argument(fmt::format("is {}, 1..1024 is allowed", options.threads),
                                "threads");
    if (options.max_rows < 1 || options.max_rows > 65536)
        return invalid_argument(fmt::format("is {}, 1..65536 is allowed", options.max_rows),
                                "max_rows");
    if (options.kv_blocks < 1)
        return invalid_argument("is 0, at least one block is needed", "kv_blocks");
    if (options.max_positions < 0)
        return invalid_argument(fmt::format("is {}", options.max_positions), "max_positions");
    return {};
}

}  // namespace

KvGeometry kv_geometry(const ModelConfig& config, KvDType dtype) {
    return {config.layers, config.kv_heads, config.head_dim, dtype};
}

Result<std::unique_ptr<CpuExecutor>> CpuExecutor::create(const LoadedModel& model,
                                                         const CpuExecutorOptions& options,
                                                         WeightStore memory) {
    TAPROOT_CHECK_OK(check_options(options));
    auto state = std::make_unique<State>(model.config, options);
    TAPROOT_TRY(state->weights,
                load_weights(model, options.weights, state->pool, std::move(memory)));
    int positions = model.config.context;
    if (options.max_positions > 0) positions = std::min(positions, options.max_positions);
    TAPROOT_TRY(Llama llama, Llama::create(model.config, state->weights, positions,
                                           options.max_rows, options.threads));
    state->llama.emplace(std::move(llama));

    KvGeometry geometry = kv_geometry(model.config, options.kv_dtype);
    auto bytes = checked_mul(static_cast<std::uint64_t>(geometry.block_bytes()), options.kv_blocks);
    if (bytes) state->kv_memory = AlignedBuffer(*bytes);
    if (state->kv_memory.data() == nullptr)
        return Error{ErrorCode::kUnavailable,
                     fmt::format("no memory for {} KV blocks of {} bytes", options.kv_blocks,
                                 geometry.block_bytes()),
                     "kv_blocks"};
    state->kv = {state->kv_memory.data(), geometry};
    state->layout_digest = layout_digest_of(model.config, options);
    return std::unique_ptr<CpuExecutor>(new CpuExecutor(std::move(state)));
}

CpuExecutor::CpuExecutor(std::unique_ptr<State> state) : state_(std::move(state)) {}
CpuExecutor::~CpuExecutor() = default;

std::span<const float> CpuExecutor::run(std::span<const StepSequence> step) {
    State& state = *state_;
    std::size_t wanted = 0;
    for (const StepSequence& sequence : step) {
        state.check(sequence);
        wanted += sequence.tokens.size() - static_cast<std::size_t>(sequence.logits_from);
    }
    state.reserve_logits(wanted);

    // Pack whole sequences until the scratch is full; a longer one continues in the next part. The
    // split shows in no result.
    std::size_t written = 0;
    for (const StepSequence& sequence : step) {
        int count = static_cast<int>(sequence.tokens.size());
        for (int begin = 0; begin < count;) {
            int room = state.options.max_rows - static_cast<int>(state.tokens.size());
            int part = std::min(count - begin, room);
            state.add(sequence, begin, part);
            begin += part;
            if (part == room) state.flush(&written);
        }
    }
    state.flush(&written);
    TAPROOT_ASSERT(written == wanted);
    return {state.logits.as<float>(), wanted * static_cast<std::size_t>(vocab_size())};
}

void CpuExecutor::State::reserve_logits(std::size_t rows) {
    std::size_t bytes = rows * static_cast<std::size_t>(config.vocabulary) * sizeof(float);
    if (bytes <= logits.bytes()) return;
    logits = AlignedBuffer(bytes);
    TAPROOT_ASSERT(logits.data() != nullptr);  // out of memory after start
}

// The engine's duties; a breach would read or write outside the pool.
void CpuExecutor::State::check(const StepSequence& sequence) const {
    auto count = static_cast<std::int64_t>(sequence.tokens.size());
    std::int64_t end = sequence.position + count;
    TAPROOT_ASSERT(sequence.position >= 0);
    TAPROOT_ASSERT(end <= llama->max_positions());
    TAPROOT_ASSERT(sequence.logits_from >= 0 && sequence.logits_from <= count);
    TAPROOT_ASSERT(static_cast<std::int64_t>(sequence.blocks.size()) * kBlockTokens >= end);
    for (BlockId block : sequence.blocks) TAPROOT_ASSERT(block.value < options.kv_blocks);
    for (TokenId token : sequence.tokens) TAPROOT_ASSERT(token >= 0 && token < config.vocabulary);
}

void CpuExecutor::State::add(const StepSequence& sequence, int begin, int count) {
    int row = static_cast<int>(tokens.size());
    int position = sequence.position + begin;
    auto part =
        sequence.tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
    tokens.insert(tokens.end(), part.begin(), part.end());
    for (int i = 0; i < count; ++i) {
        positions.push_back(position + i);
        if (begin + i >= sequence.logits_from) wanted.push_back(row + i);
    }
    sequences.push_back({row, count, position, sequence.blocks});
}

void CpuExecutor::State::flush(std::size_t* logits_rows) {
    if (tokens.empty()) return;
    auto columns = static_cast<std::int64_t>(config.vocabulary);
    Rows out{logits.as<float>() + static_cast<std::int64_t>(*logits_rows) * columns, columns,
             static_cast<int>(wanted.size()), config.vocabulary};
    llama->forward(context, kv, {tokens, positions, sequences, wanted}, out);
    *logits_rows += wanted.size();
    tokens.clear();
    positions.clear();
    sequences.clear();
    wanted.clear();
}

void CpuExecutor::copy_block(BlockId from, BlockId to) {
    TAPROOT_ASSERT(from.value < kv_blocks() && to.value < kv_blocks());
    if (from == to) return;
    std::memcpy(state_->kv.block(to), state_->kv.block(from),
                static_cast<std::size_t>(kv_bytes_per_block()));
}

int CpuExecutor::threads() const {
    return state_->pool.threads();
}
void CpuExecutor::share(TaskRef task) {
    state_->pool.share(task);
}
std::size_t CpuExecutor::block_bytes() const {
    return static_cast<std::size_t>(kv_bytes_per_block());
}

void CpuExecutor::read_block(BlockId from, std::span<std::byte> to) const {
    TAPROOT_ASSERT(from.value < kv_blocks() && to.size() == block_bytes());
    std::memcpy(to.data(), state_->kv.block(from), to.size());
}

void CpuExecutor::write_block(std::span<const std::byte> from, BlockId to) {
    TAPROOT_ASSERT(to.value < kv_blocks() && from.size() == block_bytes());
    std::memcpy(state_->kv.block(to), from.data(), from.size());
}

int CpuExecutor::vocab_size() const {
    return state_->config.vocabulary;
}
int CpuExecutor::max_positions() const {
    return state_->llama->max_positions();
}
KvView CpuExecutor::kv() const {
    return state_->kv;
}
std::uint32_t CpuExecutor::kv_blocks() const {
    return state_->options.kv_blocks;
}
std::int64_t CpuExecutor::kv_bytes_per_block() const {
    return state_->kv.geometry.block_bytes();
}
std::size_t CpuExecutor::weight_bytes() const {
    return state_->weights.bytes;
}
std::string CpuExecutor::weight_memory() const {
    return state_->weights.memory.describe();
}
std::size_t CpuExecutor::scratch_bytes() const {
    return state_->llama->scratch_bytes();
}
void CpuExecutor::set_profile(StepProfile* profile) {
    state_->llama->set_profile(profile);
}
std::uint64_t CpuExecutor::kv_layout_digest() const {
    return state_->layout_digest;
}

}  // namespace taproot
