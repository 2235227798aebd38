// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/types.h"
#include "radix_cache/kv_events.h"

// What gateway and worker say to each other. Plain data; link/codec.h gives the bytes, README.md
// the drawing of one request. Token ids only: a worker never sees text or JSON.
namespace taproot::link {

// Raised when a message changes shape. Both sides refuse a peer of another version by name.
inline constexpr std::uint32_t kProtocolVersion = 3;

// --- worker -> gateway ---------------------------------------------------------------------------

enum class Role : std::uint8_t { kMixed };  // prefill and decode roles come with disaggregation

// First message on every connection, from the worker.
struct Hello {
    std::uint32_t version = kProtocolVersion;
    std::string build;               // product version, for logs and GET /version
    std::string worker;              // its configured name
    std::uint64_t epoch = 0;         // new at each start of the worker process
    std::string model;               // served name
    std::uint64_t model_digest = 0;  // of the model file
    std::uint64_t text_digest = 0;   // of the TextModel; fetch it once per digest with FetchText
    std::uint64_t kv_layout_digest = 0;  // geometry, dtype, model: equal digests can share KV bytes
    std::uint32_t block_tokens = kBlockTokens;
    std::uint32_t blocks_total = 0;   // KV pool size
    std::uint32_t vocab = 0;          // rows of the output head
    std::uint32_t max_model_len = 0;  // prompt + generated tokens
    std::uint32_t max_num_seqs = 0;
    std::uint32_t queue_requests_max = 0;
    std::uint64_t queue_tokens_max = 0;  // uncached tokens that may wait
    Role role = Role::kMixed;
    std::string isa;                  // "avx512": part of system_fingerprint
    double prefill_ms_per_token = 0;  // first estimate; Load refines it
    friend bool operator==(const Hello&, const Hello&) = default;
};

enum class FinishReason : std::uint8_t { kNone, kStop, kLength, kAbort, kError };

struct TokenLogprob {
    TokenId token = 0;
    float logprob = 0;  // natural log of the untouched distribution; never NaN, floor -9999
    friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

// One sampled token of one choice of one request.
struct TokenOutput {
    RequestId request;
    std::uint16_t choice = 0;
    TokenId token = 0;      // the end token too (with finish kStop): the gateway hides it
    bool has_token = true;  // false: only the finish below
    FinishReason finish = FinishReason::kNone;
    std::optional<TokenId> stop_token;         // which end/stop id ended it
    std::optional<float> logprob;              // of `token`, when asked for
    std::vector<TokenLogprob> top_logprobs;    // descending, ties by lower id
    std::optional<std::uint64_t> logits_hash;  // XXH3-64 of the raw float32 row, when asked for
    friend bool operator==(const TokenOutput&, const TokenOutput&) = default;
};

// Facts about a request, once, with or before its first token.
struct RequestStarted {
    RequestId request;
    std::uint32_t prompt_tokens = 0;
    std::uint32_t cached_tokens = 0;  // prompt tokens whose KV was reused, exact to the token
    double queue_ms = 0;              // waiting before its first prefill chunk
    friend bool operator==(const RequestStarted&, const RequestStarted&) = default;
};

// Log-probabilities of prompt tokens (echo scoring): logprobs[i] belongs to prompt token first + i.
struct PromptLogprobs {
    RequestId request;
    std::uint32_t first = 0;
    std::vector<float> logprobs;
    std::vector<std::vector<TokenLogprob>> top;  // same length, or empty when top was not asked for
    friend bool operator==(const PromptLogprobs&, const PromptLogprobs&) = default;
};

// Everything one engine step produced, all streams in one frame.
struct StepOutput {
    std::uint64_t step = 0;
    std::vector<RequestStarted> started;
    std::vector<PromptLogprobs> prompt_logprobs;
    std::vector<TokenOutput> tokens;
    friend bool operator==(const StepOutput&, const StepOutput&) = default;
};

enum class RejectReason : std::uint8_t {
    kQueueFull,  // retry_after_ms says when to try again
    kTooLong,    // cannot fit this worker's context or pool, ever
    kInvalid,    // breaks a rule of Generate; a gateway bug
    kShuttingDown,
    kInternal,
};
struct Rejected {
    RequestId request;
    RejectReason reason = RejectReason::kInternal;
    std::string message;
    double retry_after_ms = 0;
    friend bool operator==(const Rejected&, const Rejected&) = default;
};

// Sent after steps, at most every load_interval_ms, and when idle turns to busy or back.
struct Load {
    std::uint32_t running = 0;
    std::uint32_t waiting = 0;
    std::uint32_t preempted = 0;       // swapped or waiting for their blocks again
    std::uint64_t backlog_tokens = 0;  // uncached prompt tokens waiting or in prefill
    std::uint32_t blocks_total = 0;
    std::uint32_t blocks_active = 0;  // pinned by running sequences
    std::uint32_t blocks_cached = 0;  // reusable, evictable
    double prefill_ms_per_token = 0;  // fitted from recent steps
    double decode_ms_per_step = 0;
    // The fitted cost of a step (policies/batch/cost_model.h), and how far off it usually is.
    double step_fixed_ms = 0;
    double step_decode_stream_ms = 0;
    double step_decode_context_ms = 0;
    double step_prefill_token_ms = 0;
    double step_prefill_pair_ms = 0;
    double step_error = 0;  // relative
    // Monotonic since start; the gateway turns differences into metrics.
    std::uint64_t prompt_tokens_total = 0;
    std::uint64_t prefill_tokens_total = 0;  // really computed
    std::uint64_t cached_tokens_total = 0;
    std::uint64_t generation_tokens_total = 0;
    std::uint64_t preemptions_total = 0;
    std::uint64_t evicted_blocks_total = 0;
    std::uint64_t steps_total = 0;
    // The RAM tier below the KV pool; all 0 without one.
    std::uint64_t block_bytes = 0;
    std::uint32_t ram_blocks_total = 0;
    std::uint32_t ram_blocks_used = 0;
    double ram_restore_ms_per_block = 0;          // measured, with what goes down for it
    std::uint64_t ram_stored_blocks_total = 0;    // came down
    std::uint64_t ram_restored_blocks_total = 0;  // went up
    std::uint64_t ram_dropped_blocks_total = 0;   // gave way to others
    std::uint64_t ram_refused_blocks_total = 0;   // did not come down: no slot could be emptied
    std::uint64_t ram_corrupt_blocks_total = 0;   // not as stored: computed again
    std::uint64_t ram_collisions_total = 0;       // another block with the same hash
    friend bool operator==(const Load&, const Load&) = default;
};

// KV events of one epoch, numbered without gaps: first_seq, first_seq+1, ...
struct KvEventBatch {
    std::uint64_t epoch = 0;
    std::uint64_t first_seq = 0;
    std::vector<KvEvent> events;
    friend bool operator==(const KvEventBatch&, const KvEventBatch&) = default;
};

// The whole tree at one moment: every block's (hash, parent); events continue at next_seq.
struct KvSnapshot {
    std::uint64_t epoch = 0;
    std::uint64_t next_seq = 0;
    std::vector<KvStored> stored;  // parents before children
    friend bool operator==(const KvSnapshot&, const KvSnapshot&) = default;
};

// The encoded TextModel (codec.h: encode_text_model), answering FetchText.
struct TextBundle {
    std::uint64_t digest = 0;
    std::string bytes;
    friend bool operator==(const TextBundle&, const TextBundle&) = default;
};

struct Pong {
    std::uint64_t nonce = 0;
    friend bool operator==(const Pong&, const Pong&) = default;
};

// --- gateway -> worker ---------------------------------------------------------------------------

struct LogitBias {
    TokenId token = 0;
    float bias = 0;
    friend bool operator==(const LogitBias&, const LogitBias&) = default;
};

// Definitions and order: facts of the API (temperature before top-k and top-p; 0 = greedy).
struct SamplingParams {
    float temperature = 1.0f;
    std::uint32_t top_k = 0;  // 0 = off
    float top_p = 1.0f;
    float min_p = 0.0f;
    float repetition_penalty = 1.0f;
    float presence_penalty = 0.0f;
    float frequency_penalty = 0.0f;
    std::vector<LogitBias> logit_bias;
    std::uint64_t seed = 0;            // always set: the gateway draws one when the client did not
    std::vector<TokenId> stop_tokens;  // besides the model's end tokens
    bool ignore_eos = false;
    std::uint32_t min_tokens = 0;
    std::optional<std::uint32_t> logprobs;         // top-N besides the chosen; 0 = chosen only
    std::optional<std::uint32_t> prompt_logprobs;  // score the prompt too
    bool logits_hash = false;                      // for `taproot check determinism`
    friend bool operator==(const SamplingParams&, const SamplingParams&) = default;
};

struct Generate {
    RequestId request;
    std::vector<TokenId> prompt;   // never empty
    std::uint64_t salt = 0;        // tenant: root of the hash chain
    std::uint32_t max_tokens = 0;  // 0 only with prompt_logprobs (score, generate nothing)
    std::uint16_t choices = 1;     // n; choice i draws from stream i of the seed
    SamplingParams sampling;
    std::int32_t priority = 0;                 // lower first
    std::uint32_t expected_cached_tokens = 0;  // what the router counted on
    friend bool operator==(const Generate&, const Generate&) = default;
};

struct Cancel {
    RequestId request;
    friend bool operator==(const Cancel&, const Cancel&) = default;
};
// Ends one choice only: a stop string matched at the gateway.
struct CancelChoice {
    RequestId request;
    std::uint16_t choice = 0;
    friend bool operator==(const CancelChoice&, const CancelChoice&) = default;
};
struct FetchText {
    std::uint64_t digest = 0;
    friend bool operator==(const FetchText&, const FetchText&) = default;
};
struct FetchSnapshot {
    std::uint64_t epoch = 0;
    friend bool operator==(const FetchSnapshot&, const FetchSnapshot&) = default;
};
struct Ping {
    std::uint64_t nonce = 0;
    friend bool operator==(const Ping&, const Ping&) = default;
};

using ToGateway =
    std::variant<Hello, StepOutput, Rejected, Load, KvEventBatch, KvSnapshot, TextBundle, Pong>;
using ToWorker = std::variant<Generate, Cancel, CancelChoice, FetchText, FetchSnapshot, Ping>;

}  // namespace taproot::link
