// SPDX-License-Identifier: Apache-2.0
// How Scheduler decides a step and takes its result.
#include <algorithm>

#include "base/assert.h"
#include "base/units.h"
#include "worker/sched/scheduler.h"

namespace taproot {
namespace {

constexpr std::size_t kCandidates = 32;        // of the queue, looked at in one plan
constexpr std::size_t kEstimatesPerPlan = 16;  // stale ones matched again in one plan
constexpr double kRestoreShare = 0.125;        // of the step's target, for blocks from RAM
constexpr double kRestoreMemory = 256;         // blocks that the measured rate remembers
constexpr std::size_t kUnmeasuredBlocks = 8;   // in the first step that restores
constexpr std::size_t kQuickTokens = 64;       // that may overtake a long prompt in one step

// Sum over `count` tokens from `position` on of the tokens each attends to, itself included.
std::uint64_t context_pairs(std::size_t position, std::size_t count) {
    return count * position + count * (count + 1) / 2;
}

}  // namespace

StepPlan& Scheduler::plan() {
    plan_.clear();
    ended_.clear();
    plan_decodes();
    restore_left_ = cache_.ram() == nullptr ? 0 : restore_allowance();
    plan_prefills();
    return plan_;
}

void Scheduler::plan_decodes() {
    for (std::size_t i = 0; i < running_.size(); ++i) {
        Sequence* sequence = running_[i];
        if (sequence->state != SequenceState::kDecode) continue;
        if (sequence->computed == sequence->table.size() * kBlockTokens) {
            BlockRef page = cache_.allocate();
            // The lowest rank gives way; everybody at or before i is planned or is this one.
            while (!page && sequence->state == SequenceState::kDecode) {
                preempt(*running_.back());
                if (sequence->state == SequenceState::kDecode) page = cache_.allocate();
            }
            if (!page) return;
            sequence->table.append_own(std::move(page));
        }
        plan_.sequences.push_back({sequence, sequence->computed, 1, 0, true});
        ++plan_.work.decode_streams;
        plan_.work.decode_context_tokens += sequence->computed + 1;
    }
}

void Scheduler::plan_prefills() {
    prefills_.clear();
    std::size_t wanted = 0;
    for (Sequence* sequence : running_) {
        if (sequence->state != SequenceState::kPrefill) continue;
        rematch(*sequence);
        if (sequence->restoring || waits_for_twin(*sequence, sequence->computed)) continue;
        prefills_.push_back(sequence);
        wanted += chunk_limit(*sequence);
    }
    const std::size_t chunk = options_.prefill_chunk_tokens;
    admit_waiting(chunk - std::min(wanted, chunk));
    if (prefills_.empty()) return;
    put_quick_first();

    views_.clear();
    for (const Sequence* sequence : prefills_)
        views_.push_back({static_cast<std::uint32_t>(chunk_limit(*sequence)),
                          static_cast<std::uint32_t>(sequence->computed)});
    BatchView view;
    view.decode_streams = plan_.work.decode_streams;
    view.decode_context_tokens = plan_.work.decode_context_tokens;
    view.prefills = views_;
    view.cost = cost_.cost();
    view.step_ms_target = std::max(0.0, options_.step_ms_target - plan_.restore_ms);
    view.prefill_tokens_max = options_.prefill_chunk_tokens;
    view.prefill_tokens_min = std::min(view.prefill_tokens_min, options_.prefill_chunk_tokens);
    BatchDecision decision = options_.batch(view);
    for (std::size_t i = 0; i < prefills_.size(); ++i)
        if (decision.grants[i] > 0) plan_chunk(*prefills_[i], decision.grants[i]);

    if (plan_.empty() && plan_.restored_blocks ==
                             0) {  // several half-done prompts hold all pages: one must give way
        TAPROOT_ASSERT(running_.size() > 1);
        preempt(*running_.back());
    }
}

// Seats are filled only while the step has room for more prompt tokens: a request admitted later
// is chosen with a better knowledge of the cache. Beside long prompts there is room for what is
// quickly done.
void Scheduler::admit_waiting(std::size_t prefill_room) {
    if (queue_.empty() || running_.size() >= options_.seqs_max) return;
    refresh_estimates();
    choose_candidates();
    std::size_t quick_room = kQuickTokens;
    for (Sequence* sequence : candidates_) {
        if (quick_room == 0 || running_.size() >= options_.seqs_max) return;
        CacheProbe hit = probe(*sequence);
        if (waits_for_twin(*sequence, hit.tokens)) continue;
        if (prefill_room == 0) {
            if (sequence->state == SequenceState::kPreempted) return;
            const std::size_t uncached = sequence->tokens.size() - hit.tokens;
            if (uncached > quick_room) continue;
            quick_room -= uncached;
        }
        if (!fits(*sequence, hit)) {
            // Whoever waited long or was preempted is not overtaken by smaller ones for ever.
            double waited_ms = to_ms(clock_.now() - sequence->request->arrived_at);
            bool keeps_place =
                sequence->state == SequenceState::kPreempted || waited_ms >= options_.aging_ms;
            if (keeps_place) return;
            continue;
        }
        dequeue(*sequence);
        start_running(*sequence, SequenceState::kPrefill);
        rematch(*sequence);
        sequence->last_progress_step = counters_.steps;
        in_flight_.announce(*sequence);
        Request& request = *sequence->request;
        if (!request.admitted) {
            request.admitted = true;
            request.admitted_at = clock_.now();
        }
        if (!sequence->restoring) prefills_.push_back(sequence);
        prefill_room -= std::min(prefill_room, chunk_limit(*sequence));
    }
}

// A request that is nearly done does not wait for a long prompt before it. At most kQuickTokens
// together overtake, of the same priority, and only if who is overtaken moved in the last step.
void Scheduler::put_quick_first() {
    const Sequence& overtaken = *prefills_.front();
    if (overtaken.last_progress_step != counters_.steps) return;
    std::size_t room = kQuickTokens;
    auto quick_end = prefills_.begin();
    for (auto it = prefills_.begin(); it != prefills_.end(); ++it) {
        const std::size_t tokens = (*it)->remaining();
        if ((*it)->request->spec.priority != overtaken.request->spec.priority) break;
        if (tokens > room) continue;
        room -= tokens;
        std::rotate(quick_end, it, it + 1);
        ++quick_end;
    }
}

void Scheduler::choose_candidates() {
    TimePoint now = clock_.now();
    auto view = [now](const Sequence* sequence) {
        const Request& request = *sequence->request;
        return WaitingView{request.spec.priority, sequence->uncached_estimate,
                           to_ms(now - request.arrived_at), request.arrival};
    };
    candidates_.resize(std::min(kCandidates, queue_.size()));
    std::partial_sort_copy(queue_.begin(), queue_.end(), candidates_.begin(), candidates_.end(),
                           [&](const Sequence* a, const Sequence* b) {
                               WaitingView left = view(a);
                               WaitingView right = view(b);
                               if (admitted_before(left, right, options_.aging_ms)) return true;
                               if (admitted_before(right, left, options_.aging_ms)) return false;
                               return a->choice < b->choice;
                           });
}

// The whole prompt and one more token must have pages, beside what running prompts still need and
// one page per decoding sequence.
bool Scheduler::fits(const Sequence& sequence, const CacheProbe& hit) const {
    if (running_.empty()) return true;
    std::size_t needed = div_ceil<std::size_t>(sequence.tokens.size() + 1, kBlockTokens);
    needed = needed - hit.full_blocks + hit.unpinned_blocks;
    return needed + promised_pages() <= cache_.available_blocks();
}

std::size_t Scheduler::promised_pages() const {
    std::size_t promised = 0;
    for (const Sequence* sequence : running_) {
        if (sequence->state == SequenceState::kPrefill)
            promised += div_ceil<std::size_t>(sequence->tokens.size() + 1, kBlockTokens) -
                        sequence->table.size();
        else
            promised += 1;
    }
    return promised;
}

CacheProbe Scheduler::probe(Sequence& sequence) {
    std::span<const TokenId> tokens = sequence.tokens;
    CacheProbe hit = cache_.probe(sequence.request->spec.salt, tokens.first(match_limit(sequence)));
    set_estimate(sequence, tokens.size() - hit.tokens);
    return hit;
}

void Scheduler::refresh_estimates() {
    std::size_t count = std::min(kEstimatesPerPlan, queue_.size());
    for (std::size_t i = 0; i < count; ++i) {
        Sequence* sequence = queue_[refresh_next_++ % queue_.size()];
        if (sequence->estimate_version != cache_.version()) (void)probe(*sequence);
    }
}

// Takes what the cache has learnt since the sequence's last chunk.
void Scheduler::rematch(Sequence& sequence) {
    std::size_t limit = match_limit(sequence);
    sequence.restoring = false;
    if (sequence.matched_version == cache_.version() || limit <= sequence.computed) return;
    Request& request = *sequence.request;
    TimePoint began = clock_.now();
    CacheHit hit =
        cache_.extend(sequence.table, request.spec.salt, std::span(sequence.tokens).first(limit),
                      sequence.computed, restore_left_);
    if (hit.restored_blocks > 0) {
        count_restore(hit.restored_blocks, to_ms(clock_.now() - began));
        sequence.last_progress_step = counters_.steps;
    }
    sequence.restoring = hit.more_in_ram;
    sequence.matched_version = hit.more_in_ram ? ~0ull : cache_.version();
    if (hit.copy) plan_.copies.push_back(*hit.copy);
    if (hit.tokens <= sequence.computed) return;
    in_flight_.withdraw(sequence, sequence.computed / kBlockTokens, hit.tokens / kBlockTokens);
    std::size_t reached = std::min(hit.tokens, request.prompt_tokens);
    std::size_t known = std::max(request.reached, sequence.computed);
    if (reached > known) request.reused_tokens += reached - known;
    request.reached = std::max(request.reached, reached);
    sequence.computed = hit.tokens;
}

// What the decodes leave of the step's time, in blocks; a part of it whatever they take. With none
// running the bound keeps the engine answering (new requests, cancels) while a long context comes
// up.
std::size_t Scheduler::restore_allowance() const {
    if (restore_ms_per_block_ == 0) return kUnmeasuredBlocks;
    double left_ms = options_.step_ms_target;
    if (plan_.work.decode_streams > 0) left_ms -= cost_.cost().predict_ms(plan_.work);
    left_ms = std::max(left_ms, options_.step_ms_target * kRestoreShare);
    double blocks = left_ms / restore_ms_per_block_;
    return static_cast<std::size_t>(std::clamp(blocks, 1.0, 1e9));
}

// The mean of about the last kRestoreMemory blocks.
void Scheduler::count_restore(std::size_t blocks, double ms) {
    plan_.restored_blocks += blocks;
    plan_.restore_ms += ms;
    restore_left_ -= std::min(restore_left_, blocks);
    double count = static_cast<double>(blocks);
    double weight = restore_ms_per_block_ == 0 ? 1 : std::min(0.5, count / kRestoreMemory);
    restore_ms_per_block_ += weight * (std::max(ms / count, 1e-3) - restore_ms_per_block_);
}

void Scheduler::plan_chunk(Sequence& sequence, std::size_t count) {
    std::size_t end = sequence.computed + count;
    while (sequence.table.size() * kBlockTokens < end) {
        BlockRef page = cache_.allocate();
        if (!page) break;
        sequence.table.append_own(std::move(page));
    }
    end = std::min(end, sequence.table.size() * kBlockTokens);
    // Stop at a full block, which enters the tree at once, where that leaves little of the step
    // unused.
    std::size_t aligned = end / kBlockTokens * kBlockTokens;
    if (end < sequence.tokens.size() && 8 * (end - aligned) <= end - sequence.computed)
        end = aligned;
    if (end <= sequence.computed) return;
    count = end - sequence.computed;

    const Request& request = *sequence.request;
    bool last = end == sequence.tokens.size();
    std::size_t logits_from = last ? count - 1 : count;
    if (request.scores_prompt() && request.scored + 1 < request.prompt_tokens) {
        std::size_t first = std::max(request.scored, sequence.computed) - sequence.computed;
        logits_from = std::min(logits_from, first);
    }
    plan_.sequences.push_back({&sequence, sequence.computed, count, logits_from, false});
    plan_.work.prefill_tokens += static_cast<std::uint32_t>(count);
    plan_.work.prefill_context_pairs += context_pairs(sequence.computed, count);
    in_flight_.announce(sequence);
}

bool Scheduler::waits_for_twin(const Sequence& sequence, std::size_t position) const {
    if (match_limit(sequence) <= position) return false;  // nothing that a twin could bring
    return in_flight_.other_owner(sequence, position / kBlockTokens, counters_.steps) != nullptr;
}

// The cache may bring all but the last token, whose logits are wanted; of a prompt to be scored
// only what is scored already, because the rows of its tokens are wanted too.
std::size_t Scheduler::match_limit(const Sequence& sequence) const {
    const Request& request = *sequence.request;
    if (request.scores_prompt() && request.scored + 1 < request.prompt_tokens)
        return request.scored;
    return sequence.tokens.size() - 1;
}

std::size_t Scheduler::chunk_limit(const Sequence& sequence) const {
    const Request& request = *sequence.request;
    if (request.scores_prompt() && request.scored + 1 < request.prompt_tokens)
        return std::min<std::size_t>(sequence.remaining(), options_.score_chunk_tokens);
    return sequence.remaining();
}

void Scheduler::commit(const StepPlan& plan) {
    ++counters_.steps;
    for (const PlannedSequence& part : plan.sequences) {
        Sequence& sequence = *part.sequence;
        Request& request = *sequence.request;
        std::size_t before = sequence.computed / kBlockTokens;
        sequence.computed += part.count;
        cache_.adopt(sequence.table, request.spec.salt, sequence.tokens,
                     sequence.computed / kBlockTokens);
        if (part.decode) continue;
        counters_.prefill_tokens += part.count;
        sequence.last_progress_step = counters_.steps;
        request.reached =
            std::max(request.reached, std::min(sequence.computed, request.prompt_tokens));
        in_flight_.withdraw(sequence, before, sequence.computed / kBlockTokens);
        if (sequence.remaining() == 0) sequence.state = SequenceState::kDecode;
    }
    if (plan.work.decode_streams > 0) {
        last_decodes_ = plan.work;
        last_decodes_.prefill_tokens = 0;
        last_decodes_.prefill_context_pairs = 0;
    }
}

}  // namespace taproot
