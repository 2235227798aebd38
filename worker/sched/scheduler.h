// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/types.h"
#include "link/messages.h"
#include "policies/admit/policy.h"
#include "policies/batch/cost_model.h"
#include "policies/batch/policy.h"
#include "worker/kv/prefix_cache.h"
#include "worker/sched/in_flight.h"
#include "worker/sched/sequence.h"
#include "worker/sched/step_plan.h"

namespace taproot {

struct SchedulerOptions {
    std::uint32_t seqs_max = 64;
    std::uint32_t queue_requests_max = 1'024;
    std::uint64_t queue_tokens_max = 4'000'000;  // uncached
    double step_ms_target = 50;
    std::uint32_t prefill_chunk_tokens = 512;
    std::uint32_t score_chunk_tokens = 64;  // a scored chunk needs a row of logits per token
    double aging_ms = 2'000;
    std::uint32_t model_len_max = 0;  // prompt + generated; must fit the pool
    int tokens = 0;                   // vocabulary: ids below exist
    StepCost cost_prior;
    AdmitPolicy admit = &admit_token_budget;
    BatchPolicy batch = &batch_decode_first;
};

// Monotonic since start.
struct SchedulerCounters {
    std::uint64_t prompt_tokens = 0;   // of started requests
    std::uint64_t cached_tokens = 0;   // of those, reused
    std::uint64_t prefill_tokens = 0;  // really computed
    std::uint64_t generation_tokens = 0;
    std::uint64_t preemptions = 0;
    std::uint64_t steps = 0;
};

// Continuous batching, decided anew for every step:
//  - every decoding sequence gets its next token, in order of rank (priority, then arrival); when
//    no page is left the lowest rank is preempted;
//  - prompt chunks fill what is left of the step's time budget (policies/batch over the fitted
//    cost); with nothing decoding, a step takes the largest chunk;
//  - a chunk is planned only after matching the cache again, and not while another sequence is
//    computing the same block (InFlight);
//  - waiting requests are admitted while the step has room for more prompt tokens, best first
//    (policies/admit), if their whole prompt fits the pool beside what is promised already;
//  - blocks that lie in RAM come up before anything of their sequence is computed: in a step as
//    many as the decodes leave time for at the measured rate (one at least); a long context takes
//    several steps, and computes nothing between them;
//  - what needs few tokens (its prefix is cached) is admitted and served beside a long prompt.
//
// Owner: the engine thread. Errors: a request that cannot be served is a Rejected; nothing else
// fails. Invariants: waiting and preempted sequences hold no pages; a lone sequence always fits, so
// some sequence advances in every plan (or the plan after a preemption).
// Cost of plan(): linear in running sequences plus, while seats are free, one pass over the queue.
class Scheduler {
public:
    Scheduler(SchedulerOptions options, PrefixCache& cache, const Clock& clock);
    ~Scheduler();

    // Empty when the request was queued.
    std::optional<link::Rejected> submit(ClientId client, link::Generate&& spec);

    // Unknown keys are ignored: the request may have just ended.
    void cancel(RequestKey key);
    void cancel_choice(RequestKey key, std::uint16_t choice);
    void cancel_client(ClientId client);
    void cancel_all();

    // What to run now. Empty when there is nothing to do, or when a sequence had to be preempted
    // first (has_work() stays true: call again). The plan is valid until the next call.
    StepPlan& plan();

    // The plan ran: advances positions, puts full blocks into the tree.
    void commit(const StepPlan& plan);

    // All of that step, from planning to sampling, took this long: learns what steps cost.
    void took(const StepWork& work, double step_ms) { cost_.add(work, step_ms); }

    // Makes choice `choice` of a request whose prompt was just computed by `lead`. Call before the
    // lead's next token is appended. `copy` is set when the caller must copy the last page now.
    // Without a seat or a page the new sequence starts as preempted and resumes by itself.
    Sequence& fork(Sequence& lead, std::uint16_t choice, std::optional<BlockCopy>& copy);

    void append(Sequence& sequence, TokenId token);

    // Ends a choice and gives back everything it holds. The object stays readable until the next
    // plan().
    void finish(Sequence& sequence);

    // Marks a request as started and counts its prompt.
    void mark_started(Request& request);

    [[nodiscard]] bool has_work() const { return !running_.empty() || !queue_.empty(); }
    [[nodiscard]] std::size_t running() const { return running_.size(); }
    [[nodiscard]] std::size_t waiting() const { return queue_.size() - preempted_; }
    [[nodiscard]] std::size_t preempted() const { return preempted_; }
    [[nodiscard]] std::uint64_t backlog_tokens() const;  // to compute: queued and in prefill
    [[nodiscard]] StepCost cost() const { return cost_.cost(); }
    [[nodiscard]] double cost_error() const { return cost_.error(); }  // usual, relative
    // Of the last mix of decodes: what one more step of them takes.
    [[nodiscard]] double decode_ms_per_step() const;
    [[nodiscard]] double prefill_ms_per_token() const;
    // One block from RAM to the device, with what goes down for it; measured, 0 before that.
    [[nodiscard]] double restore_ms_per_block() const { return restore_ms_per_block_; }
    [[nodiscard]] const SchedulerCounters& counters() const { return counters_; }
    [[nodiscard]] std::size_t requests() const { return requests_.size(); }
    template <typename Visit>
    void for_each_request(Visit visit) const {
        for (const auto& [key, request] : requests_) visit(*request);
    }

    // One sentence per broken invariant; O(everything). For tests and fuzzing.
    [[nodiscard]] std::vector<std::string> check_integrity() const;

private:
    // Deciding a step (scheduler_plan.cc).
    void plan_decodes();
    void plan_prefills();
    void admit_waiting(std::size_t prefill_room);
    void choose_candidates();
    void put_quick_first();
    void plan_chunk(Sequence& sequence, std::size_t count);
    void rematch(Sequence& sequence);
    [[nodiscard]] std::size_t restore_allowance() const;
    void count_restore(std::size_t blocks, double ms);
    [[nodiscard]] bool fits(const Sequence& sequence, const CacheProbe& probe) const;
    [[nodiscard]] CacheProbe probe(Sequence& sequence);
    void refresh_estimates();
    [[nodiscard]] bool waits_for_twin(const Sequence& sequence, std::size_t position) const;
    [[nodiscard]] std::size_t match_limit(const Sequence& sequence) const;
    [[nodiscard]] std::size_t chunk_limit(const Sequence& sequence) const;
    [[nodiscard]] std::size_t promised_pages() const;

    // Moving sequences between states (scheduler.cc).
    [[nodiscard]] QueueView queue_view() const;
    void enqueue(Sequence& sequence, SequenceState state);
    void dequeue(Sequence& sequence);
    void start_running(Sequence& sequence, SequenceState state);
    void stop_running(Sequence& sequence);
    void preempt(Sequence& sequence);
    void set_estimate(Sequence& sequence, std::size_t uncached);
    void release(Sequence& sequence);
    void give_back_pages(Sequence& sequence);
    void end_choice(Request& request, std::uint16_t choice);
    void end_request(Request& request);

    SchedulerOptions options_;
    PrefixCache& cache_;
    const Clock& clock_;
    StepCostFit cost_;
    SchedulerCounters counters_;

    std::unordered_map<RequestKey, std::unique_ptr<Request>, RequestKeyHash> requests_;
    std::vector<std::unique_ptr<Request>> ended_;  // kept until the next plan()
    std::vector<Sequence*> running_;               // best rank first
    std::vector<Sequence*> queue_;                 // waiting and preempted, any order
    std::size_t preempted_ = 0;
    std::uint64_t queued_uncached_ = 0;  // sum of the queue's estimates
    std::size_t refresh_next_ = 0;       // round robin through the queue
    InFlight in_flight_;
    StepPlan plan_;
    std::vector<Sequence*> prefills_;    // scratch: may get a chunk in this step
    std::vector<Sequence*> candidates_;  // scratch: best of the queue, best first
    std::vector<PrefillView> views_;     // scratch
    std::uint64_t next_arrival_ = 0;
    double request_ms_ = 0;            // mean time in the batch, decayed
    StepWork last_decodes_;            // of the last step that had any
    double restore_ms_per_block_ = 0;  // 0 = not measured yet
    std::size_t restore_left_ = 0;     // blocks that may still come up in this plan
};

}  // namespace taproot
