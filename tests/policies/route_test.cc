// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/random.h"
#include "policies/registry.h"

namespace taproot {
namespace {

constexpr double kTokenMs = 0.5;

std::vector<WorkerView> fleet(std::size_t n) {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> out;
        for (int i = 0; i < 512; ++i) out.push_back("w" + std::to_string(i));
        return out;
    }();
    std::vector<WorkerView> workers(n);
    for (std::size_t i = 0; i < n; ++i) {
        workers[i].id = WorkerId{static_cast<std::uint32_t>(i)};
        workers[i].name = names[i];
        workers[i].prefill_ms_per_token = kTokenMs;
        workers[i].decode_ms_per_step = 5;
    }
    return workers;
}

WorkerMatch device_match(std::uint32_t worker, std::uint32_t blocks) {
    return {.worker = WorkerId{worker}, .blocks = blocks, .device_blocks = blocks};
}

std::uint32_t choose(RoutePolicy policy, const RouteQuery& query,
                     const std::vector<WorkerView>& workers) {
    const auto decision = policy(query, workers);
    EXPECT_TRUE(decision.has_value());
    EXPECT_FALSE(decision->reason.empty());
    return decision->worker.value;
}

// --- what every policy owes ---

class EveryRoutePolicy : public ::testing::TestWithParam<NamedPolicy<RoutePolicy>> {
protected:
    RoutePolicy policy() const { return GetParam().policy; }
};
INSTANTIATE_TEST_SUITE_P(Registry, EveryRoutePolicy,
                         ::testing::ValuesIn(route_policies().begin(), route_policies().end()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_P(EveryRoutePolicy, AnswersUnavailableWithoutAReadyWorker) {
    EXPECT_EQ(policy()({.prompt_tokens = 5}, {}).error().code, ErrorCode::kUnavailable);
    auto workers = fleet(3);
    for (WorkerView& w : workers) w.ready = false;
    EXPECT_EQ(policy()({.prompt_tokens = 5, .session = 1}, workers).error().code,
              ErrorCode::kUnavailable);
}

TEST_P(EveryRoutePolicy, ChoosesOnlyReadyWorkersAndNeverProducesNan) {
    // Snapshots of every odd kind: zeros, infinities, everything full, nothing known.
    Random random(8);
    const double odd[] = {0,
                          -1,
                          0.5,
                          1e300,
                          std::numeric_limits<double>::infinity(),
                          std::numeric_limits<double>::quiet_NaN()};
    for (int round = 0; round < 2000; ++round) {
        auto workers = fleet(1 + random.below(80));
        std::vector<WorkerMatch> matches;
        for (WorkerView& w : workers) {
            w.ready = random.chance(0.8);
            w.trusted = random.chance(0.7);
            w.running = static_cast<std::uint32_t>(random.below(100));
            w.in_flight = static_cast<std::uint32_t>(random.below(100));
            w.seqs_max = static_cast<std::uint32_t>(random.below(3) * 32);
            w.backlog_uncached_tokens = random.below(3) * 100'000;
            w.blocks_total = static_cast<std::uint32_t>(random.below(3) * 50);
            w.blocks_active = static_cast<std::uint32_t>(random.below(120));
            w.blocks_cached = static_cast<std::uint32_t>(random.below(120));
            w.prefill_ms_per_token = odd[random.below(6)];
            w.decode_ms_per_step = odd[random.below(6)];
            w.ram_restore_ms_per_token = odd[random.below(6)];
            w.disk_restore_ms_per_token = odd[random.below(6)];
            if (random.chance(0.4)) matches.push_back(device_match(w.id.value, 3));
        }
        RouteQuery query{.prompt_tokens = static_cast<std::uint32_t>(random.below(3) * 100),
                         .max_tokens = static_cast<std::uint32_t>(random.below(3) * 1000),
                         .matches = matches,
                         .ordinal = random.next(),
                         .seed = random.next()};
        if (random.chance(0.5)) query.session = random.next();
        const auto decision = policy()(query, workers);
        if (!decision) continue;
        ASSERT_TRUE(workers[decision->worker.value].ready);
        ASSERT_TRUE(query.prompt_tokens == 0 ||
                    decision->expected_cached_tokens < query.prompt_tokens);
        ASSERT_FALSE(std::isnan(decision->cost_ms));
        ASSERT_EQ(decision->candidates.front().worker, decision->worker);
        for (const RouteCandidate& c : decision->candidates) {
            ASSERT_FALSE(std::isnan(c.total_ms));
            ASSERT_TRUE(workers[c.worker.value].ready);
        }
    }
}

TEST_P(EveryRoutePolicy, IsAPureFunction) {
    auto workers = fleet(5);
    workers[2].running = 4;
    const WorkerMatch match = device_match(3, 10);
    const RouteQuery query{
        .prompt_tokens = 300, .session = 5, .matches = {&match, 1}, .ordinal = 9};
    const auto first = policy()(query, workers);
    const auto second = policy()(query, workers);
    EXPECT_EQ(first->worker, second->worker);
    EXPECT_EQ(first->reason, second->reason);
}

// --- cost ---

TEST(RouteCost, TheHolderOfThePrefixWinsAndSaysWhy) {
    const auto workers = fleet(3);
    const WorkerMatch match = device_match(1, 50);
    const auto d = route_cost({.prompt_tokens = 820, .matches = {&match, 1}}, workers);
    EXPECT_EQ(d->worker, WorkerId{1});
    EXPECT_EQ(d->expected_cached_tokens, 800u);
    EXPECT_DOUBLE_EQ(d->cost_ms, 20 * kTokenMs);
    EXPECT_EQ(d->reason.substr(0, 30), "800 of 820 tokens cached, 10.0");
    ASSERT_EQ(d->candidates.size(), 3u);
    EXPECT_DOUBLE_EQ(d->candidates[1].prefill_ms, 410);
    EXPECT_DOUBLE_EQ(d->candidates[1].duplicate_ms, 400);
}

TEST(RouteCost, OneTokenIsAlwaysComputed) {
    const auto workers = fleet(2);
    const WorkerMatch match = device_match(1, 50);
    const auto d = route_cost({.prompt_tokens = 800, .matches = {&match, 1}}, workers);
    EXPECT_EQ(d->expected_cached_tokens, 799u);
}

TEST(RouteCost, AMissGoesToTheLeastLoadedWhateverTheCachesHold) {
    auto workers = fleet(2);
    workers[0].in_flight = 30;  // a small cache, but busy
    workers[1].blocks_total = 1000;
    workers[0].blocks_total = 1000;
    workers[1].blocks_cached = 900;
    EXPECT_EQ(choose(&route_cost, {.prompt_tokens = 200}, workers), 1u);
}

TEST(RouteCost, SimultaneousNewPromptsSpreadOverTheFleet) {
    // Counted when chosen, not when an answer begins.
    auto workers = fleet(4);
    std::map<std::uint32_t, int> chosen;
    for (std::uint64_t i = 1; i <= 8; ++i) {
        const std::uint32_t w =
            choose(&route_cost, {.prompt_tokens = 4000, .max_tokens = 1, .ordinal = i}, workers);
        ++workers[w].in_flight;
        workers[w].backlog_uncached_tokens += 4000;
        workers[w].last_chosen = i;
        ++chosen[w];
    }
    for (std::uint32_t w = 0; w < 4; ++w) EXPECT_EQ(chosen[w], 2) << w;
}

TEST(RouteCost, SequentialNewPromptsOnAnIdleFleetTakeTurns) {
    auto workers = fleet(3);
    std::vector<std::uint32_t> order;
    for (std::uint64_t i = 1; i <= 6; ++i) {
        order.push_back(choose(&route_cost, {.prompt_tokens = 100, .ordinal = i}, workers));
        workers[order.back()].last_chosen = i;
    }
    EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 1, 2, 0, 1, 2}));
}

TEST(RouteCost, LocalityHoldsNearTheLeastLoadAndYieldsFarAboveIt) {
    auto workers = fleet(4);
    const std::uint32_t loads[] = {3, 4, 20, 3};
    for (std::size_t i = 0; i < 4; ++i) workers[i].running = loads[i];
    WorkerMatch match = device_match(1, 32);
    EXPECT_EQ(choose(&route_cost, {.prompt_tokens = 600, .matches = {&match, 1}}, workers), 1u);
    match = device_match(2, 32);
    EXPECT_NE(choose(&route_cost, {.prompt_tokens = 600, .matches = {&match, 1}}, workers), 2u);
}

TEST(RouteCost, AShortQueueDoesNotScatterAConversation) {
    auto workers = fleet(2);
    workers[0].in_flight = 4;
    workers[0].backlog_uncached_tokens = 300;
    const WorkerMatch match = device_match(0, 28);
    const auto d =
        route_cost({.prompt_tokens = 500, .max_tokens = 32, .matches = {&match, 1}}, workers);
    EXPECT_EQ(d->worker, WorkerId{0});
    // Least uncached work first: at most 4 requests of our 52 tokens are ahead.
    EXPECT_DOUBLE_EQ(d->candidates[0].wait_ms, 4 * 52 * kTokenMs);
}

TEST(RouteCost, ATwinWaitsForTheOneThatComputesThePrefix) {
    auto workers = fleet(2);
    workers[0].in_flight = 1;
    workers[0].backlog_uncached_tokens = 820;
    const WorkerMatch match{.worker = WorkerId{0}, .blocks = 50, .pending_blocks = 50};
    const auto d =
        route_cost({.prompt_tokens = 820, .max_tokens = 64, .matches = {&match, 1}}, workers);
    EXPECT_EQ(d->worker, WorkerId{0});
    EXPECT_DOUBLE_EQ(d->candidates[0].wait_ms, 820 * kTokenMs);  // the prefix and a bit of ours
}

TEST(RouteCost, RestoringCountsWhatATierCosts) {
    auto workers = fleet(2);
    for (WorkerView& w : workers) {
        w.ram_restore_ms_per_token = 0.05;
        w.disk_restore_ms_per_token = 0.2;
    }
    const WorkerMatch on_disk{.worker = WorkerId{0}, .blocks = 50, .disk_blocks = 50};
    const WorkerMatch in_ram{.worker = WorkerId{1}, .blocks = 50, .ram_blocks = 50};
    const std::vector<WorkerMatch> both{on_disk, in_ram};
    const auto d = route_cost({.prompt_tokens = 820, .matches = both}, workers);
    EXPECT_EQ(d->worker, WorkerId{1});
    EXPECT_DOUBLE_EQ(d->candidates[0].restore_ms, 40);
    EXPECT_DOUBLE_EQ(d->candidates[1].restore_ms, 160);
}

TEST(RouteCost, AFullPoolCostsAndATooSmallOneCostsMore) {
    auto workers = fleet(2);
    for (WorkerView& w : workers) w.blocks_total = 100;
    workers[0].blocks_cached = 100;
    const RouteQuery query{.prompt_tokens = 320, .max_tokens = 16};
    EXPECT_EQ(choose(&route_cost, query, workers), 1u);
    workers[1].blocks_active = 95;
    const auto d = route_cost(query, workers);
    EXPECT_EQ(d->worker, WorkerId{0});
    EXPECT_GT(d->candidates[1].pool_ms, d->candidates[0].pool_ms);
}

TEST(RouteCost, AWorkerWithoutAFreeSlotMakesWait) {
    auto workers = fleet(2);
    workers[0].seqs_max = workers[1].seqs_max = 4;
    workers[0].running = 5;
    workers[1].running = 4;
    const auto d = route_cost({.prompt_tokens = 50, .max_tokens = 40}, workers);
    EXPECT_EQ(d->worker, WorkerId{1});
    EXPECT_DOUBLE_EQ(d->candidates[0].wait_ms, 0.25 * 40 * 5);
}

TEST(RouteCost, ASlowWorkerIsPricedByItsOwnSpeed) {
    auto workers = fleet(2);
    workers[0].prefill_ms_per_token = 2;
    workers[1].prefill_ms_per_token = 0;  // not measured: as the others'
    EXPECT_EQ(choose(&route_cost, {.prompt_tokens = 100}, workers), 0u);  // equal, so the first
    workers[1].prefill_ms_per_token = 1;
    EXPECT_EQ(choose(&route_cost, {.prompt_tokens = 100}, workers), 1u);
}

TEST(RouteCost, AnotherTenantsPrefixIsWorthNothing) {
    // The index is asked with this tenant's chain, so a match of another salt never appears.
    const auto d = route_cost({.prompt_tokens = 300}, fleet(2));
    for (const RouteCandidate& c : d->candidates) EXPECT_EQ(c.cached_tokens, 0u);
}

TEST(RouteCost, AnUntrustedWorkerGetsNoCreditButKeepsItsSessions) {
    auto workers = fleet(4);
    for (WorkerView& w : workers) w.trusted = w.id != WorkerId{2};
    const WorkerMatch match = device_match(2, 30);
    const RouteQuery plain{.prompt_tokens = 500, .matches = {&match, 1}};
    EXPECT_EQ(route_cost(plain, workers)->expected_cached_tokens, 0u);
    int there = 0;
    for (std::uint64_t session = 0; session < 400; ++session) {
        RouteQuery query = plain;
        query.session = session;
        const bool home = choose(&route_session_hash, query, workers) == 2;
        const auto d = route_cost(query, workers);
        EXPECT_EQ(d->worker == WorkerId{2}, home);
        there += home;
        if (home) {
            EXPECT_NE(d->reason.find("not trusted"), std::string::npos);
        }
    }
    EXPECT_GT(there, 60);
    EXPECT_LT(there, 140);
}

TEST(RouteCost, ALargeFleetLooksAtHoldersAndAFewSamples) {
    auto workers = fleet(300);
    for (WorkerView& w : workers) w.running = 1;
    const std::vector<WorkerMatch> matches{device_match(17, 40), device_match(250, 10)};
    const auto d = route_cost({.prompt_tokens = 700, .matches = matches, .seed = 3}, workers);
    EXPECT_EQ(d->worker, WorkerId{17});
    EXPECT_LE(d->candidates.size(), 10u);
    std::set<std::uint32_t> seen;
    for (std::uint64_t i = 0; i < 400; ++i) {
        seen.insert(choose(&route_cost, {.prompt_tokens = 700, .ordinal = i, .seed = 3}, workers));
    }
    EXPECT_GT(seen.size(), 40u);
}

// --- the others ---

TEST(RouteRoundRobin, TakesReadyWorkersInTurn) {
    auto workers = fleet(3);
    workers[1].ready = false;
    std::vector<std::uint32_t> order;
    for (std::uint64_t i = 0; i < 4; ++i) {
        order.push_back(choose(&route_round_robin, {.ordinal = i}, workers));
    }
    EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 2, 0, 2}));
}

TEST(RouteLeastLoaded, BelievesWhicheverCountKnowsOfMore) {
    auto workers = fleet(3);
    workers[0].running = 2;
    workers[1].in_flight = 1;
    workers[2].waiting = 3;
    EXPECT_EQ(choose(&route_least_loaded, {}, workers), 1u);
    workers[1].in_flight = 2;
    workers[1].last_chosen = 8;
    workers[0].last_chosen = 9;
    EXPECT_EQ(choose(&route_least_loaded, {}, workers), 1u);
}

TEST(RoutePrefixFirst, LongestPrefixWhateverTheLoad) {
    auto workers = fleet(3);
    workers[2].running = 60;
    const std::vector<WorkerMatch> matches{device_match(1, 3), device_match(2, 4)};
    EXPECT_EQ(choose(&route_prefix_first, {.prompt_tokens = 100, .matches = matches}, workers), 2u);
    workers[2].trusted = false;
    EXPECT_EQ(choose(&route_prefix_first, {.prompt_tokens = 100, .matches = matches}, workers), 1u);
    workers[0].running = workers[1].running = 2;
    workers[2].running = 1;
    EXPECT_EQ(choose(&route_prefix_first, {.prompt_tokens = 100}, workers), 2u);
}

TEST(RouteSessionHash, MovesOnlyTheSessionsOfAWorkerThatLeaves) {
    auto workers = fleet(5);
    std::map<std::uint64_t, std::uint32_t> home;
    std::map<std::uint32_t, int> share;
    for (std::uint64_t s = 0; s < 2000; ++s) {
        home[s] = choose(&route_session_hash, {.session = s}, workers);
        ++share[home[s]];
    }
    for (const auto& [worker, count] : share) {
        EXPECT_GT(count, 300) << worker;
        EXPECT_LT(count, 500) << worker;
    }
    workers[3].ready = false;
    for (const auto& [session, worker] : home) {
        const std::uint32_t now = choose(&route_session_hash, {.session = session}, workers);
        if (worker != 3) {
            EXPECT_EQ(now, worker);
        } else {
            EXPECT_NE(now, 3u);
        }
    }
}

TEST(RouteSessionHash, ASessionsHomeHangsOnNamesNotOnOrder) {
    auto workers = fleet(4);
    const std::uint32_t before = choose(&route_session_hash, {.session = 12}, workers);
    const std::string name(workers[before].name);
    std::swap(workers[0].name, workers[3].name);
    std::swap(workers[1].name, workers[2].name);
    EXPECT_EQ(workers[choose(&route_session_hash, {.session = 12}, workers)].name, name);
}

TEST(RouteSessionHash, WithoutASessionTheLeastLoaded) {
    auto workers = fleet(2);
    workers[0].running = 1;
    EXPECT_EQ(choose(&route_session_hash, {}, workers), 1u);
}

// --- registry ---

TEST(Registry, FindsEveryPolicyByItsNameAndListsThemOtherwise) {
    for (const auto& known : route_policies()) {
        EXPECT_EQ(find_route_policy(known.name)->policy, known.policy);
    }
    EXPECT_EQ(find_admit_policy("token_budget")->policy, &admit_token_budget);
    EXPECT_EQ(find_batch_policy("decode_first")->policy, &batch_decode_first);
    EXPECT_EQ(find_evict_policy("segmented_lru")->policy, &evict_segmented_lru);
    EXPECT_EQ(find_evict_policy("lru")->policy, &evict_lru);
    const auto missing = find_route_policy("costs");
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(missing.error().message,
              "no route policy is called 'costs'; there are: cost, round_robin, least_loaded, "
              "prefix_first, session_hash");
}

}  // namespace
}  // namespace taproot
