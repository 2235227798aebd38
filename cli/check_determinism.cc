// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "cli/commands.h"
#include "cli/determinism_scenarios.h"
#include "cli/json_text.h"

// The public gate of promise 1: the same request gives the same token ids and the same bits of
// logits however it is computed.
namespace taproot::cli {
namespace {

struct CheckArguments {
    std::string model;
    bool is_short = false;
    bool emit = false;  // hidden: the child process prints its answers and ends
    bool as_json = false;
    std::uint64_t seed = 1;
    std::string kv_dtype = "f16";
};

Result<std::string> run_child(const CheckArguments& arguments) {
    std::error_code code;
    std::string self = std::filesystem::read_symlink("/proc/self/exe", code).string();
    std::string quoted;
    for (char c : arguments.model) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    std::string command = fmt::format(
        "'{}' check determinism --emit {} --seed {} --kv-cache-dtype {} --model '{}'", self,
        arguments.is_short ? "--short" : "", arguments.seed, arguments.kv_dtype, quoted);
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
    return output;
}

// What run_child() does, in the child.
int emit_answers(DeterminismBench& bench) {
    Result<CpuExecutor*> executor = bench.executor(2, bench.isa());
    if (!executor) {
        fmt::print(stderr, "taproot check determinism: {}\n", executor.error().describe());
        return 1;
    }
    for (const EngineAnswer& answer :
         run_cold_alone(bench, **executor, bench.rig_options(), other_process_limits()))
        fmt::print("{}\n", answer_line(answer));
    return 0;
}

Result<Tally> check_other_process(DeterminismBench& bench, const CheckArguments& arguments) {
    Tally tally{.name = "another process"};
    TimePoint began = std::chrono::steady_clock::now();
    TAPROOT_TRY(std::string output, run_child(arguments));
    const RequestLimits limits = other_process_limits();
    std::size_t begin = 0;
    for (std::size_t index : bench.chosen(limits)) {
        std::size_t end = output.find('\n', begin);
        if (end == std::string::npos)
            return Error{ErrorCode::kInternal, "the second process gave too few answers"};
        EngineAnswer expected = bench.expected(index, limits);
        tally.requests += 1;
        for (const auto& tokens : expected.tokens) tally.compared += tokens.size();
        if (output.substr(begin, end - begin) != answer_line(expected)) ++tally.differing;
        begin = end + 1;
    }
    tally.seconds = to_seconds(std::chrono::steady_clock::now() - began);
    return tally;
}

Result<std::vector<Tally>> run_all(DeterminismBench& bench, const CheckArguments& arguments) {
    std::vector<Tally> out;
    auto done = [&](Tally tally) {
        if (!arguments.as_json) {
            fmt::print("  {:<34} {:>3} requests {:>6} compared {:>4} differ {:>6.1f} s  {}\n",
                       tally.name, tally.requests, tally.compared, tally.differing, tally.seconds,
                       tally.note);
            std::fflush(stdout);
        }
        out.push_back(std::move(tally));
    };
    TAPROOT_CHECK_OK(run_determinism_scenarios(bench, done));
    TAPROOT_TRY(Tally process, check_other_process(bench, arguments));
    done(std::move(process));
    return out;
}

int report(const CheckArguments& arguments, const DeterminismBench& bench,
           const std::vector<Tally>& tallies) {
    std::size_t compared = 0, differing = 0;
    double seconds = 0;
    boost::json::array scenarios;
    for (const Tally& tally : tallies) {
        compared += tally.compared;
        differing += tally.differing;
        seconds += tally.seconds;
        scenarios.push_back({{"name", tally.name},
                             {"requests", tally.requests},
                             {"compared", tally.compared},
                             {"differing", tally.differing},
                             {"seconds", rounded(tally.seconds, 1)},
                             {"note", tally.note}});
    }
    if (arguments.as_json)
        fmt::print("{}\n", json_text(boost::json::object{{"requests", bench.plan().requests.size()},
                                                         {"isa", to_string(bench.isa())},
                                                         {"compared", compared},
                                                         {"differing", differing},
                                                         {"seconds", rounded(seconds, 1)},
                                                         {"scenarios", std::move(scenarios)}}));
    else
        fmt::print(
            "{} requests, {} ways of computing them in {:.0f} s: {} tokens with their logits "
            "compared, {} differ\n",
            bench.plan().requests.size(), tallies.size(), seconds, compared, differing);
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
    DeterminismPlan plan = make_determinism_plan(*isa, arguments.is_short, arguments.seed,
                                                 static_cast<int>(model->text.tokens.size()));
    plan.kv_dtype = parse_kv_dtype(arguments.kv_dtype).value_or(plan.kv_dtype);
    DeterminismBench bench(*model, *isa, std::move(plan));
    if (arguments.emit) return emit_answers(bench);
    if (!arguments.as_json)
        fmt::print(
            "{} requests of 1 to {} prompt tokens, baseline: cold, alone, isa {}, {} KV, 2 "
            "threads\n",
            bench.plan().requests.size(), bench.plan().longest(), to_string(*isa),
            arguments.kv_dtype);
    Result<std::vector<Tally>> tallies = run_all(bench, arguments);
    if (!tallies) return fail(tallies.error(), 1);
    return report(arguments, bench, *tallies);
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
    command
        ->add_option("--kv-cache-dtype", arguments->kv_dtype,
                     "how cached KV is stored: f16 (default), bf16, f32, int8")
        ->check(CLI::IsMember({"f16", "bf16", "f32", "int8"}));
    command->add_flag("--emit", arguments->emit)->group("");
    command->callback(
        [arguments, &run] { run = [arguments] { return check_determinism(*arguments); }; });
}

}  // namespace taproot::cli
