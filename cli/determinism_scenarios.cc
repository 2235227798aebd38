// SPDX-License-Identifier: Apache-2.0
#include "cli/determinism_scenarios.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"

namespace taproot::cli {
namespace {

// Answers of so many tokens where the way of computing shows in the prompt already.
constexpr std::uint32_t kShortAnswer = 4;
// One token a step is the slowest way by far: prompts beyond this would take as long as all others.
constexpr std::size_t kSingleChunkPromptMax = 513;
// The scalar reference is some hundred times slower.
constexpr std::size_t kRefPromptMax = 129;
constexpr std::uint32_t kRefAnswer = 2;

Tally check_cold(DeterminismBench& bench, CpuExecutor& executor, const RigOptions& options,
                 const RequestLimits& limits, std::string name) {
    Tally tally{.name = std::move(name)};
    std::vector<EngineAnswer> answers = run_cold_alone(bench, executor, options, limits);
    std::vector<std::size_t> chosen = bench.chosen(limits);
    for (std::size_t k = 0; k < chosen.size(); ++k)
        bench.compare(tally, chosen[k], limits, answers[k]);
    return tally;
}

// The baseline, and on each engine that has just computed a request the same once more: the first
// comparison, a full hit.
Result<Tally> make_baseline(DeterminismBench& bench, CpuExecutor& executor) {
    Tally tally{.name = "warm, full hit"};
    std::uint64_t cached = 0;
    std::vector<EngineAnswer> again;
    for (const link::Generate& request : bench.plan().requests) {
        EngineRig rig(bench.model(), executor, bench.rig_options());
        bench.baseline.push_back(rig.run({request})[0]);
        if (!bench.baseline.back().error.empty())
            return Error{ErrorCode::kInternal,
                         "the baseline failed: " + bench.baseline.back().error};
        again.push_back(rig.run({request})[0]);
        cached += again.back().cached_tokens;
    }
    for (std::size_t i = 0; i < again.size(); ++i) bench.compare(tally, i, {}, again[i]);
    if (tally.note.empty()) tally.note = fmt::format("{} tokens reused", cached);
    return tally;
}

// Partial hits: the engine has seen a beginning of the prompt, cut at a block's edge or inside one.
Tally check_warm_partial(DeterminismBench& bench, CpuExecutor& executor, bool mid_block) {
    Tally tally{.name = mid_block ? "warm, hit ends inside a block"
                                  : "warm, hit ends at a block's edge"};
    const RequestLimits limits{.generated_max = kShortAnswer};
    Random random(77);
    std::uint64_t cached = 0;
    for (std::size_t i : bench.chosen(limits)) {
        link::Generate first = bench.request(i, limits);
        std::size_t length = first.prompt.size();
        std::size_t cut = 1 + random.below(length);
        if (!mid_block) cut = std::max<std::size_t>(1, cut / kBlockTokens * kBlockTokens);
        first.prompt.resize(std::min(cut, length));
        first.max_tokens = 1;
        first.choices = 1;
        // Then something else, so that the common part really ends there.
        for (TokenId token :
             random_tokens(random.next(), 20, static_cast<int>(bench.model().text.tokens.size())))
            first.prompt.push_back(token);
        EngineRig rig(bench.model(), executor, bench.rig_options());
        rig.run({first});
        EngineAnswer answer = rig.run({bench.request(i, limits)})[0];
        cached += answer.cached_tokens;
        bench.compare(tally, i, limits, answer);
    }
    if (tally.note.empty()) tally.note = fmt::format("{} tokens reused", cached);
    return tally;
}

Tally check_batches(DeterminismBench& bench, CpuExecutor& executor, std::size_t batch_max,
                    std::uint32_t chunk, std::string name) {
    Tally tally{.name = std::move(name)};
    Random random(99);
    std::vector<std::size_t> order = bench.chosen({});
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    RigOptions options = bench.rig_options();
    options.prefill_chunk_tokens = chunk;
    EngineRig rig(bench.model(), executor, options);
    for (std::size_t begin = 0; begin < order.size();) {
        std::size_t size = std::min(order.size() - begin, 1 + random.below(batch_max));
        std::vector<link::Generate> batch;
        for (std::size_t k = 0; k < size; ++k)
            batch.push_back(bench.plan().requests[order[begin + k]]);
        std::vector<EngineAnswer> answers = rig.run(std::move(batch));
        for (std::size_t k = 0; k < size; ++k)
            bench.compare(tally, order[begin + k], {}, answers[k]);
        begin += size;
    }
    return tally;
}

// Room in RAM for all that the plan can compute.
std::uint64_t ram_for(const DeterminismBench& bench, const CpuExecutor& executor) {
    return std::uint64_t{bench.plan().blocks} * (executor.block_bytes() + 1024);
}

// Says how much came from RAM; nothing would have proved nothing.
void note_restored(Tally& tally, const EngineRig& rig) {
    std::uint64_t restored = rig.load().ram_restored_blocks_total;
    if (restored == 0) {
        tally.differing += 1;
        tally.note = "nothing came from RAM: this scenario proved nothing";
    } else if (tally.differing == 0) {
        if (!tally.note.empty()) tally.note += ", ";
        tally.note += fmt::format("{} blocks from RAM", restored);
    }
}

// A pool that cannot hold what runs: sequences lose their pages and come back.
Tally check_preemption(DeterminismBench& bench, CpuExecutor& executor, bool with_ram) {
    Tally tally{.name = with_ram ? "after preemption, from RAM" : "after preemption"};
    const RequestLimits limits{.prompt_max = 144};
    std::vector<std::size_t> order = bench.chosen(limits);
    std::size_t longest = 0;  // prompt and answer
    for (std::size_t i : order) {
        const link::Generate& request = bench.plan().requests[i];
        longest = std::max(longest, request.prompt.size() + request.max_tokens);
    }
    RigOptions options = bench.rig_options();
    options.blocks = static_cast<std::uint32_t>(longest / kBlockTokens + 4);
    if (with_ram) options.ram_bytes = ram_for(bench, executor);
    EngineRig rig(bench.model(), executor, options);
    // Long answers of short prompts together: they fight for the last pages.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return bench.plan().requests[a].max_tokens > bench.plan().requests[b].max_tokens;
    });
    std::vector<link::Generate> all;
    for (std::size_t i : order) all.push_back(bench.plan().requests[i]);
    std::vector<EngineAnswer> answers = rig.run(std::move(all));
    for (std::size_t k = 0; k < order.size(); ++k)
        bench.compare(tally, order[k], limits, answers[k]);
    std::uint64_t preemptions = rig.load().preemptions_total;
    if (preemptions == 0) {
        tally.differing += 1;
        tally.note = "no preemption happened: this scenario proved nothing";
    } else if (tally.note.empty()) {
        tally.note = fmt::format("{} preemptions", preemptions);
    }
    if (with_ram) note_restored(tally, rig);
    return tally;
}

// A pool that holds little more than one request: every one is computed, pushed out by the others,
// and computed again from what comes back from RAM.
Tally check_restored_from_ram(DeterminismBench& bench, CpuExecutor& executor) {
    Tally tally{.name = "restored from RAM"};
    std::vector<std::size_t> order = bench.chosen({});
    std::size_t largest = 0;  // pages of one request
    for (std::size_t i : order) {
        const link::Generate& request = bench.plan().requests[i];
        std::size_t pages = request.prompt.size() / kBlockTokens + 2 +
                            request.choices * (request.max_tokens / kBlockTokens + 2);
        largest = std::max(largest, pages);
    }
    RigOptions options = bench.rig_options();
    options.blocks = std::min(options.blocks, static_cast<std::uint32_t>(largest + 2));
    options.ram_bytes = ram_for(bench, executor);
    EngineRig rig(bench.model(), executor, options);
    for (int pass = 0; pass < 2; ++pass)
        for (std::size_t i : order) {
            EngineAnswer answer = rig.run({bench.plan().requests[i]})[0];
            if (pass == 1) bench.compare(tally, i, {}, answer);
        }
    note_restored(tally, rig);
    return tally;
}

}  // namespace

RequestLimits other_process_limits() {
    return {.generated_max = kShortAnswer};
}

std::vector<EngineAnswer> run_cold_alone(DeterminismBench& bench, CpuExecutor& executor,
                                         const RigOptions& options, const RequestLimits& limits) {
    std::vector<EngineAnswer> answers;
    for (std::size_t i : bench.chosen(limits)) {
        EngineRig rig(bench.model(), executor, options);
        answers.push_back(rig.run({bench.request(i, limits)})[0]);
    }
    return answers;
}

Result<void> run_determinism_scenarios(DeterminismBench& bench, const TallyDone& done) {
    TimePoint began = std::chrono::steady_clock::now();
    auto ended = [&](Tally tally) {
        TimePoint now = std::chrono::steady_clock::now();
        tally.seconds = to_seconds(now - began);
        done(std::move(tally));
        began = now;
    };
    const RequestLimits brief{.generated_max = kShortAnswer};
    TAPROOT_TRY(CpuExecutor * two, bench.executor(2, bench.isa()));
    TAPROOT_TRY(Tally full_hit, make_baseline(bench, *two));
    ended(std::move(full_hit));
    ended(check_warm_partial(bench, *two, false));
    ended(check_warm_partial(bench, *two, true));
    for (std::uint32_t chunk : {1u, 7u, 64u, 512u}) {
        RigOptions options = bench.rig_options();
        options.prefill_chunk_tokens = chunk;
        RequestLimits limits = brief;
        if (chunk == 1) limits.prompt_max = kSingleChunkPromptMax;
        ended(check_cold(bench, *two, options, limits, fmt::format("chunks of {}", chunk)));
    }
    ended(check_batches(bench, *two, 32, 512, "random batches of up to 32"));
    ended(check_batches(bench, *two, 32, 37, "random batches, chunks of 37"));
    ended(check_preemption(bench, *two, false));
    ended(check_preemption(bench, *two, true));
    ended(check_restored_from_ram(bench, *two));
    TAPROOT_TRY(CpuExecutor * one, bench.executor(1, bench.isa()));
    ended(check_cold(bench, *one, bench.rig_options(), brief, "1 thread"));
    for (Isa isa : available_isas()) {
        if (isa == bench.isa()) continue;
        TAPROOT_TRY(CpuExecutor * other, bench.executor(2, isa));
        RequestLimits limits = brief;
        if (isa == Isa::kRef) limits = {kRefPromptMax, kRefAnswer};
        ended(check_cold(bench, *other, bench.rig_options(), limits,
                         fmt::format("isa {}", to_string(isa))));
    }
    return {};
}

}  // namespace taproot::cli
