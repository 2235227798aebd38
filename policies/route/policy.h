// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/types.h"
#include "radix_cache/prefix_index.h"

// Which worker gets a request: pure functions from a snapshot to a decision with its reasons. No
// clock, no counter, no hidden state: what changes between calls is in the arguments, so a decision
// can be replayed from its inputs. Any thread.
namespace taproot {

// What the gateway knows about one worker at the moment of choosing.
//
// Several sources know the load, none alone is right: the worker's last Load frame is late by what
// was routed since, the gateway's own count misses other gateways. So, for each of the two numbers:
//     running + waiting        = as in the last Load frame
//     in_flight                = this gateway's requests there, counted from the choice on
//     backlog_uncached_tokens  = max(Load.backlog_tokens, sum over this gateway's requests there
//                                that have not sent a token of prompt - expected cached tokens)
struct WorkerView {
    WorkerId id;
    std::string_view name;  // stable over restarts: session hashing uses it
    bool ready = true;      // connected and accepting; others are never chosen
    bool trusted = true;    // its index entries are believed (PrefixIndex::trusted)
    std::uint32_t running = 0;
    std::uint32_t waiting = 0;
    std::uint32_t in_flight = 0;
    std::uint32_t seqs_max = 64;
    std::uint64_t backlog_uncached_tokens = 0;
    std::uint32_t blocks_total = 0;   // 0 = unknown: no penalty for a full pool
    std::uint32_t blocks_active = 0;  // pinned by sequences
    std::uint32_t blocks_cached = 0;  // reusable, evictable
    double prefill_ms_per_token = 0;  // measured; 0 = unknown: the others' mean, else 1
    double decode_ms_per_step = 0;    // measured; 0 = unknown
    double ram_restore_ms_per_token = 0;
    double disk_restore_ms_per_token = 0;
    std::uint64_t last_chosen = 0;  // RouteQuery::ordinal of its latest request, 0 = never
};

struct RouteQuery {
    std::uint32_t prompt_tokens = 0;
    std::uint32_t max_tokens = 0;  // 0 = the client did not say
    std::optional<std::uint64_t> session =
        std::nullopt;                           // hash of whatever names the conversation or user
    std::span<const WorkerMatch> matches = {};  // PrefixIndex::lookup of this prompt's chain
    int block_tokens = kBlockTokens;
    std::uint64_t ordinal = 0;  // number of this request at this gateway, from 1; round robin
    std::uint64_t seed = 0;     // for sampling candidates in large fleets
};

// One candidate's predicted cost, in milliseconds, by cause. The least total wins.
struct RouteCandidate {
    WorkerId worker;
    std::uint32_t cached_tokens = 0;  // of the prompt, all tiers and claims
    double wait_ms = 0;               // prefill work queued before this request
    double prefill_ms = 0;            // its own uncached tokens
    double duplicate_ms = 0;          // of these, what another worker holds already: computed twice
    double restore_ms = 0;            // RAM and disk blocks brought up
    double decode_ms = 0;             // slowing each other: this stream and the ones running there
    double pool_ms = 0;               // blocks that must be taken from others
    double total_ms = 0;
};

struct RouteDecision {
    WorkerId worker;
    std::uint32_t expected_cached_tokens = 0;
    double cost_ms = 0;                      // 0 for policies that do not predict time
    std::string reason;                      // one line for a person
    std::vector<RouteCandidate> candidates;  // cheapest first where costs exist; may be a sample
};

// Error kUnavailable when no worker is ready.
using RoutePolicy = Result<RouteDecision> (*)(const RouteQuery& query,
                                              std::span<const WorkerView> workers);

Result<RouteDecision> route_cost(const RouteQuery& query, std::span<const WorkerView> workers);
Result<RouteDecision> route_round_robin(const RouteQuery& query,
                                        std::span<const WorkerView> workers);
Result<RouteDecision> route_least_loaded(const RouteQuery& query,
                                         std::span<const WorkerView> workers);
Result<RouteDecision> route_prefix_first(const RouteQuery& query,
                                         std::span<const WorkerView> workers);
Result<RouteDecision> route_session_hash(const RouteQuery& query,
                                         std::span<const WorkerView> workers);

}  // namespace taproot
