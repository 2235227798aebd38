// SPDX-License-Identifier: Apache-2.0
#include "route_sim.h"

#include <gtest/gtest.h>

#include "policies/registry.h"

namespace taproot {
namespace {

using testing::RouteSim;
using testing::SimOptions;
using testing::SimRequest;
using testing::SimResult;

std::vector<TokenId> random_tokens(Random& random, std::size_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& t : tokens) t = static_cast<TokenId>(random.below(40'000));
    return tokens;
}

void append(std::vector<TokenId>& to, const std::vector<TokenId>& tokens) {
    to.insert(to.end(), tokens.begin(), tokens.end());
}

// `prefixes` system prompts of about 600 words, 64 requests in turn over them, 16 at a time.
struct Shared {
    std::size_t prefixes = 4;
    std::size_t requests = 64;
    std::size_t concurrency = 16;
    std::uint32_t max_tokens = 64;
};

SimResult run_shared(SimOptions options, Shared workload = {}) {
    Random random(options.seed * 77);
    RouteSim sim(options);
    std::vector<std::vector<TokenId>> prefixes;
    for (std::size_t i = 0; i < workload.prefixes; ++i) {
        prefixes.push_back(random_tokens(random, 700 + random.below(80)));
    }
    std::size_t next = 0;
    const std::function<void(double, const std::vector<TokenId>&)> submit_next =
        [&](double now, const std::vector<TokenId>&) {
            if (next == workload.requests) return;
            SimRequest r{.prompt = prefixes[next % prefixes.size()],
                         .max_tokens = workload.max_tokens,
                         .session = next,
                         .arrival_ms = now,
                         .done = submit_next};
            append(r.prompt, random_tokens(random, 20 + random.below(8)));
            ++next;
            sim.submit(std::move(r));
        };
    for (std::size_t i = 0; i < workload.concurrency; ++i) submit_next(0, {});
    return sim.run();
}

// 8 sessions of 5 turns; the history is sent again with each turn.
SimResult run_turns(SimOptions options, std::size_t sessions = 8, std::size_t turns = 5) {
    Random random(options.seed * 91);
    RouteSim sim(options);
    struct Session {
        std::vector<TokenId> history;
        std::size_t turn = 0;
    };
    std::vector<Session> all(sessions);
    std::function<void(std::size_t, double)> submit_turn = [&](std::size_t s, double now) {
        if (all[s].turn++ == turns) return;
        append(all[s].history, random_tokens(random, 48 + random.below(12)));
        sim.submit({.prompt = all[s].history,
                    .max_tokens = 32,
                    .session = s,
                    .arrival_ms = now,
                    .done = [&, s](double at, const std::vector<TokenId>& answer) {
                        append(all[s].history, answer);
                        submit_turn(s, at);
                    }});
    };
    for (std::size_t s = 0; s < sessions; ++s) {
        all[s].history = random_tokens(random, 350 + random.below(60));
        submit_turn(s, 0);
    }
    return sim.run();
}

struct Case {
    const char* name;
    SimOptions options = {};
};

// The same workloads on other machines and networks.
const Case kCases[] = {
    {"reference"},
    {"arrivals in exact order", {.network_jitter_ms = 0}},
    {"arrivals over 50 ms", {.network_jitter_ms = 50}},
    {"load frames twice a second", {.load_interval_ms = 500}},
    {"20 ms on the wire", {.event_delay_ms = 20}},
    {"quick prefill", {.speed = {.prefill_ms_per_token = 0.15}}},
    {"slow prefill",
     {.speed = {.prefill_ms_per_token = 2, .decode_fixed_ms = 8, .decode_stream_ms = 1}}},
    {"one worker 1.2 times slower", {.speed_factors = {1, 1.2}}},
};
constexpr std::uint64_t kSeeds = 12;

TEST(RouteSim, SharedPromptsAreComputedOnceAndSpreadEvenly) {
    for (const Case& c : kCases) {
        for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
            SimOptions options = c.options;
            options.seed = seed;
            const SimResult r = run_shared(options);
            ASSERT_EQ(r.requests[0] + r.requests[1], 64u);
            EXPECT_GE(r.share(0), 0.4) << c.name << ", seed " << seed;
            EXPECT_LE(r.share(0), 0.6) << c.name << ", seed " << seed;
            EXPECT_GE(r.reuse(), 0.95) << c.name << ", seed " << seed;  // 0.90 is asked
        }
    }
}

TEST(RouteSim, ConversationsStayWhereTheirKvIsAndSpreadEvenly) {
    for (const Case& c : kCases) {
        for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
            SimOptions options = c.options;
            options.seed = seed;
            const SimResult r = run_turns(options);
            ASSERT_EQ(r.requests[0] + r.requests[1], 40u);
            EXPECT_GE(r.share(0), 0.4) << c.name << ", seed " << seed;
            EXPECT_LE(r.share(0), 0.6) << c.name << ", seed " << seed;
            EXPECT_GE(r.reuse(), 0.99) << c.name << ", seed " << seed;  // 0.97 is asked
        }
    }
}

TEST(RouteSim, FourWorkersGetOnePromptEach) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const SimResult r = run_shared({.workers = 4, .seed = seed});
        for (std::size_t w = 0; w < 4; ++w) EXPECT_NEAR(r.share(w), 0.25, 0.05) << seed;
        EXPECT_GE(r.reuse(), 0.95) << "seed " << seed;
    }
}

TEST(RouteSim, OneHotPromptIsCopiedOnceTheFirstWorkerIsBusy) {
    // Keeping everyone at the only holder would leave a worker idle.
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const SimResult r = run_shared({.seed = seed}, {.prefixes = 1});
        EXPECT_NEAR(r.share(0), 0.5, 0.1) << "seed " << seed;
        EXPECT_GE(r.reuse(), 0.95) << "seed " << seed;
        const SimResult few = run_shared({.seed = seed}, {.prefixes = 1, .concurrency = 2});
        EXPECT_GE(few.reuse(), 0.98) << "seed " << seed;  // two at a time: no copy
    }
}

TEST(RouteSim, CostBeatsEveryPolicyThatIgnoresTheCacheOrTheLoad) {
    double end[5] = {0, 0, 0, 0, 0};
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        for (std::size_t p = 0; p < 5; ++p) {
            const SimOptions options{.policy = route_policies()[p].policy, .seed = seed};
            end[p] += run_shared(options).end_ms + run_turns(options).end_ms;
        }
    }
    for (std::size_t p = 1; p < 5; ++p) EXPECT_LT(end[0], end[p]) << route_policies()[p].name;
}

}  // namespace
}  // namespace taproot
