// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cli/engine_rig.h"
#include "worker/model/step_profile.h"

namespace taproot::cli {

// What `bench engine` runs. Tokens throughout.
struct EngineLoad {
    std::uint32_t prompt = 512;     // of the prefill measurement: one cold stream
    std::uint32_t generated = 128;  // per stream of a decode measurement
    std::uint32_t depth = 512;      // context of each stream when its decoding begins
    std::uint32_t shared = 0;       // of `depth`: the beginning that all streams have in common
    std::vector<std::uint32_t> streams = {1, 16};
    std::uint32_t repeats = 5;

    [[nodiscard]] std::uint32_t streams_max() const;
    // Blocks for all that is kept: the streams' prompts and answers, and every prefill's prompt.
    [[nodiscard]] std::uint32_t blocks() const;
};

struct Spread {
    double median = 0, min = 0, max = 0;
};
// Of at least one value; the median of an even number is the mean of the middle two.
Spread spread_of(std::vector<double> values);

// Mean milliseconds of one step (of the whole prompt, for prefill).
struct PartTimes {
    double step_ms = 0;
    double schedule_ms = 0;
    double sample_ms = 0;
    std::array<double, kStepParts> part_ms{};
};

struct DecodeResult {
    std::uint32_t streams = 0;
    Spread tok_s;
    PartTimes parts;
    double kv_bytes_read = 0;     // per step, by the plan of attention
    double kv_bytes_minimum = 0;  // per step, if every page were read once
};

struct EngineResult {
    Spread prefill_tok_s;
    PartTimes prefill_parts;
    std::vector<DecodeResult> decode;  // in the order of load.streams
};

// Measures prefill and decode in rounds: one of each kind, then the next round, so that a slow
// spell of the machine hits all alike. The prompts of the decode streams are computed once before
// and come from the prefix cache in every round; only steps in which every stream gets a token
// count. A last round, whose times do not count, has the profile on.
EngineResult measure_engine(const LoadedModel& model, CpuExecutor& executor,
                            const EngineLoad& load);

// Multiply-adds, two operations each, by the unit that does them.
struct ModelWork {
    double int8_ops = 0;        // of one token: linear layers with quantised weights
    double float_flop = 0;      // of one token: linear layers with float weights
    double attention_flop = 0;  // of a whole prompt
};
ModelWork prefill_work(const LoadedModel& model, std::uint32_t prompt);

}  // namespace taproot::cli
