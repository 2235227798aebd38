// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/units.h"
#include "policies/route/common.h"

// One number in milliseconds per worker: what this request would wait, plus what it would take from
// others.
//
//   wait       prefill work ahead of it there x ms/token, and a batch slot where none is free
//   prefill    its uncached tokens x ms/token
//   duplicate  tokens another worker holds already, once more: a copy costs its computation now and
//              the room it takes from other prefixes later. Without this term a short queue is
//              enough to scatter a conversation over the fleet.
//   restore    tokens in RAM and on disk x what a token costs to bring up
//   decode     each stream there and this one slow each other by about one token's arithmetic per
//              step (decoding one more stream costs what prefilling one more token costs)
//   pool       blocks to be taken from the cache, or worse, from running sequences
namespace taproot {

namespace {

using route::cached_tokens;
using route::load_of;

constexpr double kUnknownTokenMs = 1;
constexpr double kDuplicateFactor = 1;
constexpr std::uint32_t kDecodeTokensMax = 128;  // of a stream's future that counts, also unknown
constexpr double kMutualSlowdown = 2;            // this stream by the other and the other by it
constexpr double kEvictWorth = 0.25;             // chance that an evicted block would be used again
constexpr double kPreemptWorth = 2;  // a block taken from a running sequence is computed again
constexpr double kTieMs = 0.5;
constexpr double kTieShare = 0.01;
constexpr std::size_t kAllCandidates = 64;  // up to here everyone is a candidate
constexpr std::uint64_t kSamples = 8;       // beyond it: holders of the match plus so many

bool known(double ms) {
    return std::isfinite(ms) && ms > 0;
}

double mean_token_ms(std::span<const WorkerView* const> workers) {
    double sum = 0;
    std::size_t count = 0;
    for (const WorkerView* worker : workers) {
        if (!known(worker->prefill_ms_per_token)) continue;
        sum += worker->prefill_ms_per_token;
        ++count;
    }
    return count == 0 ? kUnknownTokenMs : sum / static_cast<double>(count);
}

// What all candidates are compared against.
struct Fleet {
    double token_ms = kUnknownTokenMs;    // for a worker that has not measured
    std::uint32_t most_cached = 0;        // best match of any candidate
    const WorkerView* assumed = nullptr;  // home of the session where the index is not trusted
};

double pool_ms(const WorkerView& worker, double token_ms, double block_tokens,
               double wanted_tokens) {
    if (worker.blocks_total == 0) return 0;
    const double wanted = std::ceil(wanted_tokens / block_tokens);
    const double total = worker.blocks_total;
    const double active = std::min<double>(worker.blocks_active, total);
    const double cached = std::min<double>(worker.blocks_cached, total - active);
    const double taken = std::max(0.0, wanted - (total - active - cached));
    const double evicted = std::min(taken, cached);
    return (evicted * kEvictWorth + (taken - evicted) * kPreemptWorth) * block_tokens * token_ms;
}

double restore_ms(const RouteQuery& query, const WorkerView& worker) {
    const WorkerMatch* match = worker.trusted ? route::find_match(query, worker.id) : nullptr;
    if (match == nullptr) return 0;
    const double ram = known(worker.ram_restore_ms_per_token) ? worker.ram_restore_ms_per_token : 0;
    const double disk =
        known(worker.disk_restore_ms_per_token) ? worker.disk_restore_ms_per_token : 0;
    return query.block_tokens * (match->ram_blocks * ram + match->disk_blocks * disk);
}

RouteCandidate cost_of(const RouteQuery& query, const WorkerView& worker, const Fleet& fleet) {
    const double token_ms =
        known(worker.prefill_ms_per_token) ? worker.prefill_ms_per_token : fleet.token_ms;
    const double load = static_cast<double>(load_of(worker));
    const double slots = std::max<std::uint32_t>(worker.seqs_max, 1);
    const double decode_tokens =
        query.max_tokens == 0 ? kDecodeTokensMax : std::min(query.max_tokens, kDecodeTokensMax);
    RouteCandidate out{.worker = worker.id, .cached_tokens = cached_tokens(query, worker)};
    const double cached = &worker == fleet.assumed ? query.prompt_tokens : out.cached_tokens;
    const double uncached = query.prompt_tokens - cached;
    const double duplicate = std::max(0.0, fleet.most_cached - cached);

    // Workers serve the least uncached work first, so nobody there with more than ours is ahead of
    // us; but what we count on and is not computed yet must be.
    const WorkerMatch* match = worker.trusted ? route::find_match(query, worker.id) : nullptr;
    const double pending = match == nullptr ? 0 : match->pending_blocks * query.block_tokens;
    out.wait_ms = token_ms * std::min(static_cast<double>(worker.backlog_uncached_tokens),
                                      load * uncached + pending);
    if (load >= slots) {
        const double step_ms =
            known(worker.decode_ms_per_step) ? worker.decode_ms_per_step : slots * token_ms;
        out.wait_ms += (load - slots + 1) / slots * decode_tokens * step_ms;
    }
    out.prefill_ms = uncached * token_ms;
    out.duplicate_ms = duplicate * token_ms * kDuplicateFactor;
    out.restore_ms = restore_ms(query, worker);
    out.decode_ms = kMutualSlowdown * std::min(load, slots) * decode_tokens * token_ms;
    out.pool_ms =
        pool_ms(worker, token_ms, std::max(query.block_tokens, 1), uncached + decode_tokens);
    out.total_ms = out.wait_ms + out.prefill_ms + out.duplicate_ms + out.restore_ms +
                   out.decode_ms + out.pool_ms;
    return out;
}

// Everyone in a small fleet; in a large one the holders of the match and a few samples.
std::vector<const WorkerView*> pick_candidates(const RouteQuery& query,
                                               std::vector<const WorkerView*> ready) {
    if (ready.size() <= kAllCandidates) return ready;
    std::vector<const WorkerView*> out;
    for (const WorkerView* worker : ready) {
        if (cached_tokens(query, *worker) > 0) out.push_back(worker);
    }
    Random random(counter_random(query.seed, query.ordinal, 0));
    for (std::uint64_t i = 0; i < kSamples; ++i) out.push_back(ready[random.below(ready.size())]);
    std::sort(out.begin(), out.end(),
              [](const WorkerView* a, const WorkerView* b) { return a->id < b->id; });
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

struct Scored {
    RouteCandidate cost;
    const WorkerView* worker = nullptr;
};

std::string explain(const RouteQuery& query, const Fleet& fleet, std::span<const Scored> scored,
                    bool tie) {
    const RouteCandidate& best = scored.front().cost;
    if (scored.size() == 1) {
        return fmt::format("only candidate; {} of {} tokens cached", best.cached_tokens,
                           query.prompt_tokens);
    }
    const Scored& next = scored[1];
    if (scored.front().worker == fleet.assumed) {
        return fmt::format("its index is not trusted now: home of the session; next {}",
                           next.worker->name);
    }
    if (tie && best.cached_tokens == 0) {
        return fmt::format("nothing cached, equal cost {:.1f} ms: least loaded, then least recent",
                           best.total_ms);
    }
    return fmt::format("{} of {} tokens cached, {:.1f} ms{}; next {} with {} cached, {:.1f} ms",
                       best.cached_tokens, query.prompt_tokens, best.total_ms,
                       tie ? " (tie: less loaded)" : "", next.worker->name, next.cost.cached_tokens,
                       next.cost.total_ms);
}

}  // namespace

Result<RouteDecision> route_cost(const RouteQuery& query, std::span<const WorkerView> workers) {
    const auto ready = route::ready_workers(workers);
    if (ready.empty()) return route::no_worker_ready();
    Fleet fleet;
    if (query.session &&
        std::any_of(ready.begin(), ready.end(), [](const WorkerView* w) { return !w->trusted; })) {
        const WorkerView* home = route::session_home(*query.session, ready);
        if (!home->trusted) fleet.assumed = home;
    }
    std::vector<const WorkerView*> candidates = pick_candidates(query, ready);
    if (fleet.assumed != nullptr &&
        std::find(candidates.begin(), candidates.end(), fleet.assumed) == candidates.end()) {
        candidates.push_back(fleet.assumed);
    }
    fleet.token_ms = mean_token_ms(candidates);
    for (const WorkerView* worker : candidates) {
        fleet.most_cached = std::max(fleet.most_cached, cached_tokens(query, *worker));
    }

    std::vector<Scored> scored;
    scored.reserve(candidates.size());
    double least = 0;
    for (const WorkerView* worker : candidates) {
        scored.push_back({cost_of(query, *worker, fleet), worker});
        const double total = scored.back().cost.total_ms;
        least = scored.size() == 1 ? total : std::min(least, total);
    }
    // Costs this close are noise: the less busy worker, then the one chosen longest ago.
    const double tie_ms = least + std::max(kTieMs, least * kTieShare);
    std::sort(scored.begin(), scored.end(), [tie_ms](const Scored& a, const Scored& b) {
        const bool tie_a = a.cost.total_ms <= tie_ms;
        const bool tie_b = b.cost.total_ms <= tie_ms;
        if (tie_a != tie_b) return tie_a;
        if (!tie_a && a.cost.total_ms != b.cost.total_ms) {
            return a.cost.total_ms < b.cost.total_ms;
        }
        return route::less_busy(*a.worker, *b.worker);
    });
    const bool tie = scored.size() > 1 && scored[1].cost.total_ms <= tie_ms;

    RouteDecision out{.worker = scored.front().worker->id,
                      .expected_cached_tokens = scored.front().cost.cached_tokens,
                      .cost_ms = scored.front().cost.total_ms,
                      .reason = explain(query, fleet, scored, tie),
                      .candidates = {}};
    out.candidates.reserve(scored.size());
    for (const Scored& s : scored) out.candidates.push_back(s.cost);
    return out;
}

}  // namespace taproot
