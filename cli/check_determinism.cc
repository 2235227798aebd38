// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>

#include "base/random.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/engine_rig.h"
#include "kernels/fork_join.h"

// The public gate of promise 1: the same request gives the same token ids and the same bits of
// logits however it is computed. Each way of computing is a scenario that runs all requests and
// compares every answer with the baseline: cold, alone, one chunk.
namespace taproot::cli {
namespace {

struct CheckArguments {
    std::string model;
    bool is_short = false;
    bool emit = false;  // hidden: the child process prints its answers and ends
    bool as_json = false;
    std::uint64_t seed = 1;
};

constexpr std::uint32_t kGenerated = 16;
// Prompts at most this long also run through the scalar reference, which is some hundred times
// slower.
constexpr std::size_t kRefPromptMax = 24;

struct Plan {
    std::vector<link::Generate> requests;
    std::uint32_t blocks = 0;  // enough for the largest batch

    [[nodiscard]] std::size_t longest() const {
        std::size_t most = 0;
        for (const auto& request : requests) most = std::max(most, request.prompt.size());
        return most;
    }
};

// Lengths around the edges of blocks (16), tiles (128) and chunks, then random ones up to the
// limit.
std::vector<std::size_t> prompt_lengths(bool is_short, Random& random) {
    std::vector<std::size_t> lengths = {1, 2, 7, 15, 16, 17, 24, 31, 32, 33, 64, 65, 127, 128, 129};
    if (is_short) return lengths;
    for (std::size_t more : {144, 200, 255, 256, 257, 300, 384, 500, 511, 512, 513, 640, 777, 1000,
                             1024, 1300, 1499, 1500})
        lengths.push_back(more);
    while (lengths.size() < 44) lengths.push_back(static_cast<std::size_t>(random.between(1, 700)));
    return lengths;
}

Plan make_plan(const CheckArguments& arguments, int vocab) {
    Random random(arguments.seed);
    Plan plan;
    std::size_t index = 0;
    for (std::size_t length : prompt_lengths(arguments.is_short, random)) {
        link::Generate request;
        request.prompt = random_tokens(random.next(), length, vocab);
        request.max_tokens = kGenerated;
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
        plan.requests.push_back(std::move(request));
        ++index;
    }
    std::size_t tokens = 0;
    for (const auto& request : plan.requests)
        tokens += request.prompt.size() + 3 * (kGenerated + 2 * kBlockTokens);
    plan.blocks = static_cast<std::uint32_t>(tokens / kBlockTokens + 64);
    return plan;
}

struct Tally {
    std::string name;
    std::size_t compared = 0;
    std::size_t differing = 0;
    std::string note = {};
};

// Everything a scenario needs; executors are made when first asked for and kept.
class Bench {
public:
    Bench(const LoadedModel& model, Plan plan) : model_(model), plan_(std::move(plan)) {}

    Result<CpuExecutor*> executor(int threads, Isa isa) {
        auto& slot = executors_[{threads, isa}];
        if (!slot) {
            CpuExecutorOptions options;
            options.threads = threads;
            options.isa = isa;
            options.kv_blocks = plan_.blocks;
            TAPROOT_TRY(slot, CpuExecutor::create(model_, options));
        }
        return slot.get();
    }
    RigOptions rig_options() const {
        RigOptions options;
        options.blocks = plan_.blocks;
        return options;
    }
    const LoadedModel& model() const { return model_; }
    const Plan& plan() const { return plan_; }

    std::vector<EngineAnswer> baseline;

    void compare(Tally& tally, std::size_t index, const EngineAnswer& answer) const {
        const EngineAnswer& expected = baseline[index];
        for (std::size_t c = 0; c < expected.tokens.size(); ++c)
            tally.compared += expected.tokens[c].size();
        if (answer == expected) return;
        std::size_t same = 0;
        for (std::size_t c = 0; c < expected.tokens.size() && answer.error.empty(); ++c)
            for (std::size_t t = 0;
                 t < std::min(expected.tokens[c].size(), answer.tokens[c].size()); ++t)
                same += expected.tokens[c][t] == answer.tokens[c][t] &&
                        t < answer.logits_hash[c].size() &&
                        expected.logits_hash[c][t] == answer.logits_hash[c][t];
        std::size_t all = 0;
        for (const auto& tokens : expected.tokens) all += tokens.size();
        tally.differing += std::max<std::size_t>(1, all - same);
        if (tally.note.empty())
            tally.note = answer.error.empty()
                             ? fmt::format("first: request {} ({} prompt tokens)", index,
                                           plan_.requests[index].prompt.size())
                             : "request " + std::to_string(index) + ": " + answer.error;
    }

private:
    const LoadedModel& model_;
    Plan plan_;
    std::map<std::pair<int, Isa>, std::unique_ptr<CpuExecutor>> executors_;
};

std::vector<EngineAnswer> run_cold_alone(Bench& bench, CpuExecutor& executor,
                                         const RigOptions& options) {
    std::vector<EngineAnswer> answers;
    for (const link::Generate& request : bench.plan().requests) {
        EngineRig rig(bench.model(), executor, options);
        answers.push_back(rig.run({request})[0]);
    }
    return answers;
}

Tally check_cold(Bench& bench, CpuExecutor& executor, const RigOptions& options, std::string name) {
    Tally tally{.name = std::move(name)};
    std::vector<EngineAnswer> answers = run_cold_alone(bench, executor, options);
    for (std::size_t i = 0; i < answers.size(); ++i) bench.compare(tally, i, answers[i]);
    return tally;
}

// Full hit: the same request twice on one engine.
Tally check_warm_full(Bench& bench, CpuExecutor& executor) {
    Tally tally{.name = "warm, full hit"};
    std::uint64_t cached = 0;
    for (std::size_t i = 0; i < bench.plan().requests.size(); ++i) {
        EngineRig rig(bench.model(), executor, bench.rig_options());
        rig.run({bench.plan().requests[i]});
        EngineAnswer again = rig.run({bench.plan().requests[i]})[0];
        cached += again.cached_tokens;
        bench.compare(tally, i, again);
    }
    if (tally.note.empty()) tally.note = fmt::format("{} tokens reused", cached);
    return tally;
}

// Partial hits: the engine has seen a beginning of the prompt, cut at a block's edge or inside one.
Tally check_warm_partial(Bench& bench, CpuExecutor& executor, bool mid_block) {
    Tally tally{.name = mid_block ? "warm, hit ends inside a block"
                                  : "warm, hit ends at a block's edge"};
    Random random(77);
    std::uint64_t cached = 0;
    for (std::size_t i = 0; i < bench.plan().requests.size(); ++i) {
        link::Generate first = bench.plan().requests[i];
        std::size_t length = first.prompt.size();
        std::size_t cut = 1 + random.below(length);
        if (!mid_block) cut = std::max<std::size_t>(1, cut / kBlockTokens * kBlockTokens);
        first.prompt.resize(std::min(cut, length));
        // Then something else, so that the common part really ends there.
        for (TokenId token :
             random_tokens(random.next(), 20, static_cast<int>(bench.model().text.tokens.size())))
            first.prompt.push_back(token);
        EngineRig rig(bench.model(), executor, bench.rig_options());
        rig.run({first});
        EngineAnswer answer = rig.run({bench.plan().requests[i]})[0];
        cached += answer.cached_tokens;
        bench.compare(tally, i, answer);
    }
    if (tally.note.empty()) tally.note = fmt::format("{} tokens reused", cached);
    return tally;
}

Tally check_batches(Bench& bench, CpuExecutor& executor, std::size_t batch_max, std::uint32_t chunk,
                    std::string name) {
    Tally tally{.name = std::move(name)};
    Random random(99);
    std::vector<std::size_t> order(bench.plan().requests.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
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
        for (std::size_t k = 0; k < size; ++k) bench.compare(tally, order[begin + k], answers[k]);
        begin += size;
    }
    return tally;
}

// A pool that cannot hold what runs: sequences lose their pages and come back.
Tally check_preemption(Bench& bench, CpuExecutor& executor) {
    Tally tally{.name = "after preemption"};
    RigOptions options = bench.rig_options();
    options.blocks = static_cast<std::uint32_t>(
        (bench.plan().longest() + 3 * (kGenerated + kBlockTokens)) / kBlockTokens + 3);
    EngineRig rig(bench.model(), executor, options);
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < bench.plan().requests.size(); ++i) order.push_back(i);
    // Short prompts together: their growing answers fight for the last pages.
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return bench.plan().requests[a].prompt.size() < bench.plan().requests[b].prompt.size();
    });
    std::vector<link::Generate> all;
    for (std::size_t i : order) all.push_back(bench.plan().requests[i]);
    std::vector<EngineAnswer> answers = rig.run(std::move(all));
    for (std::size_t k = 0; k < order.size(); ++k) bench.compare(tally, order[k], answers[k]);
    std::uint64_t preemptions = rig.load().preemptions_total;
    if (preemptions == 0) {
        tally.differing += 1;
        tally.note = "no preemption happened: this scenario proved nothing";
    } else if (tally.note.empty()) {
        tally.note = fmt::format("{} preemptions", preemptions);
    }
    return tally;
}

Tally check_reference(Bench& bench, CpuExecutor& reference) {
    Tally tally{.name = "isa ref (short prompts)"};
    for (std::size_t i = 0; i < bench.plan().requests.size(); ++i) {
        if (bench.plan().requests[i].prompt.size() > kRefPromptMax ||
            bench.plan().requests[i].choices > 1)
            continue;
        EngineRig rig(bench.model(), reference, bench.rig_options());
        bench.compare(tally, i, rig.run({bench.plan().requests[i]})[0]);
    }
    return tally;
}

// --- a second process
// -------------------------------------------------------------------------------

std::string answer_line(const EngineAnswer& answer) {
    std::string out = answer.error;
    for (std::size_t c = 0; c < answer.tokens.size(); ++c)
        for (std::size_t t = 0; t < answer.tokens[c].size(); ++t)
            out += fmt::format("{}:{:x} ", answer.tokens[c][t], answer.logits_hash[c][t]);
    return out;
}

Result<Tally> check_other_process(Bench& bench, const CheckArguments& arguments) {
    Tally tally{.name = "another process"};
    std::error_code code;
    std::string self = std::filesystem::read_symlink("/proc/self/exe", code).string();
    std::string quoted;
    for (char c : arguments.model) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    std::string command =
        fmt::format("'{}' check determinism --emit {} --seed {} --model '{}'", self,
                    arguments.is_short ? "--short" : "", arguments.seed, quoted);
    FILE* child = ::popen(command.c_str(), "r");
    if (child == nullptr) return Error{ErrorCode::kIo, "cannot start a second process"};
    std::string output;
    char buffer[16 * 1024];
    for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, child)) > 0;)
        output.append(buffer, got);
    int status = ::pclose(child);
    if (status != 0)
        return Error{ErrorCode::kInternal,
                     fmt::format("the second process ended with status {}", status)};
    std::size_t index = 0, begin = 0, end;
    for (; (end = output.find('\n', begin)) != std::string::npos && index < bench.baseline.size();
         begin = end + 1, ++index) {
        for (const auto& tokens : bench.baseline[index].tokens) tally.compared += tokens.size();
        if (output.substr(begin, end - begin) != answer_line(bench.baseline[index]))
            ++tally.differing;
    }
    if (index != bench.baseline.size())
        return Error{ErrorCode::kInternal, "the second process gave too few answers"};
    return tally;
}

// --- all of it
// --------------------------------------------------------------------------------------

Result<std::vector<Tally>> run_all(Bench& bench, const CheckArguments& arguments, Isa best) {
    std::vector<Tally> out;
    auto done = [&](Tally tally) {
        if (!arguments.as_json) {
            fmt::print("  {:<36} {:>7} compared {:>5} differ  {}\n", tally.name, tally.compared,
                       tally.differing, tally.note);
            std::fflush(stdout);
        }
        out.push_back(std::move(tally));
    };
    TAPROOT_TRY(CpuExecutor * two, bench.executor(2, best));
    bench.baseline = run_cold_alone(bench, *two, bench.rig_options());
    for (const EngineAnswer& answer : bench.baseline)
        if (!answer.error.empty())
            return Error{ErrorCode::kInternal, "the baseline failed: " + answer.error};

    done(check_warm_full(bench, *two));
    done(check_warm_partial(bench, *two, false));
    done(check_warm_partial(bench, *two, true));
    for (std::uint32_t chunk : {1u, 7u, 64u, 512u}) {
        RigOptions options = bench.rig_options();
        options.prefill_chunk_tokens = chunk;
        done(check_cold(bench, *two, options, fmt::format("chunks of {}", chunk)));
    }
    done(check_batches(bench, *two, 32, 512, "random batches of up to 32"));
    done(check_batches(bench, *two, 32, 37, "random batches, chunks of 37"));
    done(check_preemption(bench, *two));
    TAPROOT_TRY(CpuExecutor * one, bench.executor(1, best));
    done(check_cold(bench, *one, bench.rig_options(), "1 thread"));
    for (Isa isa : available_isas()) {
        if (isa == best) continue;
        TAPROOT_TRY(CpuExecutor * other, bench.executor(2, isa));
        if (isa == Isa::kRef)
            done(check_reference(bench, *other));
        else
            done(check_cold(bench, *other, bench.rig_options(),
                            fmt::format("isa {}", to_string(isa))));
    }
    TAPROOT_TRY(Tally process, check_other_process(bench, arguments));
    done(std::move(process));
    return out;
}

int report(const CheckArguments& arguments, const Bench& bench, const std::vector<Tally>& tallies,
           Isa isa) {
    std::size_t compared = 0, differing = 0;
    boost::json::array scenarios;
    for (const Tally& tally : tallies) {
        compared += tally.compared;
        differing += tally.differing;
        scenarios.push_back({{"name", tally.name},
                             {"compared", tally.compared},
                             {"differing", tally.differing},
                             {"note", tally.note}});
    }
    if (arguments.as_json)
        fmt::print("{}\n", boost::json::serialize(
                               boost::json::object{{"requests", bench.plan().requests.size()},
                                                   {"isa", to_string(isa)},
                                                   {"compared", compared},
                                                   {"differing", differing},
                                                   {"scenarios", std::move(scenarios)}}));
    else
        fmt::print(
            "{} requests, {} ways of computing them: {} tokens with their logits compared, {} "
            "differ\n",
            bench.plan().requests.size(), tallies.size(), compared, differing);
    return differing == 0 ? 0 : 1;
}

int fail(const Error& error, int code) {
    fmt::print(stderr, "taproot check determinism: {}\n", error.describe());
    return code;
}

int check_determinism(const CheckArguments& arguments) {
    Result<LoadedModel> model = load_model(arguments.model);
    if (!model) return fail(model.error(), 2);
    Result<Isa> isa = choose_isa();
    if (!isa) return fail(isa.error(), 2);
    Bench bench(*model, make_plan(arguments, static_cast<int>(model->text.tokens.size())));
    if (arguments.emit) {
        Result<CpuExecutor*> executor = bench.executor(2, *isa);
        if (!executor) return fail(executor.error(), 1);
        for (const EngineAnswer& answer : run_cold_alone(bench, **executor, bench.rig_options()))
            fmt::print("{}\n", answer_line(answer));
        return 0;
    }
    if (!arguments.as_json)
        fmt::print(
            "{} requests of 1 to {} prompt tokens, baseline: cold, alone, isa {}, 2 threads\n",
            bench.plan().requests.size(), bench.plan().longest(), to_string(*isa));
    Result<std::vector<Tally>> tallies = run_all(bench, arguments, *isa);
    if (!tallies) return fail(tallies.error(), 1);
    return report(arguments, bench, *tallies, *isa);
}

}  // namespace

void add_check(CLI::App& app, RunCommand& run) {
    CLI::App* check = app.add_subcommand("check", "Prove what is promised");
    check->require_subcommand(1);
    auto arguments = std::make_shared<CheckArguments>();
    CLI::App* command = check->add_subcommand("determinism",
                                              "Same token ids and logits bits: cold, warm, "
                                              "chunked, batched, preempted, any threads or ISA");
    command->add_option("--model", arguments->model, "model file (GGUF)")->required();
    command->add_flag("--short", arguments->is_short, "fewer and shorter requests (for CI)");
    command->add_flag("--json", arguments->as_json, "one JSON object");
    command->add_option("--seed", arguments->seed, "of the requests (default 1)");
    command->add_flag("--emit", arguments->emit)->group("");
    command->callback(
        [arguments, &run] { run = [arguments] { return check_determinism(*arguments); }; });
}

}  // namespace taproot::cli
