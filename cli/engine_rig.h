// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "worker/engine/engine.h"
#include "worker/engine/executor_cpu.h"

namespace taproot::cli {

// What one request got, one entry per choice: enough to compare two runs to the bit.
struct EngineAnswer {
    std::vector<std::vector<TokenId>> tokens;  // [choice][position]
    std::vector<std::vector<std::uint64_t>>
        logits_hash;  // of the raw float32 row behind each token
    std::uint32_t cached_tokens = 0;
    std::string error;  // rejected or ended early

    friend bool operator==(const EngineAnswer& a, const EngineAnswer& b) {
        return a.tokens == b.tokens && a.logits_hash == b.logits_hash && a.error == b.error;
    }
};

struct RigOptions {
    std::uint32_t blocks = 0;  // KV pool of this engine; at most the executor's
    std::uint32_t prefill_chunk_tokens = 512;
    std::uint32_t seqs_max = 64;
    std::uint64_t ram_bytes = 0;  // RAM tier below the pool; 0 = none
    double step_ms_target = 1e9;  // chunk sizes are then exactly as asked
};

// One step of the engine and where its time went.
struct RigStep {
    std::size_t tokens = 0;  // given to requests
    double seconds = 0;      // all of it: the three below
    double schedule_s = 0;   // before the forward pass: commands in, plan, pages
    double forward_s = 0;
    double sample_s = 0;  // after it: commit, sampling, publish
};

// Stands between an engine and its executor and tells when the forward pass ran.
class TimedExecutor final : public Executor {
public:
    explicit TimedExecutor(Executor& inner) : inner_(inner) {}
    [[nodiscard]] int vocab_size() const override { return inner_.vocab_size(); }
    std::span<const float> run(std::span<const StepSequence> step) override;
    void copy_block(BlockId from, BlockId to) override { inner_.copy_block(from, to); }
    [[nodiscard]] int threads() const override { return inner_.threads(); }
    void share(TaskRef task) override { inner_.share(task); }
    [[nodiscard]] std::size_t block_bytes() const override { return inner_.block_bytes(); }
    void read_block(BlockId from, std::span<std::byte> to) const override {
        inner_.read_block(from, to);
    }
    void write_block(std::span<const std::byte> from, BlockId to) override {
        inner_.write_block(from, to);
    }

    TimePoint began{}, ended{};  // of the last run()

private:
    Executor& inner_;
};

// A real engine driven step by step on this thread, without sockets: for measuring and for proofs.
// Owner: one thread. The executor may be used by one rig after another; what earlier ones left in
// its KV memory must not matter, and that is part of the proof.
class EngineRig final : public EngineSink {
public:
    EngineRig(const LoadedModel& model, CpuExecutor& executor, const RigOptions& options);

    // Runs all requests together until the last has ended. `on_step` (may be null) is called after
    // each step.
    using StepCallback = std::function<void(const RigStep& step)>;
    std::vector<EngineAnswer> run(std::vector<link::Generate> requests,
                                  const StepCallback& on_step = nullptr);

    [[nodiscard]] link::Load load() const { return engine_->load(); }

    // EngineSink
    void on_step(ClientId client, link::StepOutput&& output) override;
    void on_rejected(ClientId client, link::Rejected&& rejected) override;
    void on_snapshot(ClientId client, link::KvSnapshot&& snapshot) override;
    void on_events(link::KvEventBatch&& events) override;
    void on_load(const link::Load& load) override;

private:
    RigStep pump();

    RealClock clock_;
    TimedExecutor executor_;
    std::unique_ptr<Engine> engine_;
    std::uint64_t next_request_ = 1;
    std::map<std::uint64_t, EngineAnswer*> open_;  // by request id
    std::size_t unfinished_ = 0;                   // choices
    std::size_t step_tokens_ = 0;
};

// Tokens that look like text to the tokenizer of no particular model: seeded, below `vocab`.
std::vector<TokenId> random_tokens(std::uint64_t seed, std::size_t count, int vocab);

}  // namespace taproot::cli
