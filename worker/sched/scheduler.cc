// SPDX-License-Identifier: Apache-2.0
#include "worker/sched/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/units.h"
#include "worker/sched/request_check.h"

namespace taproot {
namespace {

// Who keeps its pages when they run out, and is served first.
bool outranks(const Sequence* a, const Sequence* b) {
    const Request& left = *a->request;
    const Request& right = *b->request;
    if (left.spec.priority != right.spec.priority) return left.spec.priority < right.spec.priority;
    if (left.arrival != right.arrival) return left.arrival < right.arrival;
    return a->choice < b->choice;
}

}  // namespace

Scheduler::Scheduler(SchedulerOptions options, PrefixCache& cache, const Clock& clock)
    : options_(options), cache_(cache), clock_(clock), cost_(options.cost_prior) {
    TAPROOT_ASSERT(options.seqs_max > 0);
    TAPROOT_ASSERT(options.model_len_max > 0);
    TAPROOT_ASSERT(options.prefill_chunk_tokens > 0);
}

Scheduler::~Scheduler() {
    cancel_all();
}

// --- arriving and leaving ------------------------------------------------------------------------

std::optional<link::Rejected> Scheduler::submit(ClientId client, link::Generate&& spec) {
    RequestKey key{client, spec.request};
    if (auto wrong = check_request(spec, options_.model_len_max, options_.tokens)) return wrong;
    if (requests_.count(key) > 0)
        return link::Rejected{key.request, link::RejectReason::kInvalid,
                              fmt::format("request id {} is in use", key.request.value), 0};

    auto request = std::make_unique<Request>();
    request->key = key;
    request->arrived_at = clock_.now();
    request->prompt_tokens = spec.prompt.size();
    request->unfinished = spec.choices;
    request->choice_ended.resize(spec.choices);
    request->sequences.resize(spec.choices);
    auto lead = std::make_unique<Sequence>(request.get(), std::uint16_t{0}, &cache_, spec.salt);
    lead->tokens = std::move(spec.prompt);
    request->spec = std::move(spec);
    std::size_t cached =
        cache_.probe(request->spec.salt, std::span(lead->tokens).first(match_limit(*lead))).tokens;
    std::size_t uncached = lead->tokens.size() - cached;

    AdmitQuery query{static_cast<std::uint32_t>(uncached), request->spec.choices};
    AdmitDecision decision = options_.admit(query, queue_view());
    if (decision.action == AdmitAction::kReject)
        return link::Rejected{key.request, link::RejectReason::kQueueFull,
                              std::move(decision.reason), decision.retry_after_ms};

    request->arrival = next_arrival_++;
    lead->hasher.append(lead->tokens);
    lead->penalties = Penalties(request->spec.sampling, lead->tokens, options_.tokens);
    set_estimate(*lead, uncached);
    enqueue(*lead, SequenceState::kWaiting);
    request->sequences[0] = std::move(lead);
    requests_.emplace(key, std::move(request));
    return std::nullopt;
}

QueueView Scheduler::queue_view() const {
    QueueView view;
    view.running = static_cast<std::uint32_t>(running_.size());
    view.seqs_max = options_.seqs_max;
    view.queued_requests = static_cast<std::uint32_t>(queue_.size());
    view.queued_requests_max = options_.queue_requests_max;
    view.queued_uncached_tokens = queued_uncached_;
    view.queued_uncached_tokens_max = options_.queue_tokens_max;
    view.prefill_ms_per_token = prefill_ms_per_token();
    view.request_ms = request_ms_;
    return view;
}

void Scheduler::cancel(RequestKey key) {
    auto found = requests_.find(key);
    if (found != requests_.end()) end_request(*found->second);
}

void Scheduler::cancel_choice(RequestKey key, std::uint16_t choice) {
    auto found = requests_.find(key);
    if (found == requests_.end() || choice >= found->second->choice_ended.size()) return;
    Request& request = *found->second;
    // Before the fork the lead computes the prompt for all: it ends with the last choice only.
    if (request.forked && request.sequences[choice]) release(*request.sequences[choice]);
    end_choice(request, choice);
}

void Scheduler::cancel_client(ClientId client) {
    std::vector<Request*> gone;
    for (const auto& [key, request] : requests_)
        if (key.client == client) gone.push_back(request.get());
    for (Request* request : gone) end_request(*request);
}

void Scheduler::cancel_all() {
    while (!requests_.empty()) end_request(*requests_.begin()->second);
    ended_.clear();
}

void Scheduler::finish(Sequence& sequence) {
    release(sequence);
    end_choice(*sequence.request, sequence.choice);
}

void Scheduler::release(Sequence& sequence) {
    if (sequence.running()) stop_running(sequence);
    if (sequence.queued()) dequeue(sequence);
    give_back_pages(sequence);
    sequence.state = SequenceState::kFinished;
}

// What is computed stays in the cache, to the token.
void Scheduler::give_back_pages(Sequence& sequence) {
    cache_.retire(sequence.table, sequence.request->spec.salt, sequence.tokens, sequence.computed);
    sequence.computed = 0;
}

void Scheduler::end_choice(Request& request, std::uint16_t choice) {
    if (request.choice_ended[choice]) return;
    request.choice_ended[choice] = true;
    if (--request.unfinished == 0) end_request(request);
}

void Scheduler::end_request(Request& request) {
    auto found = requests_.find(request.key);
    if (found == requests_.end()) return;
    for (auto& sequence : request.sequences)
        if (sequence && sequence->state != SequenceState::kFinished) release(*sequence);
    if (request.admitted) {
        double ms = to_ms(clock_.now() - request.admitted_at);
        request_ms_ = request_ms_ == 0 ? ms : 0.9 * request_ms_ + 0.1 * ms;
    }
    ended_.push_back(std::move(found->second));
    requests_.erase(found);
}

// --- growing -------------------------------------------------------------------------------------

Sequence& Scheduler::fork(Sequence& lead, std::uint16_t choice, std::optional<BlockCopy>& copy) {
    Request& request = *lead.request;
    TAPROOT_ASSERT(choice > 0 && !request.sequences[choice]);
    TAPROOT_ASSERT(lead.tokens.size() == request.prompt_tokens);
    TAPROOT_ASSERT(lead.state == SequenceState::kDecode);
    request.sequences[choice] =
        std::make_unique<Sequence>(&request, choice, &cache_, request.spec.salt);
    Sequence& sequence = *request.sequences[choice];
    sequence.tokens = lead.tokens;
    sequence.hasher = lead.hasher;
    sequence.penalties = lead.penalties;

    bool seat = running_.size() < options_.seqs_max;
    bool has_tail = lead.table.size() > lead.table.shared();
    BlockRef page = seat && has_tail ? cache_.allocate() : BlockRef();
    if (!seat || (has_tail && !page)) {
        set_estimate(sequence, 1);
        enqueue(sequence, SequenceState::kPreempted);
        return sequence;
    }
    sequence.table = cache_.share(lead.table);
    sequence.computed = lead.computed;
    if (has_tail) {
        copy = BlockCopy{lead.table.ids()[lead.table.shared()], page.id()};
        sequence.table.append_own(std::move(page));
    }
    start_running(sequence, SequenceState::kDecode);
    return sequence;
}

void Scheduler::append(Sequence& sequence, TokenId token) {
    sequence.tokens.push_back(token);
    sequence.hasher.append(std::span(&token, 1));
    sequence.penalties.on_output(token);
    ++counters_.generation_tokens;
    if (sequence.queued()) set_estimate(sequence, sequence.uncached_estimate + 1);
}

void Scheduler::mark_started(Request& request) {
    request.started = true;
    counters_.prompt_tokens += request.prompt_tokens;
    counters_.cached_tokens += request.reused_tokens;
}

// --- states --------------------------------------------------------------------------------------

void Scheduler::set_estimate(Sequence& sequence, std::size_t uncached) {
    if (sequence.queued()) {
        queued_uncached_ -= sequence.uncached_estimate;
        queued_uncached_ += uncached;
    }
    sequence.uncached_estimate = uncached;
    sequence.estimate_version = cache_.version();
}

void Scheduler::enqueue(Sequence& sequence, SequenceState state) {
    queue_.push_back(&sequence);
    queued_uncached_ += sequence.uncached_estimate;
    if (state == SequenceState::kPreempted) ++preempted_;
    sequence.state = state;
    sequence.matched_version = ~0ull;
}

void Scheduler::dequeue(Sequence& sequence) {
    auto found = std::find(queue_.begin(), queue_.end(), &sequence);
    TAPROOT_ASSERT(found != queue_.end());
    std::swap(*found, queue_.back());
    queue_.pop_back();
    queued_uncached_ -= sequence.uncached_estimate;
    if (sequence.state == SequenceState::kPreempted) --preempted_;
}

void Scheduler::start_running(Sequence& sequence, SequenceState state) {
    sequence.state = state;
    running_.insert(std::upper_bound(running_.begin(), running_.end(), &sequence, outranks),
                    &sequence);
}

void Scheduler::stop_running(Sequence& sequence) {
    auto found = std::find(running_.begin(), running_.end(), &sequence);
    TAPROOT_ASSERT(found != running_.end());
    running_.erase(found);
    in_flight_.withdraw(sequence, sequence.computed / kBlockTokens,
                        sequence.hasher.hashes().size());
}

void Scheduler::preempt(Sequence& sequence) {
    stop_running(sequence);
    give_back_pages(sequence);
    std::size_t cached = cache_
                             .probe(sequence.request->spec.salt,
                                    std::span(sequence.tokens).first(match_limit(sequence)))
                             .tokens;
    sequence.state = SequenceState::kNew;
    set_estimate(sequence, sequence.tokens.size() - cached);
    enqueue(sequence, SequenceState::kPreempted);
    ++counters_.preemptions;
}

// --- facts ---------------------------------------------------------------------------------------

std::uint64_t Scheduler::backlog_tokens() const {
    std::uint64_t tokens = queued_uncached_;
    for (const Sequence* sequence : running_)
        if (sequence->state == SequenceState::kPrefill) tokens += sequence->remaining();
    return tokens;
}

double Scheduler::decode_ms_per_step() const {
    return cost_.cost().predict_ms(last_decodes_);
}

// At the largest chunk of a prompt without context: what a long queue drains at.
double Scheduler::prefill_ms_per_token() const {
    StepWork work;
    work.prefill_tokens = options_.prefill_chunk_tokens;
    work.prefill_context_pairs = std::uint64_t{work.prefill_tokens} * (work.prefill_tokens + 1) / 2;
    return cost_.cost().predict_ms(work) / work.prefill_tokens;
}

std::vector<std::string> Scheduler::check_integrity() const {
    std::vector<std::string> wrong = cache_.check_integrity();
    auto expect = [&wrong](bool holds, std::string sentence) {
        if (!holds) wrong.push_back(std::move(sentence));
    };
    std::uint64_t uncached = 0;
    std::size_t preempted = 0;
    for (const Sequence* sequence : queue_) {
        expect(sequence->queued(), "a queued sequence is in another state");
        expect(sequence->table.size() == 0, "a queued sequence holds pages");
        uncached += sequence->uncached_estimate;
        preempted += sequence->state == SequenceState::kPreempted;
    }
    expect(uncached == queued_uncached_, "the sum of the queue's estimates is wrong");
    expect(preempted == preempted_, "the number of preempted sequences is wrong");
    for (const Sequence* sequence : running_) {
        expect(sequence->running(), "a running sequence is in another state");
        expect(sequence->computed <= sequence->table.size() * kBlockTokens, "positions lack pages");
        expect(sequence->table.shared() * kBlockTokens <= sequence->computed,
               "shared blocks are not computed");
        expect(sequence->state != SequenceState::kDecode || sequence->remaining() == 1,
               "a decoding sequence is not one token ahead");
        expect(sequence->hasher.tokens() == sequence->tokens.size(), "a hash chain is behind");
    }
    expect(std::is_sorted(running_.begin(), running_.end(), outranks), "ranks are out of order");
    expect(running_.size() <= options_.seqs_max, "more sequences run than allowed");
    std::size_t live = 0;
    for (const auto& [key, request] : requests_)
        for (const auto& sequence : request->sequences)
            live += sequence && sequence->state != SequenceState::kFinished;
    expect(live == queue_.size() + running_.size(), "a sequence is in no list or in two");
    return wrong;
}

}  // namespace taproot
