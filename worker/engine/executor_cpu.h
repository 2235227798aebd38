// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "kernels/attention.h"
#include "kernels/dispatch.h"
#include "worker/engine/executor.h"
#include "worker/model/loaded_model.h"
#include "worker/model/step_profile.h"
#include "worker/model/weights.h"

namespace taproot {

struct CpuExecutorOptions {
    int threads = 1;
    Isa isa = Isa::kRef;
    std::uint32_t kv_blocks = 0;  // blocks of kBlockTokens tokens in the pool
    KvDType kv_dtype = KvDType::kF16;
    WeightMode weights = WeightMode::kNative;
    int max_rows = 512;     // longer steps run in parts; the scratch is sized for this
    int max_positions = 0;  // longest sequence; 0 or beyond the model's context: that context
};

// The model on this CPU: weights, KV memory, kernel threads. Owner: the engine thread.
// Memory: weight_bytes() + kv_blocks * kv_bytes_per_block() + scratch_bytes(), all from create()
// on; the logits buffer grows to the largest number of rows that one step ever asked for.
class CpuExecutor final : public Executor {
public:
    // Packs the weights into `memory`, or takes what is ready there (`model` may be dropped
    // afterwards). Errors: kUnsupported (a tensor type or shape we do not run, named),
    // kInvalidArgument, kUnavailable (no memory).
    static Result<std::unique_ptr<CpuExecutor>> create(const LoadedModel& model,
                                                       const CpuExecutorOptions& options,
                                                       WeightStore memory = WeightStore());
    ~CpuExecutor() override;

    [[nodiscard]] int vocab_size() const override;
    std::span<const float> run(std::span<const StepSequence> step) override;
    void copy_block(BlockId from, BlockId to) override;
    [[nodiscard]] int threads() const override;
    void share(TaskRef task) override;
    [[nodiscard]] std::size_t block_bytes() const override;
    void read_block(BlockId from, std::span<std::byte> to) const override;
    void write_block(std::span<const std::byte> from, BlockId to) override;

    [[nodiscard]] int max_positions() const;
    [[nodiscard]] KvView kv() const;  // for tiers and transfers: block bytes
    [[nodiscard]] std::uint32_t kv_blocks() const;
    [[nodiscard]] std::int64_t kv_bytes_per_block() const;
    [[nodiscard]] std::size_t weight_bytes() const;
    [[nodiscard]] std::string weight_memory() const;  // where the weights lie, for the log
    [[nodiscard]] std::size_t scratch_bytes() const;
    // Two executors may exchange KV blocks when this and the model's digest agree.
    [[nodiscard]] std::uint64_t kv_layout_digest() const;
    // See Llama::set_profile.
    void set_profile(StepProfile* profile);

private:
    struct State;
    explicit CpuExecutor(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

// What create() would need for the KV pool (and plan_weights() for the weights), for a memory plan
// before anything is allocated.
KvGeometry kv_geometry(const ModelConfig& config, KvDType dtype);

}  // namespace taproot
