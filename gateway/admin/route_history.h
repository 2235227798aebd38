// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "policies/route/policy.h"

namespace taproot::gateway {

// Why a request went where it went, for GET /debug/route. One entry per attempt.
struct RouteRecord {
    std::string request_id;  // as in the x-request-id header
    std::string worker;
    RouteDecision decision;
    std::vector<std::string> candidate_names;  // same order as decision.candidates
    std::uint32_t prompt_tokens = 0;
    std::uint32_t attempt = 1;
    std::optional<std::uint32_t> real_cached_tokens;  // once the worker said
};

// The last `capacity` records. Owner: the I/O thread. O(1) to add; a lookup by id is one hash.
class RouteHistory {
public:
    explicit RouteHistory(std::size_t capacity) : capacity_(capacity) {}

    // Returns a number for set_real_cached().
    std::uint64_t add(RouteRecord record);
    void set_real_cached(std::uint64_t number, std::uint32_t tokens);

    // All attempts of that request, oldest first; empty when unknown or too old.
    [[nodiscard]] std::vector<const RouteRecord*> find(std::string_view request_id) const;
    [[nodiscard]] const RouteRecord* latest() const {
        return records_.empty() ? nullptr : &records_.back();
    }

private:
    std::size_t capacity_;
    std::uint64_t first_number_ = 0;  // of records_.front()
    std::deque<RouteRecord> records_;
};

// As JSON. `records` not empty: the last attempt is the main object, earlier ones under "earlier".
std::string route_json(const std::vector<const RouteRecord*>& records);

}  // namespace taproot::gateway
