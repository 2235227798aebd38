// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "link/messages.h"
#include "radix_cache/block_hash.h"
#include "worker/kv/block_table.h"
#include "worker/sample/penalties.h"

namespace taproot {

using ClientId = StrongId<struct ClientIdTag, std::uint64_t>;  // one gateway connection

// Request ids are unique per gateway connection only.
struct RequestKey {
    ClientId client;
    RequestId request;
    friend bool operator==(const RequestKey&, const RequestKey&) = default;
};
struct RequestKeyHash {
    std::size_t operator()(const RequestKey& key) const noexcept {
        return std::hash<std::uint64_t>{}(key.client.value * 0x9E3779B97F4A7C15ull ^
                                          key.request.value);
    }
};

//              admitted                 last token computed            stop, limit
//   waiting ─────────────> prefill ────────────────────────> decode ───────────────> finished
//                          │    ^                            │
//             pool is full │    │ admitted again             │ pool is full
//                          v    │                            │
//                          preempted <───────────────────────┘
//   any ── cancelled ──> finished
//
// Waiting and preempted sequences hold no pages: what a preempted one had computed stays in the
// prefix cache (on the device, or in RAM when it was evicted since) and is matched again when it
// returns; its generated tokens are part of `tokens`.
enum class SequenceState : std::uint8_t {
    kNew,  // in no list yet, or between two
    kWaiting,
    kPrefill,
    kDecode,
    kPreempted,
    kFinished,
};

struct Request;

// One choice of one request. Owner: the scheduler (engine thread).
// Invariants: table covers [0, computed) while running; in decode computed == tokens.size() - 1
// between steps; hasher covers all of `tokens`.
struct Sequence {
    Sequence(Request* owner, std::uint16_t choice_index, PrefixCache* cache, std::uint64_t salt)
        : request(owner), choice(choice_index), table(cache), hasher(salt) {}

    Request* request;
    std::uint16_t choice = 0;
    SequenceState state = SequenceState::kNew;
    std::vector<TokenId> tokens;  // prompt and generated
    std::size_t computed = 0;     // tokens whose KV is in the table
    BlockTable table;
    BlockHasher hasher;
    Penalties penalties;

    std::size_t uncached_estimate = 0;       // tokens to compute, as of estimate_version
    std::uint64_t estimate_version = ~0ull;  // of the prefix cache
    std::uint64_t matched_version = ~0ull;   // when it last tried to extend
    std::uint64_t last_progress_step = 0;    // a chunk of its prefill ran, or blocks came up
    bool restoring = false;                  // RAM holds more of it: no chunk before that came up

    [[nodiscard]] bool running() const {
        return state == SequenceState::kPrefill || state == SequenceState::kDecode;
    }
    [[nodiscard]] bool queued() const {
        return state == SequenceState::kWaiting || state == SequenceState::kPreempted;
    }
    [[nodiscard]] std::size_t remaining() const { return tokens.size() - computed; }
    [[nodiscard]] std::size_t output_tokens() const;
};

// What a client asked for. Its choices share the prompt: choice 0 computes it, the others fork from
// it when the first token is drawn.
struct Request {
    RequestKey key;
    std::uint64_t arrival = 0;  // unique, ascending
    TimePoint arrived_at;
    TimePoint admitted_at;
    bool admitted = false;
    bool started = false;  // RequestStarted was sent
    bool forked = false;
    link::Generate spec;  // without the prompt, which moves into the first sequence
    std::size_t prompt_tokens = 0;
    std::size_t reused_tokens = 0;  // of the prompt, from the cache, exact to the token
    std::size_t reached = 0;        // furthest prompt position computed or reused so far
    std::size_t scored = 0;         // rows of the prompt whose log-probabilities were sent
    std::vector<std::unique_ptr<Sequence>> sequences;  // index 0 leads; others made when it forks
    std::vector<bool> choice_ended;  // finished or cancelled, also before it had a sequence
    std::size_t unfinished = 0;      // choices not ended

    [[nodiscard]] bool scores_prompt() const { return spec.sampling.prompt_logprobs.has_value(); }
};

inline std::size_t Sequence::output_tokens() const {
    return tokens.size() - request->prompt_tokens;
}

}  // namespace taproot
