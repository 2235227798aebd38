// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_measure.h"

#include <algorithm>

#include "base/assert.h"
#include "cli/dtypes.h"

namespace taproot::cli {
namespace {

std::uint32_t blocks_for(std::uint32_t tokens) {
    return tokens / static_cast<std::uint32_t>(kBlockTokens) + 2;
}

// One engine over all rounds.
class Rounds {
public:
    Rounds(const LoadedModel& model, CpuExecutor& executor, const EngineLoad& load)
        : load_(load),
          vocabulary_(static_cast<int>(model.text.tokens.size())),
          executor_(executor),
          rig_(model, executor, {.blocks = load.blocks(), .seqs_max = load.streams_max()}) {}

    // Fills the prefix cache with what every decode measurement begins with.
    void prepare() { rig_.run(decode_requests(load_.streams_max(), 1)); }

    // Seconds of a prompt that nobody has seen.
    double prefill(PartTimes* parts) {
        StepProfile profile;
        RigStep sum;
        if (parts != nullptr) executor_.set_profile(&profile);
        rig_.run({request(random_tokens(next_seed_++, load_.prompt, vocabulary_), 1)},
                 [&](const RigStep& step) { add(sum, step); });
        executor_.set_profile(nullptr);
        if (parts != nullptr) *parts = mean(sum, profile, 1);
        return sum.seconds;
    }

    // Tokens per second over the steps in which all streams get one, but the first, which may hold
    // the end of a prompt. With `profiled`, also fills its parts and bytes.
    double decode(std::uint32_t streams, DecodeResult* profiled) {
        StepProfile profile, at_first;
        RigStep sum;
        std::size_t steps = 0;
        bool begun = false;
        if (profiled != nullptr) executor_.set_profile(&profile);
        rig_.run(decode_requests(streams, load_.generated), [&](const RigStep& step) {
            if (step.tokens != streams) return;
            if (begun) {
                add(sum, step);
                ++steps;
            } else {
                at_first = profile;
            }
            begun = true;
        });
        executor_.set_profile(nullptr);
        TAPROOT_ASSERT(steps > 0);  // all streams start together and are equally long
        if (profiled != nullptr) {
            for (std::size_t i = 0; i < kStepParts; ++i) profile.seconds[i] -= at_first.seconds[i];
            profiled->parts = mean(sum, profile, steps);
            auto count = static_cast<double>(steps);
            profiled->kv_bytes_read =
                static_cast<double>(profile.kv_bytes_read - at_first.kv_bytes_read) / count;
            profiled->kv_bytes_minimum =
                static_cast<double>(profile.kv_bytes_minimum - at_first.kv_bytes_minimum) / count;
        }
        return static_cast<double>(steps) * streams / sum.seconds;
    }

private:
    static void add(RigStep& sum, const RigStep& step) {
        sum.seconds += step.seconds;
        sum.schedule_s += step.schedule_s;
        sum.forward_s += step.forward_s;
        sum.sample_s += step.sample_s;
    }

    static PartTimes mean(const RigStep& sum, const StepProfile& profile, std::size_t steps) {
        double scale = 1e3 / static_cast<double>(steps);
        PartTimes out{0, sum.schedule_s * scale, sum.sample_s * scale, {}};
        // Not the measured whole: that holds what counting the bytes costs.
        out.step_ms = out.schedule_ms + out.sample_ms;
        for (std::size_t i = 0; i < kStepParts; ++i) {
            out.part_ms[i] = profile.seconds[i] * scale;
            out.step_ms += out.part_ms[i];
        }
        return out;
    }

    [[nodiscard]] static link::Generate request(std::vector<TokenId> prompt,
                                                std::uint32_t generated) {
        link::Generate out;
        out.prompt = std::move(prompt);
        out.max_tokens = generated;
        out.sampling.temperature = 0;
        out.sampling.ignore_eos = true;
        return out;
    }

    [[nodiscard]] std::vector<link::Generate> decode_requests(std::uint32_t streams,
                                                              std::uint32_t generated) const {
        std::vector<link::Generate> out;
        for (std::uint32_t stream = 0; stream < streams; ++stream) {
            std::vector<TokenId> prompt = random_tokens(1, load_.shared, vocabulary_);
            for (TokenId token :
                 random_tokens(1'000 + stream, load_.depth - load_.shared, vocabulary_))
                prompt.push_back(token);
            out.push_back(request(std::move(prompt), generated));
        }
        return out;
    }

    const EngineLoad& load_;
    int vocabulary_;
    CpuExecutor& executor_;
    EngineRig rig_;
    std::uint64_t next_seed_ = 1'000'000;
};

}  // namespace

std::uint32_t EngineLoad::streams_max() const {
    return *std::max_element(streams.begin(), streams.end());
}

std::uint32_t EngineLoad::blocks() const {
    return blocks_for(shared) + streams_max() * blocks_for(depth - shared + generated) +
           (repeats + 2) * blocks_for(prompt) + 16;
}

Spread spread_of(std::vector<double> values) {
    TAPROOT_ASSERT(!values.empty());
    std::sort(values.begin(), values.end());
    double upper = values[values.size() / 2], lower = values[(values.size() - 1) / 2];
    return {(lower + upper) / 2, values.front(), values.back()};
}

EngineResult measure_engine(const LoadedModel& model, CpuExecutor& executor,
                            const EngineLoad& load) {
    Rounds rounds(model, executor, load);
    rounds.prepare();
    rounds.prefill(nullptr);  // warms up
    std::vector<double> prefill;
    std::vector<std::vector<double>> decode(load.streams.size());
    for (std::uint32_t i = 0; i < load.repeats; ++i) {
        prefill.push_back(load.prompt / rounds.prefill(nullptr));
        for (std::size_t k = 0; k < decode.size(); ++k)
            decode[k].push_back(rounds.decode(load.streams[k], nullptr));
    }
    EngineResult out;
    out.prefill_tok_s = spread_of(std::move(prefill));
    rounds.prefill(&out.prefill_parts);
    for (std::size_t k = 0; k < decode.size(); ++k) {
        DecodeResult& result = out.decode.emplace_back();
        result.streams = load.streams[k];
        result.tok_s = spread_of(std::move(decode[k]));
        rounds.decode(load.streams[k], &result);
    }
    return out;
}

ModelWork prefill_work(const LoadedModel& model, std::uint32_t prompt) {
    ModelWork out;
    for (const GgufTensor& tensor : model.file.tensors()) {
        if (!tensor.name.starts_with("blk.") || tensor.dims_count != 2) continue;
        std::optional<DType> type = find_dtype(tensor.type->name);
        bool quantized = type && dtype_info(*type).quantized;
        (quantized ? out.int8_ops : out.float_flop) += 2.0 * static_cast<double>(tensor.elements);
    }
    const ModelConfig& c = model.config;
    double seen = 0.5 * prompt * (prompt + 1.0);  // pairs of a token and one it sees
    out.attention_flop = 4.0 * seen * c.head_dim * c.heads * c.layers;
    return out;
}

}  // namespace taproot::cli
