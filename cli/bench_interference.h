// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "cli/http_client.h"

namespace taproot::cli {

struct InterferenceOptions {
    std::uint32_t streams = 8;
    std::uint32_t long_prompt_tokens = 6'000;
    std::uint32_t answer_tokens = 2'048;  // of a running stream; one that ends begins anew
    double steady_ms = 2'000;             // all streams run this long before the prompt arrives
};

// What running streams feel while a long prompt is being computed. Milliseconds between texts of
// one stream; a text is usually one token.
struct InterferenceReport {
    std::uint32_t streams = 0;
    std::uint32_t long_prompt_tokens = 0;  // as the server counted them
    std::uint32_t long_cached_tokens = 0;  // not 0: the server knew the prompt, nothing was proved
    double long_ttft_ms = 0;
    std::vector<double> before;  // gaps that ended before the prompt was sent
    std::vector<double> during;  // gaps that overlap the time from its sending to its first text
};

// Gaps of one stream into `before` and `during`.
void sort_gaps(const std::vector<TimePoint>& texts, TimePoint sent, TimePoint first,
               InterferenceReport& report);

// Runs the streams, sends the prompt, and closes the streams when it has been answered. Works
// against any server with the chat API. Errors: the server's, or a stream that gave no text in 60
// s.
Result<InterferenceReport> measure_interference(const HttpClient& client, const std::string& model,
                                                const InterferenceOptions& options, Random& random);

boost::json::object interference_json(const InterferenceReport& report);

}  // namespace taproot::cli
