// SPDX-License-Identifier: Apache-2.0
#include "gateway/stream/stop_matcher.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/random.h"

namespace taproot::gateway {
namespace {

struct Outcome {
    std::vector<std::string> deltas;
    bool matched = false;
    std::string all() const {
        std::string out;
        for (const auto& delta : deltas) out += delta;
        return out;
    }
};

Outcome feed(const std::vector<std::string>& stops, const std::vector<std::string>& parts,
             StopMatcher::Include include = StopMatcher::Include::kNo) {
    StopMatcher matcher(stops, include);
    Outcome run;
    for (const std::string& part : parts) {
        run.deltas.emplace_back();
        if (matcher.push(part, &run.deltas.back())) {
            run.matched = true;
            return run;
        }
    }
    run.deltas.emplace_back();
    matcher.flush(&run.deltas.back());
    return run;
}

TEST(StopMatcher, HoldsBackAStopStringThatSpansSeveralTokens) {  // B029
    Outcome run = feed({"two three"}, {"one ", "tw", "o th", "re", "e four"});
    EXPECT_TRUE(run.matched);
    EXPECT_EQ(run.deltas, (std::vector<std::string>{"one ", "", "", "", ""}));
    run = feed({"ater is"}, {"cold w", "ater", " is wet"});
    EXPECT_TRUE(run.matched);
    EXPECT_EQ(run.all(), "cold w");
}

TEST(StopMatcher, GivesBackWhatWasHeldWhenTheMatchDoesNotComplete) {  // B030
    Outcome run = feed({"\n<|endoftext|>", "Observation:"}, {"\n", "foo", "Obs", "erver"});
    EXPECT_FALSE(run.matched);
    EXPECT_EQ(run.all(), "\nfooObserver");
}

TEST(StopMatcher, FollowsOverlappingBeginnings) {  // B030
    Outcome run = feed({"aab"}, {"a", "a", "a", "b"});
    EXPECT_TRUE(run.matched);
    EXPECT_EQ(run.all(), "a");
}

TEST(StopMatcher, ShowsTheStopStringWhenAsked) {
    Outcome run = feed({"END"}, {"the E", "ND of"}, StopMatcher::Include::kYes);
    EXPECT_TRUE(run.matched);
    EXPECT_EQ(run.all(), "the END");
}

TEST(StopMatcher, TheFirstCompleteStringWins) {
    EXPECT_EQ(feed({"abcd", "bc"}, {"xabcd"}).all(), "xa");
    EXPECT_EQ(feed({"b", "ab"}, {"xab"}).all(), "x");  // both end at the same byte: the longer
}

TEST(StopMatcher, PassingTextReleasesWhatWasHeld) {
    StopMatcher matcher(std::vector<std::string>{"stop"}, StopMatcher::Include::kNo);
    std::string out;
    EXPECT_FALSE(matcher.push("st", &out));
    EXPECT_EQ(out, "");
    matcher.pass("op", &out);
    EXPECT_EQ(out, "stop");
}

// The naive twin: looks at the whole text after every byte.
std::pair<std::string, bool> naive(const std::vector<std::string>& stops, const std::string& text) {
    for (std::size_t end = 1; end <= text.size(); ++end) {
        std::size_t longest = 0;
        for (const std::string& stop : stops)
            if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0)
                longest = std::max(longest, stop.size());
        if (longest > 0) return {text.substr(0, end - longest), true};
    }
    return {text, false};
}

TEST(StopMatcher, AgreesWithANaiveSearchAndHoldsBackNoMoreThanNeeded) {
    const char* replay = std::getenv("TAPROOT_SEED");
    std::uint64_t seed = replay != nullptr ? std::strtoull(replay, nullptr, 10) : 20240601;
    SCOPED_TRACE("TAPROOT_SEED=" + std::to_string(seed));
    Random random(seed);
    auto word = [&](std::size_t most) {
        std::string out;
        for (std::size_t i = 0, n = 1 + random.below(most); i < n; ++i)
            out += static_cast<char>('a' + random.below(2));
        return out;
    };
    for (int round = 0; round < 20000; ++round) {
        std::vector<std::string> stops, parts;
        for (std::size_t i = 0, n = 1 + random.below(3); i < n; ++i) stops.push_back(word(5));
        std::string text;
        for (std::size_t i = 0, n = random.below(6); i < n; ++i)
            text += parts.emplace_back(word(4));
        auto [expected, matched] = naive(stops, text);
        StopMatcher matcher(stops, StopMatcher::Include::kNo);
        std::string out, seen;
        bool stopped = false;
        for (const std::string& part : parts) {
            seen += part;
            if ((stopped = matcher.push(part, &out))) break;
            // Held: exactly the longest suffix of the text that begins a stop string.
            std::size_t longest = 0;
            for (const std::string& stop : stops)
                for (std::size_t k = 1; k < stop.size() && k <= seen.size(); ++k)
                    if (seen.compare(seen.size() - k, k, stop, 0, k) == 0)
                        longest = std::max(longest, k);
            ASSERT_EQ(matcher.held_bytes(), longest) << seen;
        }
        if (!stopped) matcher.flush(&out);
        ASSERT_EQ(stopped, matched);
        ASSERT_EQ(out, expected);
    }
}

}  // namespace
}  // namespace taproot::gateway
