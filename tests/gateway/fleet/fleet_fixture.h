// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "gateway/fleet/fleet.h"
#include "tests/support/fake_worker.h"
#include "tests/support/loop.h"
#include "tests/support/tiny_text_model.h"

namespace taproot::gateway {

// Writes down what a request heard.
class RecordingSink final : public RequestSink {
public:
    void on_started(const link::RequestStarted& started) override {
        cached_tokens = started.cached_tokens;
        note("started");
    }
    void on_tokens(std::span<const link::TokenOutput> outputs) override {
        for (const link::TokenOutput& output : outputs) tokens.push_back(output);
        note("tokens");
    }
    void on_prompt_logprobs(const link::PromptLogprobs&) override { note("prompt_logprobs"); }
    void on_rejected(const link::Rejected& answer) override {
        rejected = answer;
        note("rejected");
    }
    void on_worker_lost(const Error& error) override {
        lost = error;
        note("lost");
    }
    [[nodiscard]] bool heard(const std::string& event) const {
        return std::find(events.begin(), events.end(), event) != events.end();
    }

    std::vector<std::string> events;
    std::vector<link::TokenOutput> tokens;
    std::uint32_t cached_tokens = 0;
    link::Rejected rejected;
    Error lost;
    std::function<void(const std::string&)> then;  // after each event

private:
    void note(const std::string& event) {
        events.push_back(event);
        if (then) then(event);
    }
};

// A fleet and its fake workers on one event loop.
class FleetTest : public ::testing::Test {
protected:
    FleetTest() {
        config_.gateway.reconnect_ms_max = 20;
        // Not the start of time: the fleet compares with "never".
        clock_.advance(std::chrono::hours(1));
    }

    // Call before start().
    taproot::testing::FakeWorker& add_worker(const std::string& model = "m") {
        taproot::testing::FakeWorker::Options options;
        options.text = taproot::testing::chat_text_model().model();
        options.hello.worker = "w" + std::to_string(workers_.size());
        options.hello.model = model;
        options.hello.epoch = 100 * (workers_.size() + 1);
        return add_worker(std::move(options));
    }
    taproot::testing::FakeWorker& add_worker(taproot::testing::FakeWorker::Options options) {
        config::Worker worker;
        worker.name = options.hello.worker;
        workers_.push_back(std::make_unique<taproot::testing::FakeWorker>(io_, std::move(options)));
        worker.link = workers_.back()->address().to_string();
        config_.workers.push_back(worker);
        return *workers_.back();
    }
    void start() {
        fleet_ = std::make_unique<Fleet>(io_, config_, clock_, metrics_);
        auto started = fleet_->start();
        ASSERT_TRUE(started) << started.error().describe();
    }
    void start_and_wait() {
        start();
        ASSERT_TRUE(run_until(io_, [this] { return ready_workers() == workers_.size(); }));
    }
    [[nodiscard]] std::size_t ready_workers() const {
        std::size_t count = 0;
        for (const WorkerView& view : fleet_->worker_views()) count += view.ready ? 1 : 0;
        return count;
    }
    [[nodiscard]] WorkerView view(std::size_t worker) const {
        return fleet_->worker_views()[worker];
    }
    [[nodiscard]] bool until(std::function<bool()> condition) { return run_until(io_, condition); }
    // A message that comes after everything the worker sent so far: then all of it was handled.
    [[nodiscard]] bool settle(taproot::testing::FakeWorker& worker, std::size_t index) {
        link::Load load;
        load.blocks_cached = ++settle_mark_;  // nothing is chosen by it in so large a pool
        load.blocks_total = 1u << 30;
        worker.send(load);
        return until([&] { return view(index).blocks_cached == settle_mark_; });
    }

    static std::vector<BlockHash> chain(std::uint64_t first, std::size_t blocks) {
        std::vector<BlockHash> out;
        for (std::size_t i = 0; i < blocks; ++i) out.push_back(BlockHash{first * 1'000 + i});
        return out;
    }
    // `prompt_tokens` from a chain of full blocks.
    Result<Ticket> submit(RecordingSink& sink, std::uint32_t prompt_tokens = 8,
                          const std::vector<BlockHash>& chain = {}, std::uint16_t choices = 1,
                          std::span<const WorkerId> exclude = {}) {
        SubmitRequest request;
        request.model = "m";
        request.generate.prompt.assign(prompt_tokens, 7);
        request.generate.max_tokens = 16;
        request.generate.choices = choices;
        request.chain = chain;
        request.exclude = exclude;
        return fleet_->submit(std::move(request), &sink);
    }

    asio::io_context io_{1};
    ManualClock clock_;
    Metrics metrics_;
    config::Config config_;
    std::vector<std::unique_ptr<taproot::testing::FakeWorker>> workers_;
    std::unique_ptr<Fleet> fleet_;
    std::uint32_t settle_mark_ = 0;
};

}  // namespace taproot::gateway
