// SPDX-License-Identifier: Apache-2.0
#include "cli/determinism.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/random.h"

namespace taproot::cli {
namespace {

// What one instruction set can do in about two minutes, all scenarios together.
struct PlanSize {
    std::vector<std::size_t> edges;
    std::size_t requests;
    std::size_t filler_max;  // random lengths, until there are `requests`
    std::uint32_t generated;
    std::size_t long_answers;      // so many short prompts, every third,
    std::uint32_t long_generated;  // grow by several blocks
};

PlanSize plan_size(Isa isa, bool is_short) {
    PlanSize size{{1, 2, 7, 15, 16, 17, 24, 31, 32, 33}, 52, 33, 16, 12, 48};
    std::vector<std::size_t> longer = {64, 65, 127, 128, 129};
    if (is_short) {
        size.requests = 15;
        size.long_answers = 4;
    } else if (isa == Isa::kRef) {
        longer = {129, 144};
    } else {
        for (std::size_t length : {144, 200, 255, 256, 257, 384, 511, 512, 513, 777})
            longer.push_back(length);
        if (isa != Isa::kAvx2) longer.push_back(1500);
    }
    // Scalar code needs some 10 ms for a prompt token and 100 ms for a row of logits.
    if (isa == Isa::kRef) {
        size.filler_max = 8;
        size.generated = 2;
        size.long_answers = 3;
        size.long_generated = 34;
        if (is_short) longer.clear();
        if (!is_short) size.requests = 42;
    }
    size.edges.insert(size.edges.end(), longer.begin(), longer.end());
    return size;
}

std::vector<std::size_t> prompt_lengths(const PlanSize& size, Random& random) {
    std::vector<std::size_t> lengths = size.edges;
    while (lengths.size() < size.requests) lengths.push_back(1 + random.below(size.filler_max));
    return lengths;
}

}  // namespace

std::size_t DeterminismPlan::longest() const {
    std::size_t most = 0;
    for (const auto& request : requests) most = std::max(most, request.prompt.size());
    return most;
}

DeterminismPlan make_determinism_plan(Isa isa, bool is_short, std::uint64_t seed, int vocabulary) {
    Random random(seed);
    DeterminismPlan plan;
    PlanSize size = plan_size(isa, is_short);
    std::size_t index = 0, tokens = 0;
    for (std::size_t length : prompt_lengths(size, random)) {
        link::Generate request;
        request.prompt = random_tokens(random.next(), length, vocabulary);
        request.max_tokens = size.generated;
        if (length <= 33 && index % 3 == 1 && index / 3 < size.long_answers)
            request.max_tokens = size.long_generated;
        link::SamplingParams& sampling = request.sampling;
        sampling.ignore_eos = true;
        sampling.logits_hash = true;
        sampling.seed = random.next();
        sampling.temperature = 0;
        if (index % 2 == 1) {  // every second one is sampled, with all that reshapes a distribution
            sampling.temperature = 0.9f;
            sampling.top_k = index % 4 == 1 ? 50 : 0;
            sampling.top_p = 0.95f;
            sampling.repetition_penalty = index % 8 == 3 ? 1.1f : 1.0f;
        }
        request.choices = index % 11 == 5 ? 3 : 1;
        tokens += length + 3 * (request.max_tokens + 2 * kBlockTokens);
        plan.requests.push_back(std::move(request));
        ++index;
    }
    plan.blocks = static_cast<std::uint32_t>(tokens / kBlockTokens + 64);
    return plan;
}

Result<CpuExecutor*> DeterminismBench::executor(int threads, Isa isa) {
    auto& slot = executors_[{threads, isa}];
    if (!slot) {
        CpuExecutorOptions options;
        options.threads = threads;
        options.isa = isa;
        options.kv_blocks = plan_.blocks;
        options.kv_dtype = plan_.kv_dtype;
        TAPROOT_TRY(slot, CpuExecutor::create(model_, options));
    }
    return slot.get();
}

RigOptions DeterminismBench::rig_options() const {
    RigOptions options;
    options.blocks = plan_.blocks;
    return options;
}

std::vector<std::size_t> DeterminismBench::chosen(const RequestLimits& limits) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < plan_.requests.size(); ++i)
        if (plan_.requests[i].prompt.size() <= limits.prompt_max) out.push_back(i);
    return out;
}

link::Generate DeterminismBench::request(std::size_t index, const RequestLimits& limits) const {
    link::Generate out = plan_.requests[index];
    out.max_tokens = std::min(out.max_tokens, limits.generated_max);
    return out;
}

EngineAnswer DeterminismBench::expected(std::size_t index, const RequestLimits& limits) const {
    EngineAnswer out = baseline[index];
    for (auto& tokens : out.tokens)
        tokens.resize(std::min<std::size_t>(tokens.size(), limits.generated_max));
    for (auto& hashes : out.logits_hash)
        hashes.resize(std::min<std::size_t>(hashes.size(), limits.generated_max));
    return out;
}

void DeterminismBench::compare(Tally& tally, std::size_t index, const RequestLimits& limits,
                               const EngineAnswer& answer) const {
    const EngineAnswer wanted = expected(index, limits);
    std::size_t all = 0, same = 0;
    for (const auto& tokens : wanted.tokens) all += tokens.size();
    tally.requests += 1;
    tally.compared += all;
    if (answer == wanted) return;
    for (std::size_t c = 0; c < wanted.tokens.size() && answer.error.empty(); ++c)
        for (std::size_t t = 0; t < std::min(wanted.tokens[c].size(), answer.tokens[c].size()); ++t)
            same += wanted.tokens[c][t] == answer.tokens[c][t] &&
                    t < answer.logits_hash[c].size() &&
                    wanted.logits_hash[c][t] == answer.logits_hash[c][t];
    tally.differing += std::max<std::size_t>(1, all - same);
    if (tally.note.empty())
        tally.note = answer.error.empty()
                         ? fmt::format("first: request {} ({} prompt tokens)", index,
                                       plan_.requests[index].prompt.size())
                         : "request " + std::to_string(index) + ": " + answer.error;
}

std::string answer_line(const EngineAnswer& answer) {
    std::string out = answer.error;
    for (std::size_t c = 0; c < answer.tokens.size(); ++c)
        for (std::size_t t = 0; t < answer.tokens[c].size(); ++t)
            out += fmt::format("{}:{:x} ", answer.tokens[c][t], answer.logits_hash[c][t]);
    return out;
}

}  // namespace taproot::cli
