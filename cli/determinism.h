// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/engine_rig.h"

// What `check determinism` computes and compares; the ways of computing are in
// determinism_scenarios.h.
namespace taproot::cli {

// The requests: lengths around the edges of blocks (16), tiles (128) and chunks, many short ones
// and some long, every second one sampled, some with several choices.
struct DeterminismPlan {
    std::vector<link::Generate> requests;
    std::uint32_t blocks = 0;  // enough for all at once
    KvDType kv_dtype = KvDType::kF16;

    [[nodiscard]] std::size_t longest() const;
};

// `isa`: of the baseline. A slow one gets fewer and shorter long prompts and shorter answers.
DeterminismPlan make_determinism_plan(Isa isa, bool is_short, std::uint64_t seed, int vocabulary);

// What a scenario computes of each request. An answer of fewer tokens is compared with the
// beginning of the baseline's: no draw depends on how many follow.
struct RequestLimits {
    std::size_t prompt_max = std::numeric_limits<std::size_t>::max();  // longer ones are left out
    std::uint32_t generated_max = std::numeric_limits<std::uint32_t>::max();
};

struct Tally {
    std::string name;
    std::size_t requests = 0;
    std::size_t compared = 0;  // tokens, each with its logits
    std::size_t differing = 0;
    double seconds = 0;
    std::string note = {};
};

// The plan, the baseline's answers, and executors, made when first asked for and kept.
// Owner: one thread.
class DeterminismBench {
public:
    DeterminismBench(const LoadedModel& model, Isa isa, DeterminismPlan plan)
        : model_(model), isa_(isa), plan_(std::move(plan)) {}

    Result<CpuExecutor*> executor(int threads, Isa isa);
    [[nodiscard]] const LoadedModel& model() const { return model_; }
    [[nodiscard]] Isa isa() const { return isa_; }  // of the baseline
    [[nodiscard]] const DeterminismPlan& plan() const { return plan_; }
    [[nodiscard]] RigOptions rig_options() const;

    // Indices of the plan's requests within `limits`, and such a request.
    [[nodiscard]] std::vector<std::size_t> chosen(const RequestLimits& limits) const;
    [[nodiscard]] link::Generate request(std::size_t index, const RequestLimits& limits) const;

    std::vector<EngineAnswer> baseline;  // of every request of the plan

    // The baseline's answer to request(index, limits).
    [[nodiscard]] EngineAnswer expected(std::size_t index, const RequestLimits& limits) const;
    void compare(Tally& tally, std::size_t index, const RequestLimits& limits,
                 const EngineAnswer& answer) const;

private:
    const LoadedModel& model_;
    Isa isa_;
    DeterminismPlan plan_;
    std::map<std::pair<int, Isa>, std::unique_ptr<CpuExecutor>> executors_;
};

// One answer as text, for another process to send.
std::string answer_line(const EngineAnswer& answer);

}  // namespace taproot::cli
