// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "radix_cache/prefix_index.h"

namespace taproot::gateway {

class RequestSink;

// A request between submit and its end.
struct Flight {
    RequestSink* sink = nullptr;
    WorkerId worker;
    std::size_t model = 0;  // index in the model table
    std::uint32_t prompt_tokens = 0;
    std::uint32_t expected_cached_tokens = 0;
    ReservationId reservation;
    // For proving events wrong: blocks the index swore to when routing (none reserved, none in a
    // slower tier), and the worker's count of removals then.
    std::optional<std::uint32_t> sworn_blocks;
    std::uint64_t removals = 0;
    bool started = false;    // RequestStarted came: it no longer waits
    bool has_token = false;  // a token came: its prompt is no work any more
    std::vector<bool> open_choices;
    std::size_t open_count = 0;

    [[nodiscard]] std::uint32_t uncached_tokens() const {
        return prompt_tokens - expected_cached_tokens;
    }
};

// Everything this gateway has at its workers, and the sums the router and the limits read.
// Owner: the I/O thread. Invariant: each sum equals the sum over the flights (check()).
// Cost: O(1) a call, except of_worker.
class Flights {
public:
    struct Waiting {  // not started
        std::uint32_t requests = 0;
        std::uint64_t uncached_tokens = 0;
    };
    struct AtWorker {
        std::uint32_t requests = 0;
        std::uint64_t unstarted_uncached_tokens = 0;  // of those without a token
    };

    Flights(std::size_t workers);

    void add(RequestId id, Flight flight);
    // Null when it is over or never was.
    [[nodiscard]] Flight* find(RequestId id);
    std::optional<Flight> remove(RequestId id);
    void mark_started(Flight& flight);
    void mark_token(Flight& flight);
    // False when it was closed already (or never was).
    bool close_choice(Flight& flight, std::uint16_t choice);

    [[nodiscard]] std::size_t size() const { return flights_.size(); }
    [[nodiscard]] Waiting waiting(std::size_t model) const;
    [[nodiscard]] AtWorker at_worker(WorkerId worker) const { return at_worker_[worker.value]; }
    [[nodiscard]] std::vector<RequestId> of_worker(WorkerId worker) const;  // ascending
    [[nodiscard]] bool check() const;                                       // for tests

private:
    std::unordered_map<RequestId, Flight> flights_;
    std::vector<Waiting> waiting_;  // by model
    std::vector<AtWorker> at_worker_;
};

}  // namespace taproot::gateway
