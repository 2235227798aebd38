// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <regex.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/kernel_cases.h"
#include "cli/roofs_json.h"
#include "kernels/fork_join.h"

// Every kernel over the shapes that matter: time, rate, share of what this machine can do, and how
// far the result is from the scalar reference (bits) and from arithmetic in double.
namespace taproot::cli {
namespace {

namespace json = boost::json;

struct KernelArguments {
    std::string filter;
    int threads = 0;
    double case_ms = 15;
    bool list = false;
    bool as_json = false;
};

// A POSIX extended regular expression that is searched for; an empty one matches all.
class Filter {
public:
    static Result<Filter> compile(const std::string& text) {
        Filter out;
        if (text.empty()) return out;
        out.compiled_.reset(new regex_t());
        int code = ::regcomp(out.compiled_.get(), text.c_str(), REG_EXTENDED | REG_NOSUB);
        if (code == 0) return out;
        char message[200];
        ::regerror(code, out.compiled_.get(), message, sizeof message);
        return invalid_argument(fmt::format("'{}' is no regular expression: {}", text, message),
                                "--filter");
    }
    [[nodiscard]] bool matches(const std::string& name) const {
        return compiled_ == nullptr || ::regexec(compiled_.get(), name.c_str(), 0, nullptr, 0) == 0;
    }

private:
    struct Free {
        void operator()(regex_t* compiled) const {
            ::regfree(compiled);
            delete compiled;
        }
    };
    std::unique_ptr<regex_t, Free> compiled_;
};

struct Timing {
    double best_s = 0;
    double median_s = 0;
};

// Samples of at least 20 us each, so that the clock costs nothing, until the time is spent; at
// least 5, or 3 of something slow.
Timing time_runs(const std::function<void()>& run, double budget_s) {
    auto sample = [&](int calls) {
        TimePoint begin = std::chrono::steady_clock::now();
        for (int i = 0; i < calls; ++i) run();
        return to_seconds(std::chrono::steady_clock::now() - begin) / calls;
    };
    double first = sample(1);  // warms up
    int calls = std::clamp(static_cast<int>(20e-6 / std::max(first, 1e-9)), 1, 1000);
    std::size_t least = first > 0.1 ? 3 : 5;
    std::vector<double> samples;
    TimePoint begin = std::chrono::steady_clock::now();
    do {
        samples.push_back(sample(calls));
    } while (samples.size() < least ||
             to_seconds(std::chrono::steady_clock::now() - begin) < budget_s);
    std::sort(samples.begin(), samples.end());
    return {samples.front(), samples[samples.size() / 2]};
}

struct Measured {
    std::string name;
    Timing time;
    double ops = 0, bytes = 0;
    std::string_view roof;        // the one that binds; empty: none
    std::optional<double> share;  // of it
    KernelCheck check;
};

Measured measure(const KernelCase& one, const Roofs& roofs, double budget_s) {
    Measured out{.name = one.name,
                 .time = time_runs(one.run, budget_s),
                 .ops = one.ops,
                 .bytes = one.bytes,
                 .roof = {},
                 .share = {},
                 .check = {}};
    if (one.roofed) {
        double compute_s = one.ops / (one.int8 ? roofs.int8_ops_per_s : roofs.fp32_flop_per_s);
        double read_s = one.from_memory ? one.bytes / roofs.read_bytes_per_s.back() : 0;
        out.roof = read_s > compute_s ? "read" : one.int8 ? "int8" : "fp32";
        out.share = std::max(read_s, compute_s) / out.time.best_s;
    }
    out.check = one.check();
    return out;
}

json::object measured_json(const Measured& m) {
    json::value roof, share;  // null
    if (m.share) {
        roof = std::string(m.roof);
        share = rounded(*m.share, 3);
    }
    return {{"name", m.name},
            {"us", rounded(m.time.best_s * 1e6, 3)},
            {"us_median", rounded(m.time.median_s * 1e6, 3)},
            {"gop_s", rounded(m.ops / m.time.best_s * 1e-9, 2)},
            {"gb_s", rounded(m.bytes / m.time.best_s * 1e-9, 2)},
            {"roof", std::move(roof)},
            {"share", std::move(share)},
            {"compared", m.check.compared},
            {"differing", m.check.differing},
            {"error", rounded(m.check.error, 9)}};
}

void print_measured(const Measured& m) {
    std::string share = m.share ? fmt::format("{:3.0f} % of {}", 100 * *m.share, m.roof) : "";
    fmt::print("{:<52} {:11.2f} us {:9.1f} Gop/s {:7.1f} GB/s  {:<14} {:>4} differ, error {:.1e}\n",
               m.name, m.time.best_s * 1e6, m.ops / m.time.best_s * 1e-9,
               m.bytes / m.time.best_s * 1e-9, share, m.check.differing, m.check.error);
    std::fflush(stdout);
}

int fail(const Error& error, int code) {
    fmt::print(stderr, "taproot bench kernels: {}\n", error.describe());
    return code;
}

int bench_kernels(const KernelArguments& arguments) {
    Result<Isa> isa = choose_isa();
    if (!isa) return fail(isa.error(), 2);
    Result<Filter> filter = Filter::compile(arguments.filter);
    if (!filter) return fail(filter.error(), 2);
    RoofOptions options;
    options.isa = *isa;
    options.threads = arguments.threads > 0 ? arguments.threads : default_thread_count();
    ForkJoin pool(options.threads);
    KernelContext context{ops_for(*isa), pool}, reference{ops_for(Isa::kRef), pool};
    std::optional<Roofs> roofs;
    json::array results;
    std::size_t cases = 0, differing = 0;
    auto wanted = [&](const std::string& name) {
        if (!filter->matches(name)) return false;
        ++cases;
        if (arguments.list) fmt::print("{}\n", name);
        return !arguments.list;
    };
    auto use = [&](const KernelCase& one) {
        Measured m = measure(one, *roofs, arguments.case_ms * 1e-3);
        differing += m.check.differing;
        if (arguments.as_json)
            results.push_back(measured_json(m));
        else
            print_measured(m);
    };
    if (!arguments.list) {
        Result<Roofs> measured = measure_roofs(options);
        if (!measured) return fail(measured.error(), 1);
        roofs = std::move(*measured);
    }
    KernelCases families{context, reference, wanted, use};
    linear_cases(families);
    attention_cases(families);
    elementwise_cases(families);
    if (cases == 0)
        return fail(invalid_argument("no kernel has such a name (--list shows all)", "--filter"),
                    2);
    if (arguments.as_json && roofs)
        fmt::print("{}\n", json_text(json::object{{"roofs", roofs_json(*roofs, options)},
                                                  {"kernels", std::move(results)}}));
    return differing == 0 ? 0 : 1;
}

}  // namespace

void add_bench_kernels(CLI::App& bench, RunCommand& run) {
    auto arguments = std::make_shared<KernelArguments>();
    CLI::App* command = bench.add_subcommand(
        "kernels", "Each kernel over the model's shapes: rates, shares of the roofs, exactness");
    command->add_option("--filter", arguments->filter,
                        "only names in which this (extended) regular expression is found");
    command->add_flag("--list", arguments->list, "only print the names");
    command->add_option("--threads", arguments->threads, "default: this machine's cores")
        ->check(CLI::Range(1, 1024));
    command->add_option("--case-ms", arguments->case_ms, "time to spend on each (default 15)")
        ->check(CLI::Range(0.0, 10'000.0));
    command->add_flag("--json", arguments->as_json, "one JSON object");
    command->callback(
        [arguments, &run] { run = [arguments] { return bench_kernels(*arguments); }; });
}

}  // namespace taproot::cli
