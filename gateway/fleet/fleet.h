// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/result.h"
#include "base/types.h"
#include "config/schema.h"
#include "link/link.h"
#include "link/messages.h"
#include "policies/route/policy.h"
#include "radix_cache/prefix_index.h"

namespace boost::asio {
class io_context;
}

namespace taproot::gateway {

struct ModelText;  // gateway/fleet/model_text.h: tokenizer and chat template, shared by digest

// A model that at least one configured worker has introduced. Kept while its workers are away, so
// that "all workers are down" (503) and "no such model" (404) stay apart.
struct ModelInfo {
    std::string name;
    std::shared_ptr<const ModelText> text;  // shared: requests keep it while they stream
    std::uint32_t max_model_len = 0;
    std::uint32_t vocab = 0;   // rows of the head; ids below text's vocabulary are valid
    std::int64_t created = 0;  // unix seconds, first seen
    std::string fingerprint;   // build, instruction set, model, KV layout
    bool ready = false;        // a worker can serve it now
};

// One request's ear: called on the I/O thread, in order, never after forget()/cancel() or after a
// call that says the request is over (rejected, lost, last choice finished).
class RequestSink {
public:
    virtual ~RequestSink() = default;
    virtual void on_started(const link::RequestStarted& started) = 0;
    virtual void on_tokens(std::span<const link::TokenOutput> tokens) = 0;  // all of this request
    virtual void on_prompt_logprobs(const link::PromptLogprobs& logprobs) = 0;
    virtual void on_rejected(const link::Rejected& rejected) = 0;
    virtual void on_worker_lost(const Error& error) = 0;
};

struct SubmitRequest {
    std::string_view model;
    link::Generate generate;               // request id is set by the fleet
    std::span<const BlockHash> chain;      // of the prompt's full blocks
    std::optional<std::uint64_t> session;  // for session_hash
    std::span<const WorkerId> exclude;     // workers that already failed this request
};

struct Ticket {
    RequestId request;
    WorkerId worker;
    std::string worker_name;
    RouteDecision decision;
};

// The workers this gateway knows: links to them, the prefix index their events keep true, the load
// they report. Owner: the gateway's I/O thread (all methods, all callbacks).
class Fleet {
public:
    Fleet(boost::asio::io_context& io, const config::Config& config, const Clock& clock,
          Metrics& metrics, link::LinkOptions link_options = {});
    ~Fleet();
    Fleet(const Fleet&) = delete;
    Fleet& operator=(const Fleet&) = delete;

    // Dials every configured worker and keeps dialling (backoff up to reconnect_ms_max).
    Result<void> start();
    // Closes all links; sinks still waiting hear on_worker_lost.
    void stop();

    [[nodiscard]] std::vector<ModelInfo> models() const;
    // By name; an absent name is the first model. Null: never heard of.
    [[nodiscard]] const ModelInfo* find_model(std::optional<std::string_view> name) const;
    // A worker can serve.
    [[nodiscard]] bool ready() const;

    // Looks the chain up, asks the policy, reserves the blocks, and sends Generate: one operation,
    // so that two requests in a row see each other. Errors: kUnavailable (no worker), kQueueFull
    // (retry_after_ms() says when), kInternal.
    Result<Ticket> submit(SubmitRequest request, RequestSink* sink);
    // The client left: tells the worker and forgets the sink. Unknown ids are fine.
    void cancel(RequestId request);
    // A stop string ended this choice; the others go on. The last open one ends the request like
    // cancel().
    void cancel_choice(RequestId request, std::uint16_t choice);

    // From the fleet's backlog: when a refused request should come again.
    [[nodiscard]] double retry_after_ms() const;

    [[nodiscard]] std::size_t requests_in_flight() const;
    // Of a worker in a decision; "" for an unknown id.
    [[nodiscard]] std::string_view worker_name(WorkerId worker) const;
    // What the router would see now: for /debug, tests.
    [[nodiscard]] std::vector<WorkerView> worker_views() const;
    [[nodiscard]] PrefixIndexStats index_stats() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace taproot::gateway
