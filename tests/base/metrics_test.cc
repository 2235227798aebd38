// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <gtest/gtest.h>

namespace taproot {
namespace {

TEST(Metrics, TheSameNameAndLabelsGiveTheSameCounter) {
    Metrics metrics;
    metrics.counter("taproot_requests_total", "Requests.", {{"worker", "w0"}}).Increment();
    metrics.counter("taproot_requests_total", "Requests.", {{"worker", "w0"}}).Increment(2);
    EXPECT_NE(metrics.render().find("taproot_requests_total{worker=\"w0\"} 3"), std::string::npos);
}

TEST(Metrics, NamesWithAColonAreAllowedForVllmAliases) {
    Metrics metrics;
    metrics.gauge("vllm:num_requests_running", "Running.").Set(4);
    EXPECT_NE(metrics.render().find("vllm:num_requests_running 4"), std::string::npos);
}

}  // namespace
}  // namespace taproot
