// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <boost/json/value.hpp>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "cli/bench_interference.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/reuse.h"
#include "cli/workload.h"

namespace taproot::cli {
namespace {

namespace json = boost::json;

struct ServeArguments {
    std::string url = "http://127.0.0.1:8080";
    std::string model;
    std::string api_key;
    std::vector<std::string> workloads = {"single", "shared", "turns"};
    std::uint32_t concurrency = 16;
    std::uint32_t prefix_words = 600;
    InterferenceOptions interference;
    std::uint64_t seed = 1;
    bool as_json = false;
};

// One workload's answers; filled by several threads.
class Recorder {
public:
    explicit Recorder(const ServeArguments& arguments, HttpClient client)
        : arguments_(arguments),
          client_(std::move(client)),
          start_(std::chrono::steady_clock::now()) {}

    // Every request asks for an exact output length, so that all servers do the same work.
    Result<ChatReply> ask(const std::vector<ChatTurn>& turns, std::uint32_t max_tokens) {
        ChatOptions options;
        options.model = arguments_.model;
        options.max_tokens = max_tokens;
        options.ignore_eos = true;
        options.return_token_ids = true;
        ServedRequest served;
        served.turns = turns;
        served.sent_at_ms = to_ms(std::chrono::steady_clock::now() - start_);
        Result<ChatReply> reply = stream_chat(client_, turns, options, nullptr);
        std::lock_guard lock(mutex_);
        if (!reply) {
            if (!failure_) failure_ = reply.error();
            return reply;
        }
        served.finished_at_ms = to_ms(std::chrono::steady_clock::now() - start_);
        served.cached_tokens = reply->cached_tokens;
        served.answer_ids = reply->token_ids;
        served_.push_back(std::move(served));
        replies_.push_back(*reply);
        return reply;
    }

    [[nodiscard]] const HttpClient& client() const { return client_; }
    void fail(Error error) { failure_ = std::move(error); }
    [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
    [[nodiscard]] const std::vector<ChatReply>& replies() const { return replies_; }
    [[nodiscard]] double seconds() const {
        return to_seconds(std::chrono::steady_clock::now() - start_);
    }

    // prompt_tokens, cached_tokens, what was possible, and requests per worker.
    void add_reuse(json::object& out) {
        Result<ReuseReport> report = measure_reuse(client_, served_);
        if (!report) {
            out["reuse_error"] =
                report.error().describe();  // another server: no /tokenize of our shape
            return;
        }
        out["prompt_tokens"] = report->prompt_tokens;
        out["cached_tokens"] = report->cached_tokens;
        out["possible_cached_tokens"] = report->possible_tokens;
        out["reuse_share"] = rounded(report->share(), 4);
        std::map<std::string, int> by_worker;
        for (const ChatReply& reply : replies_) ++by_worker[reply.worker];
        json::object workers;
        for (const auto& [worker, count] : by_worker) workers[worker] = count;
        out["requests_by_worker"] = std::move(workers);
    }

private:
    const ServeArguments& arguments_;
    HttpClient client_;
    TimePoint start_;
    std::mutex mutex_;
    std::vector<ServedRequest> served_;
    std::vector<ChatReply> replies_;
    std::optional<Error> failure_;
};

json::object run_interference(const ServeArguments& arguments, Recorder& recorder, Random& random) {
    Result<InterferenceReport> report =
        measure_interference(recorder.client(), arguments.model, arguments.interference, random);
    if (!report) {
        recorder.fail(report.error());
        return {};
    }
    return interference_json(*report);
}

json::object run_single(const ServeArguments&, Recorder& recorder, Random& random) {
    std::vector<double> decode, ttft;
    for (int i = 0; i < 3; ++i) {
        Result<ChatReply> reply = recorder.ask({{"user", words(random, 20)}}, 128);
        if (!reply) break;
        decode.push_back((reply->completion_tokens - 1) / (reply->decode_ms / 1000));
        ttft.push_back(reply->ttft_ms);
    }
    return {{"work", "single"},
            {"decode_tps", rounded(percentile(decode, .5), 1)},
            {"ttft_ms", rounded(percentile(ttft, .5), 1)}};
}

json::object run_shared(const ServeArguments& arguments, Recorder& recorder, Random& random) {
    std::vector<std::string> systems;
    for (int i = 0; i < 4; ++i) systems.push_back(words(random, arguments.prefix_words));
    std::vector<std::vector<ChatTurn>> requests;
    for (std::uint32_t i = 0; i < 4 * arguments.concurrency; ++i)
        requests.push_back({{"system", systems[i % 4]}, {"user", words(random, 12)}});
    std::atomic<std::size_t> next{0};
    std::vector<std::thread> clients;
    for (std::uint32_t c = 0; c < arguments.concurrency; ++c)
        clients.emplace_back([&] {
            for (std::size_t i; (i = next.fetch_add(1)) < requests.size();)
                if (!recorder.ask(requests[i], 64)) return;
        });
    for (std::thread& client : clients) client.join();
    double seconds = recorder.seconds();
    double tokens = 0, itl_max = 0;
    std::vector<double> ttft;
    for (const ChatReply& reply : recorder.replies()) {
        tokens += reply.completion_tokens;
        itl_max = std::max(itl_max, reply.itl_max_ms);
        ttft.push_back(reply.ttft_ms);
    }
    json::object out{
        {"work", "shared"},
        {"out_tps", rounded(tokens / seconds, 1)},
        {"req_s", rounded(static_cast<double>(recorder.replies().size()) / seconds, 2)},
        {"ttft_p50_ms", std::round(percentile(ttft, .5))},
        {"ttft_p95_ms", std::round(percentile(ttft, .95))},
        {"itl_max_ms", std::round(itl_max)}};
    recorder.add_reuse(out);
    return out;
}

// Eight sessions of five turns each; the whole history is sent again every turn.
json::object run_turns(const ServeArguments& arguments, Recorder& recorder, Random&) {
    constexpr int kSessions = 8, kTurns = 5;
    std::mutex mutex;
    std::vector<double> first, later;
    auto session = [&](int index) {
        Random random(arguments.seed * 1000 + static_cast<std::uint64_t>(index));
        std::vector<ChatTurn> history{{"system", words(random, 300)}};
        for (int turn = 0; turn < kTurns; ++turn) {
            history.push_back({"user", words(random, 40)});
            Result<ChatReply> reply = recorder.ask(history, 32);
            if (!reply) return;
            history.push_back({"assistant", reply->text});
            std::lock_guard lock(mutex);
            (turn == 0 ? first : later).push_back(reply->ttft_ms);
        }
    };
    std::vector<std::thread> clients;
    for (int i = 0; i < kSessions; ++i) clients.emplace_back(session, i);
    for (std::thread& client : clients) client.join();
    json::object out{{"work", "turns"},
                     {"first_ttft_ms", std::round(percentile(first, .5))},
                     {"later_ttft_p50_ms", std::round(percentile(later, .5))},
                     {"later_ttft_p95_ms", std::round(percentile(later, .95))},
                     {"wall_s", rounded(recorder.seconds(), 1)}};
    recorder.add_reuse(out);
    return out;
}

void print_result(const json::object& result, bool as_json) {
    if (as_json) {
        fmt::print("{}\n", json_text(result));
    } else {
        for (const auto& member : result)
            fmt::print("  {:<24} {}\n", std::string_view(member.key().data(), member.key().size()),
                       json_text(member.value()));
        fmt::print("\n");
    }
    std::fflush(stdout);
}

int bench_serve(const ServeArguments& arguments) {
    Result<ServerUrl> url = parse_server_url(arguments.url);
    if (!url) {
        fmt::print(stderr, "taproot bench serve: {}\n", url.error().describe());
        return 2;
    }
    HttpClient client(std::move(*url), arguments.api_key);
    Random random(arguments.seed);
    Recorder warm_up(arguments, client);
    if (Result<ChatReply> warm = warm_up.ask({{"user", "warm up " + words(random, 5)}}, 8); !warm) {
        fmt::print(stderr, "taproot bench serve: {}\n", warm.error().describe());
        return 1;
    }
    using Workload = json::object (*)(const ServeArguments&, Recorder&, Random&);
    const std::map<std::string, Workload> known = {{"single", run_single},
                                                   {"shared", run_shared},
                                                   {"turns", run_turns},
                                                   {"interference", run_interference}};
    for (const std::string& name : arguments.workloads) {
        Recorder recorder(arguments, client);
        json::object result = known.at(name)(arguments, recorder, random);
        if (recorder.failure()) {
            fmt::print(stderr, "taproot bench serve: {}: {}\n", name,
                       recorder.failure()->describe());
            return 1;
        }
        print_result(result, arguments.as_json);
    }
    return 0;
}

}  // namespace

void add_bench_serve(CLI::App& bench, RunCommand& run) {
    auto arguments = std::make_shared<ServeArguments>();
    CLI::App* command = bench.add_subcommand("serve",
                                             "Load a running server: single, shared prefixes, "
                                             "growing chats, a long prompt among streams");
    command->add_option("--url", arguments->url, "server (default http://127.0.0.1:8080)");
    command->add_option("--model", arguments->model, "model name (default: the server's first)");
    command
        ->add_option("--workload", arguments->workloads,
                     "single, shared, turns, interference (default: the first three)")
        ->check(CLI::IsMember({"single", "shared", "turns", "interference"}))
        ->delimiter(',');
    command->add_option("--concurrency", arguments->concurrency, "clients of `shared` (default 16)")
        ->check(CLI::Range(1, 1024));
    command
        ->add_option("--prefix-words", arguments->prefix_words,
                     "length of the shared prefixes (default 600)")
        ->check(CLI::Range(1, 100'000));
    command
        ->add_option("--long-prompt", arguments->interference.long_prompt_tokens,
                     "tokens of the prompt that interferes (default 6000)")
        ->check(CLI::Range(100, 1'000'000));
    command
        ->add_option("--running", arguments->interference.streams,
                     "streams that it interferes with (default 8)")
        ->check(CLI::Range(1, 1024));
    command->add_option("--seed", arguments->seed, "of the texts (default 1)");
    command->add_option("--api-key", arguments->api_key, "key, when the server asks for one")
        ->envname("TAPROOT_API_KEY");
    command->add_flag("--json", arguments->as_json, "one JSON line per workload");
    command->callback([arguments, &run] { run = [arguments] { return bench_serve(*arguments); }; });
}

}  // namespace taproot::cli
