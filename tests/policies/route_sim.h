// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "policies/route/policy.h"
#include "radix_cache/block_hash.h"
#include "radix_cache/prefix_index.h"

// A fleet in a few hundred lines: simulated workers (prefill queue, decode batch, blocks kept for
// ever) and one gateway that does what the real one does: look up, decide, reserve, learn from
// events. Time is simulated; a seed gives one history.
namespace taproot::testing {

struct SimWorkerSpeed {
    double prefill_ms_per_token = 0.5;
    double decode_fixed_ms = 4.0;
    double decode_stream_ms = 0.6;
};

struct SimOptions {
    std::size_t workers = 2;
    RoutePolicy policy = &route_cost;
    SimWorkerSpeed speed = {};
    std::vector<double> speed_factors = {};  // per worker, on all times; 1 when absent
    double load_interval_ms = 50;            // Load frames
    double event_delay_ms = 1;               // KvEvents and tokens on the wire
    double network_jitter_ms = 3;            // of arrivals
    double step_ms_target = 50;
    std::uint64_t seed = 1;
};

struct SimRequest {
    std::vector<TokenId> prompt;
    std::uint32_t max_tokens = 64;
    std::uint64_t session = 0;
    double arrival_ms = 0;
    // Called with the end time and the generated tokens.
    std::function<void(double, const std::vector<TokenId>&)> done;
};

struct SimResult {
    std::vector<std::uint64_t> requests;  // per worker
    std::uint64_t prompt_tokens = 0;
    std::uint64_t cached_tokens = 0;    // really reused at the worker
    std::uint64_t possible_tokens = 0;  // of a prefix an earlier request of the fleet had
    std::vector<double> ttft_ms;
    double end_ms = 0;

    double share(std::size_t worker) const {
        std::uint64_t sum = 0;
        for (const std::uint64_t n : requests) sum += n;
        return sum == 0 ? 0 : static_cast<double>(requests[worker]) / static_cast<double>(sum);
    }
    double reuse() const {
        return possible_tokens == 0
                   ? 1
                   : static_cast<double>(cached_tokens) / static_cast<double>(possible_tokens);
    }
};

class RouteSim {
public:
    explicit RouteSim(SimOptions options)
        : options_(std::move(options)), random_(options_.seed), index_(clock_) {
        for (std::size_t i = 0; i < options_.workers; ++i) {
            workers_.push_back(std::make_unique<Worker>());
            workers_.back()->id = WorkerId{static_cast<std::uint32_t>(i)};
            workers_.back()->name = "w" + std::to_string(i);
            if (i < options_.speed_factors.size()) workers_[i]->slow = options_.speed_factors[i];
            index_.apply_snapshot(workers_[i]->id, 1, 0, {});
        }
        result_.requests.assign(options_.workers, 0);
    }

    // May be called from SimRequest::done too.
    void submit(SimRequest request) {
        const double at = request.arrival_ms + random_.unit() * options_.network_jitter_ms;
        auto shared = std::make_shared<SimRequest>(std::move(request));
        schedule(at, [this, shared] { route(*shared); });
    }

    SimResult run() {
        while (!events_.empty()) {
            Event event = events_.top();
            events_.pop();
            clock_.advance(from_ms(event.at_ms) - (clock_.now() - start_));
            now_ = event.at_ms;
            event.action();
        }
        result_.end_ms = now_;
        return result_;
    }

private:
    struct Running {
        SimRequest request;
        std::size_t computed = 0;  // prompt tokens in KV, cached ones included
        std::uint32_t expected_cached = 0;
        std::uint32_t cached = 0;
        bool started = false;
        double arrived_ms = 0;
        std::vector<TokenId> generated;
        ReservationId reservation;
    };
    struct Worker {
        WorkerId id;
        std::string name;
        double slow = 1;
        std::deque<std::shared_ptr<Running>> prefill;
        std::vector<std::shared_ptr<Running>> decode;
        std::set<std::uint64_t> blocks;  // hashes of what this worker has computed
        bool stepping = false;
        std::uint64_t next_seq = 0;
        double next_load_ms = 0;
        // What the gateway knows.
        WorkerView view;
        std::uint32_t in_flight = 0;
        std::uint64_t unstarted_uncached = 0;
        std::uint64_t last_chosen = 0;
    };
    struct Event {
        double at_ms;
        std::uint64_t order;
        std::function<void()> action;
        bool operator<(const Event& other) const {  // earliest on top
            return std::tie(at_ms, order) > std::tie(other.at_ms, other.order);
        }
    };

    void schedule(double at_ms, std::function<void()> action) {
        events_.push({std::max(at_ms, now_), order_++, std::move(action)});
    }

    // --- gateway ---

    void route(const SimRequest& request) {
        std::vector<BlockHash> chain;
        hash_blocks(0, request.prompt, kBlockTokens, chain);
        std::vector<WorkerMatch> matches;
        index_.lookup(chain, matches);
        std::vector<WorkerView> views;
        for (const auto& w : workers_) views.push_back(view_of(*w));
        ++ordinal_;
        const RouteQuery query{.prompt_tokens = static_cast<std::uint32_t>(request.prompt.size()),
                               .max_tokens = request.max_tokens,
                               .session = request.session,
                               .matches = matches,
                               .ordinal = ordinal_,
                               .seed = options_.seed};
        const RouteDecision decision = *options_.policy(query, views);
        count_possible(request.prompt);
        Worker& w = *workers_[decision.worker.value];
        w.last_chosen = ordinal_;
        ++w.in_flight;
        ++result_.requests[decision.worker.value];
        auto running = std::make_shared<Running>();
        running->request = request;
        running->arrived_ms = now_;
        running->expected_cached = decision.expected_cached_tokens;
        running->reservation = index_.reserve(w.id, chain, clock_.now() + from_ms(10'000));
        w.unstarted_uncached += request.prompt.size() - decision.expected_cached_tokens;
        schedule(now_ + options_.event_delay_ms, [this, &w, running] {
            w.prefill.push_back(running);
            if (!w.stepping) step(w);
        });
    }

    WorkerView view_of(const Worker& w) const {
        WorkerView v = w.view;
        v.id = w.id;
        v.name = w.name;
        v.in_flight = w.in_flight;
        v.backlog_uncached_tokens = std::max(v.backlog_uncached_tokens, w.unstarted_uncached);
        v.last_chosen = w.last_chosen;
        if (v.prefill_ms_per_token == 0) {
            v.prefill_ms_per_token = options_.speed.prefill_ms_per_token * w.slow;
        }
        return v;
    }

    // Tokens of this prompt that some earlier request has computed or is computing, in whole blocks
    // (these workers, unlike the real one, reuse no part of a block).
    void count_possible(const std::vector<TokenId>& prompt) {
        std::size_t best = 0;
        const auto shared = [&](const std::vector<TokenId>& other) {
            const auto end =
                std::mismatch(prompt.begin(), prompt.end(), other.begin(), other.end());
            return static_cast<std::size_t>(end.first - prompt.begin());
        };
        // Sorted: the longest common prefix is with a neighbour.
        const auto it = seen_.lower_bound(prompt);
        if (it != seen_.end()) best = shared(*it);
        if (it != seen_.begin()) best = std::max(best, shared(*std::prev(it)));
        result_.possible_tokens += std::min(best, prompt.size() - 1) / kBlockTokens * kBlockTokens;
        seen_.insert(prompt);
    }

    // --- worker ---

    std::size_t matched_tokens(const Worker& w, const std::vector<TokenId>& prompt,
                               std::size_t from) const {
        std::vector<BlockHash> chain;
        hash_blocks(0, std::span(prompt).first(prompt.size() - 1), kBlockTokens, chain);
        std::size_t n = from / kBlockTokens;
        while (n < chain.size() && w.blocks.contains(chain[n].value)) ++n;
        return std::max(n * kBlockTokens, from);
    }

    void step(Worker& w) {
        if (w.prefill.empty() && w.decode.empty()) {
            w.stepping = false;
            send_load(w);
            return;
        }
        w.stepping = true;
        double ms = options_.speed.decode_fixed_ms;
        ms += options_.speed.decode_stream_ms * static_cast<double>(w.decode.size());
        std::size_t budget = 512;
        if (!w.decode.empty()) {
            budget = static_cast<std::size_t>(std::max(
                16.0, (options_.step_ms_target - ms) / options_.speed.prefill_ms_per_token));
        }
        // Least uncached work first, matching again before each chunk, like the real scheduler.
        for (const auto& r : w.prefill) rematch(w, *r);
        std::stable_sort(w.prefill.begin(), w.prefill.end(), [](const auto& a, const auto& b) {
            return a->request.prompt.size() - a->computed < b->request.prompt.size() - b->computed;
        });
        for (const auto& r : w.prefill) {
            if (budget == 0) break;
            rematch(w, *r);
            const std::size_t chunk = std::min(budget, r->request.prompt.size() - r->computed);
            r->computed += chunk;
            budget -= chunk;
            ms += options_.speed.prefill_ms_per_token * static_cast<double>(chunk);
        }
        schedule(now_ + ms * w.slow, [this, &w] { end_step(w); });
    }

    void rematch(const Worker& w, Running& r) {
        const std::size_t n = matched_tokens(w, r.request.prompt, r.computed);
        r.cached += static_cast<std::uint32_t>(n - r.computed);
        r.computed = n;
    }

    void end_step(Worker& w) {
        std::vector<KvEvent> stored;
        for (const auto& r : w.decode) emit(w, *r, stored);
        std::vector<std::shared_ptr<Running>> finished;
        for (auto it = w.prefill.begin(); it != w.prefill.end();) {
            Running& r = **it;
            add_blocks(w, r.request.prompt, r.computed, stored);
            if (r.computed < r.request.prompt.size()) {
                ++it;
                continue;
            }
            emit(w, r, stored);
            start(w, *it);
            w.decode.push_back(*it);
            it = w.prefill.erase(it);
        }
        std::erase_if(w.decode, [&](const auto& r) {
            if (r->generated.size() < r->request.max_tokens) return false;
            finished.push_back(r);
            return true;
        });
        if (!stored.empty()) {
            const std::uint64_t seq = w.next_seq;
            w.next_seq += stored.size();
            schedule(now_ + options_.event_delay_ms,
                     [this, id = w.id, seq, stored] { index_.apply(id, 1, seq, stored); });
        }
        for (const auto& r : finished) finish(w, r);
        if (now_ >= w.next_load_ms) send_load(w);
        step(w);
    }

    void emit(Worker& w, Running& r, std::vector<KvEvent>& stored) {
        r.generated.push_back(static_cast<TokenId>(random_.below(40'000)));
        std::vector<TokenId> all = r.request.prompt;
        all.insert(all.end(), r.generated.begin(), r.generated.end() - 1);
        if (all.size() % kBlockTokens == 0) add_blocks(w, all, all.size(), stored);
    }

    void add_blocks(Worker& w, const std::vector<TokenId>& tokens, std::size_t computed,
                    std::vector<KvEvent>& stored) {
        const auto whole = std::span(tokens).first(computed / kBlockTokens * kBlockTokens);
        std::vector<BlockHash> chain;
        hash_blocks(0, whole, kBlockTokens, chain);
        for (std::size_t i = 0; i < chain.size(); ++i) {
            if (!w.blocks.insert(chain[i].value).second) continue;
            stored.push_back(KvStored{chain[i], i == 0 ? root_hash(0) : chain[i - 1]});
        }
    }

    void start(Worker& w, const std::shared_ptr<Running>& r) {
        result_.prompt_tokens += r->request.prompt.size();
        result_.cached_tokens += r->cached;
        result_.ttft_ms.push_back(now_ - r->arrived_ms);
        schedule(now_ + options_.event_delay_ms, [this, &w, r] {  // first token at the gateway
            w.unstarted_uncached -= r->request.prompt.size() - r->expected_cached;
            index_.release(r->reservation);
        });
    }

    void finish(Worker& w, const std::shared_ptr<Running>& r) {
        schedule(now_ + options_.event_delay_ms, [this, &w, r] {
            --w.in_flight;
            // Its generated tokens are part of what the fleet has computed now.
            std::vector<TokenId> all = r->request.prompt;
            all.insert(all.end(), r->generated.begin(), r->generated.end() - 1);
            seen_.insert(std::move(all));
            if (r->request.done) r->request.done(now_, r->generated);
        });
    }

    void send_load(Worker& w) {
        w.next_load_ms = now_ + options_.load_interval_ms;
        WorkerView v;
        v.running = static_cast<std::uint32_t>(w.decode.size());
        v.waiting = static_cast<std::uint32_t>(w.prefill.size());
        for (const auto& r : w.prefill) {
            v.backlog_uncached_tokens += r->request.prompt.size() - r->computed;
        }
        v.prefill_ms_per_token = options_.speed.prefill_ms_per_token * w.slow;
        v.decode_ms_per_step =
            w.slow * (options_.speed.decode_fixed_ms +
                      options_.speed.decode_stream_ms * static_cast<double>(w.decode.size()));
        schedule(now_ + options_.event_delay_ms, [&w, v] { w.view = v; });
    }

    SimOptions options_;
    Random random_;
    ManualClock clock_;
    const TimePoint start_ = clock_.now();
    PrefixIndex index_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::priority_queue<Event> events_;
    std::uint64_t order_ = 0;
    std::uint64_t ordinal_ = 0;
    double now_ = 0;
    std::set<std::vector<TokenId>> seen_;  // every prompt and conversation so far
    SimResult result_;
};

}  // namespace taproot::testing
