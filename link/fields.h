// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "link/codec.h"
#include "link/messages.h"

// The one list of every message's fields, in wire order, that writer, reader and counter share
// (internal to codec.cc). `Io` is one of them; Io::Of<T> is const T& when writing, T& when reading.
// field(name, value, limit...) is overloaded there on the type of the value.
namespace taproot::link {

// The first three never move and never change type: see codec.h.
template <typename Io>
void hello_head(Io& io, typename Io::template Of<Hello> m) {
    io.field("Hello.version", m.version);
    io.field("Hello.build", m.build, kNameBytesMax);
    io.field("Hello.worker", m.worker, kNameBytesMax);
}
inline constexpr std::size_t kHelloHeadFields = 3;

template <typename Io>
void hello_rest(Io& io, typename Io::template Of<Hello> m) {
    io.field("Hello.epoch", m.epoch);
    io.field("Hello.model", m.model, kNameBytesMax);
    io.field("Hello.model_digest", m.model_digest);
    io.field("Hello.text_digest", m.text_digest);
    io.field("Hello.kv_layout_digest", m.kv_layout_digest);
    io.field("Hello.block_tokens", m.block_tokens);
    io.field("Hello.blocks_total", m.blocks_total);
    io.field("Hello.vocab", m.vocab);
    io.field("Hello.max_model_len", m.max_model_len);
    io.field("Hello.max_num_seqs", m.max_num_seqs);
    io.field("Hello.queue_requests_max", m.queue_requests_max);
    io.field("Hello.queue_tokens_max", m.queue_tokens_max);
    io.field("Hello.role", m.role, Role::kMixed);
    io.field("Hello.isa", m.isa, kNameBytesMax);
    io.field("Hello.prefill_ms_per_token", m.prefill_ms_per_token);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<Hello> m) {
    hello_head(io, m);
    hello_rest(io, m);
}

// TokenOutput is the one with optional trailing fields: a token of a running stream is only its
// first three. The reader stops after the fields that came.
template <typename Io>
void fields(Io& io, typename Io::template Of<TokenOutput> m) {
    io.field("TokenOutput.request", m.request);
    io.field("TokenOutput.choice", m.choice);
    io.token("TokenOutput.token", m.token, m.has_token);
    io.field("TokenOutput.finish", m.finish, FinishReason::kError);
    io.field("TokenOutput.stop_token", m.stop_token);
    io.field("TokenOutput.logprob", m.logprob);
    io.field("TokenOutput.logits_hash", m.logits_hash);
    io.records("TokenOutput.top_logprobs", m.top_logprobs, kTopLogprobsMax);
}
inline constexpr std::size_t kTokenFieldsMin = 3;
inline constexpr std::size_t kTokenFieldsMax = 8;

template <typename Io>
void fields(Io& io, typename Io::template Of<RequestStarted> m) {
    io.field("RequestStarted.request", m.request);
    io.field("RequestStarted.prompt_tokens", m.prompt_tokens);
    io.field("RequestStarted.cached_tokens", m.cached_tokens);
    io.field("RequestStarted.queue_ms", m.queue_ms);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<PromptLogprobs> m) {
    io.field("PromptLogprobs.request", m.request);
    io.field("PromptLogprobs.first", m.first);
    io.records("PromptLogprobs.logprobs", m.logprobs, kPromptTokensMax);
    io.lists("PromptLogprobs.top", m.top, kPromptTokensMax, kTopLogprobsMax);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<StepOutput> m) {
    io.field("StepOutput.step", m.step);
    io.structs("StepOutput.started", m.started, kStepEntriesMax);
    io.structs("StepOutput.prompt_logprobs", m.prompt_logprobs, kStepEntriesMax);
    io.structs("StepOutput.tokens", m.tokens, kStepEntriesMax);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<Rejected> m) {
    io.field("Rejected.request", m.request);
    io.field("Rejected.reason", m.reason, RejectReason::kInternal);
    io.field("Rejected.message", m.message, kMessageBytesMax);
    io.field("Rejected.retry_after_ms", m.retry_after_ms);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<Load> m) {
    io.field("Load.running", m.running);
    io.field("Load.waiting", m.waiting);
    io.field("Load.preempted", m.preempted);
    io.field("Load.backlog_tokens", m.backlog_tokens);
    io.field("Load.blocks_total", m.blocks_total);
    io.field("Load.blocks_active", m.blocks_active);
    io.field("Load.blocks_cached", m.blocks_cached);
    io.field("Load.prefill_ms_per_token", m.prefill_ms_per_token);
    io.field("Load.decode_ms_per_step", m.decode_ms_per_step);
    io.field("Load.step_fixed_ms", m.step_fixed_ms);
    io.field("Load.step_decode_stream_ms", m.step_decode_stream_ms);
    io.field("Load.step_decode_context_ms", m.step_decode_context_ms);
    io.field("Load.step_prefill_token_ms", m.step_prefill_token_ms);
    io.field("Load.step_prefill_pair_ms", m.step_prefill_pair_ms);
    io.field("Load.step_error", m.step_error);
    io.field("Load.prompt_tokens_total", m.prompt_tokens_total);
    io.field("Load.prefill_tokens_total", m.prefill_tokens_total);
    io.field("Load.cached_tokens_total", m.cached_tokens_total);
    io.field("Load.generation_tokens_total", m.generation_tokens_total);
    io.field("Load.preemptions_total", m.preemptions_total);
    io.field("Load.evicted_blocks_total", m.evicted_blocks_total);
    io.field("Load.steps_total", m.steps_total);
    io.field("Load.block_bytes", m.block_bytes);
    io.field("Load.ram_blocks_total", m.ram_blocks_total);
    io.field("Load.ram_blocks_used", m.ram_blocks_used);
    io.field("Load.ram_restore_ms_per_block", m.ram_restore_ms_per_block);
    io.field("Load.ram_stored_blocks_total", m.ram_stored_blocks_total);
    io.field("Load.ram_restored_blocks_total", m.ram_restored_blocks_total);
    io.field("Load.ram_dropped_blocks_total", m.ram_dropped_blocks_total);
    io.field("Load.ram_refused_blocks_total", m.ram_refused_blocks_total);
    io.field("Load.ram_corrupt_blocks_total", m.ram_corrupt_blocks_total);
    io.field("Load.ram_collisions_total", m.ram_collisions_total);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<KvEventBatch> m) {
    io.field("KvEventBatch.epoch", m.epoch);
    io.field("KvEventBatch.first_seq", m.first_seq);
    io.records("KvEventBatch.events", m.events, kEventsMax);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<KvSnapshot> m) {
    io.field("KvSnapshot.epoch", m.epoch);
    io.field("KvSnapshot.next_seq", m.next_seq);
    io.records("KvSnapshot.stored", m.stored, kSnapshotBlocksMax);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<TextBundle> m) {
    io.field("TextBundle.digest", m.digest);
    io.bytes("TextBundle.bytes", m.bytes, kTextModelBytesMax);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<Pong> m) {
    io.field("Pong.nonce", m.nonce);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<SamplingParams> m) {
    io.field("SamplingParams.temperature", m.temperature);
    io.field("SamplingParams.top_k", m.top_k);
    io.field("SamplingParams.top_p", m.top_p);
    io.field("SamplingParams.min_p", m.min_p);
    io.field("SamplingParams.repetition_penalty", m.repetition_penalty);
    io.field("SamplingParams.presence_penalty", m.presence_penalty);
    io.field("SamplingParams.frequency_penalty", m.frequency_penalty);
    io.records("SamplingParams.logit_bias", m.logit_bias, kLogitBiasMax);
    io.field("SamplingParams.seed", m.seed);
    io.records("SamplingParams.stop_tokens", m.stop_tokens, kStopTokensMax);
    io.field("SamplingParams.ignore_eos", m.ignore_eos);
    io.field("SamplingParams.min_tokens", m.min_tokens);
    io.field("SamplingParams.logprobs", m.logprobs);
    io.field("SamplingParams.prompt_logprobs", m.prompt_logprobs);
    io.field("SamplingParams.logits_hash", m.logits_hash);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<Generate> m) {
    io.field("Generate.request", m.request);
    io.records("Generate.prompt", m.prompt, kPromptTokensMax);
    io.field("Generate.salt", m.salt);
    io.field("Generate.max_tokens", m.max_tokens);
    io.field("Generate.choices", m.choices);
    io.nested("Generate.sampling", m.sampling);
    io.field("Generate.priority", m.priority);
    io.field("Generate.expected_cached_tokens", m.expected_cached_tokens);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<Cancel> m) {
    io.field("Cancel.request", m.request);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<CancelChoice> m) {
    io.field("CancelChoice.request", m.request);
    io.field("CancelChoice.choice", m.choice);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<FetchText> m) {
    io.field("FetchText.digest", m.digest);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<FetchSnapshot> m) {
    io.field("FetchSnapshot.epoch", m.epoch);
}

template <typename Io>
void fields(Io& io, typename Io::template Of<Ping> m) {
    io.field("Ping.nonce", m.nonce);
}

}  // namespace taproot::link
