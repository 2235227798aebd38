// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_interference.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/chat_client.h"
#include "cli/json_text.h"
#include "cli/workload.h"

namespace taproot::cli {
namespace {

constexpr auto kStartPatience = std::chrono::seconds(60);

// Streams that run until told to stop; each on its own thread. Owner: the measuring thread.
class RunningStreams {
public:
    RunningStreams(const HttpClient& client, const std::string& model,
                   const InterferenceOptions& options, Random& random)
        : client_(client), options_(options) {
        chat_.model = model;
        chat_.max_tokens = options.answer_tokens;
        chat_.ignore_eos = true;
        chat_.stop = &stop_;
        for (std::uint32_t i = 0; i < options.streams; ++i)
            threads_.emplace_back(&RunningStreams::run, this, random.next());
    }
    ~RunningStreams() { stop(); }

    // Until every stream has given a text, and then for the steady time.
    Result<void> wait_until_steady() {
        std::unique_lock lock(mutex_);
        bool begun = changed_.wait_for(lock, kStartPatience,
                                       [&] { return failure_ || begun_ >= options_.streams; });
        if (failure_) return *failure_;
        if (!begun) return Error{ErrorCode::kUnavailable, "some streams gave no text within 60 s"};
        changed_.wait_for(lock, std::chrono::duration<double, std::milli>(options_.steady_ms),
                          [&] { return failure_.has_value(); });
        return failure_ ? Result<void>(*failure_) : Result<void>();
    }

    // Each stream is heard once more before it is closed: a stall that lasts until now counts.
    void stop() {
        stop_ = true;
        for (std::thread& thread : threads_)
            if (thread.joinable()) thread.join();
    }

    // After stop().
    [[nodiscard]] const std::optional<Error>& failure() const { return failure_; }
    [[nodiscard]] const std::vector<std::vector<TimePoint>>& texts() const { return texts_; }

private:
    void run(std::uint64_t seed) {
        Random random(seed);
        bool counted = false;
        auto on_text = [&](std::string_view) {
            if (std::exchange(counted, true)) return;
            std::lock_guard lock(mutex_);
            ++begun_;
            changed_.notify_all();
        };
        while (!stop_.load()) {
            Result<ChatReply> reply =
                stream_chat(client_, {{"user", words(random, 20)}}, chat_, on_text);
            std::lock_guard lock(mutex_);
            if (!reply) {
                if (!failure_) failure_ = reply.error();
                changed_.notify_all();
                return;
            }
            texts_.push_back(std::move(reply->text_times));
        }
    }

    const HttpClient& client_;
    const InterferenceOptions& options_;
    ChatOptions chat_;
    std::atomic<bool> stop_{false};
    std::mutex mutex_;  // several threads report
    std::condition_variable changed_;
    std::uint32_t begun_ = 0;
    std::optional<Error> failure_;
    std::vector<std::vector<TimePoint>> texts_;  // of each answer
    std::vector<std::thread> threads_;
};

Result<ChatReply> ask(const HttpClient& client, const std::string& model, std::string text,
                      std::uint32_t max_tokens) {
    ChatOptions options;
    options.model = model;
    options.max_tokens = max_tokens;
    options.ignore_eos = true;
    return stream_chat(client, {{"user", std::move(text)}}, options, nullptr);
}

// Words that make about `tokens` tokens for this server: it counts two short texts for us.
Result<std::uint32_t> words_for(const HttpClient& client, const std::string& model,
                                std::uint32_t tokens, Random& random) {
    constexpr std::uint32_t kFew = 50, kMany = 450;
    TAPROOT_TRY(ChatReply few, ask(client, model, words(random, kFew), 1));
    TAPROOT_TRY(ChatReply many, ask(client, model, words(random, kMany), 1));
    if (many.prompt_tokens <= few.prompt_tokens)
        return Error{ErrorCode::kUnavailable, "the server tells no usage.prompt_tokens"};
    double per_word = (many.prompt_tokens - few.prompt_tokens) / double{kMany - kFew};
    double around = few.prompt_tokens - kFew * per_word;  // the chat template
    return static_cast<std::uint32_t>(std::max(1.0, (tokens - around) / per_word));
}

}  // namespace

void sort_gaps(const std::vector<TimePoint>& texts, TimePoint sent, TimePoint first,
               InterferenceReport& report) {
    for (std::size_t i = 1; i < texts.size(); ++i) {
        double gap = to_ms(texts[i] - texts[i - 1]);
        if (texts[i] <= sent)
            report.before.push_back(gap);
        else if (texts[i - 1] < first)
            report.during.push_back(gap);
    }
}

Result<InterferenceReport> measure_interference(const HttpClient& client, const std::string& model,
                                                const InterferenceOptions& options,
                                                Random& random) {
    TAPROOT_TRY(std::uint32_t count, words_for(client, model, options.long_prompt_tokens, random));
    std::string prompt = words(random, count);
    RunningStreams streams(client, model, options, random);
    TAPROOT_CHECK_OK(streams.wait_until_steady());
    TimePoint sent = std::chrono::steady_clock::now();
    Result<ChatReply> reply = ask(client, model, std::move(prompt), 8);
    streams.stop();
    if (!reply) return reply.error();
    if (streams.failure()) return *streams.failure();
    InterferenceReport report;
    report.streams = options.streams;
    report.long_prompt_tokens = reply->prompt_tokens;
    report.long_cached_tokens = reply->cached_tokens;
    report.long_ttft_ms = reply->ttft_ms;
    TimePoint first = sent + std::chrono::duration_cast<TimePoint::duration>(
                                 std::chrono::duration<double, std::milli>(reply->ttft_ms));
    for (const auto& texts : streams.texts()) sort_gaps(texts, sent, first, report);
    return report;
}

boost::json::object interference_json(const InterferenceReport& report) {
    auto most = [](const std::vector<double>& gaps) {
        return gaps.empty() ? 0 : *std::max_element(gaps.begin(), gaps.end());
    };
    return {{"work", "interference"},
            {"streams", report.streams},
            {"long_prompt_tokens", report.long_prompt_tokens},
            {"long_cached_tokens", report.long_cached_tokens},
            {"long_ttft_ms", rounded(report.long_ttft_ms, 1)},
            {"max_gap_ms", rounded(most(report.during), 1)},
            {"itl_p50_ms", rounded(percentile(report.during, .5), 2)},
            {"itl_p99_ms", rounded(percentile(report.during, .99), 2)},
            {"gaps", report.during.size()},
            {"max_gap_before_ms", rounded(most(report.before), 1)},
            {"itl_before_p50_ms", rounded(percentile(report.before, .5), 2)},
            {"itl_before_p99_ms", rounded(percentile(report.before, .99), 2)}};
}

}  // namespace taproot::cli
