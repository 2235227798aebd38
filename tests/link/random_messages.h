// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "link/messages.h"
#include "text/text_model.h"

// Messages with every field drawn at random, edges included; for tests of the codec and transport.
namespace taproot::link {

class RandomMessages {
public:
    explicit RandomMessages(std::uint64_t seed) : random_(seed) {}

    ToGateway to_gateway() { return to_gateway(random_.below(std::variant_size_v<ToGateway>)); }
    ToWorker to_worker() { return to_worker(random_.below(std::variant_size_v<ToWorker>)); }

    ToGateway to_gateway(std::size_t kind) {
        switch (kind) {
            case 0:
                return hello();
            case 1:
                return step_output();
            case 2:
                return Rejected{request(), static_cast<RejectReason>(random_.below(5)), text(),
                                real()};
            case 3:
                return load();
            case 4: {
                KvEventBatch batch{big(), big(), {}};
                repeat([&] { batch.events.push_back(event()); });
                return batch;
            }
            case 5: {
                KvSnapshot snapshot{big(), big(), {}};
                repeat([&] { snapshot.stored.push_back(stored()); });
                return snapshot;
            }
            case 6:
                return TextBundle{big(), text()};
            default:
                return Pong{big()};
        }
    }

    ToWorker to_worker(std::size_t kind) {
        switch (kind) {
            case 0:
                return generate();
            case 1:
                return Cancel{request()};
            case 2:
                return CancelChoice{request(), static_cast<std::uint16_t>(big())};
            case 3:
                return FetchText{big()};
            case 4:
                return FetchSnapshot{big()};
            default:
                return Ping{big()};
        }
    }

    Hello hello() {
        Hello m;
        m.build = text();
        m.worker = text();
        m.epoch = big();
        m.model = text();
        m.model_digest = big();
        m.text_digest = big();
        m.kv_layout_digest = big();
        m.block_tokens = small();
        m.blocks_total = small();
        m.vocab = small();
        m.max_model_len = small();
        m.max_num_seqs = small();
        m.queue_requests_max = small();
        m.queue_tokens_max = big();
        m.isa = text();
        m.prefill_ms_per_token = real();
        return m;
    }

    StepOutput step_output() {
        StepOutput m;
        m.step = big();
        repeat([&] { m.started.push_back({request(), small(), small(), real()}); });
        repeat([&] { m.prompt_logprobs.push_back(prompt_logprobs()); });
        repeat([&] { m.tokens.push_back(token_output()); });
        return m;
    }

    Load load() {
        Load m;
        m.running = small();
        m.waiting = small();
        m.preempted = small();
        m.backlog_tokens = big();
        m.blocks_total = small();
        m.blocks_active = small();
        m.blocks_cached = small();
        m.prefill_ms_per_token = real();
        m.decode_ms_per_step = real();
        m.step_fixed_ms = real();
        m.step_decode_stream_ms = real();
        m.step_decode_context_ms = real();
        m.step_prefill_token_ms = real();
        m.step_prefill_pair_ms = real();
        m.step_error = real();
        m.prompt_tokens_total = big();
        m.prefill_tokens_total = big();
        m.cached_tokens_total = big();
        m.generation_tokens_total = big();
        m.preemptions_total = big();
        m.evicted_blocks_total = big();
        m.steps_total = big();
        m.block_bytes = big();
        m.ram_blocks_total = small();
        m.ram_blocks_used = small();
        m.ram_restore_ms_per_block = real();
        m.ram_stored_blocks_total = big();
        m.ram_restored_blocks_total = big();
        m.ram_dropped_blocks_total = big();
        m.ram_refused_blocks_total = big();
        m.ram_corrupt_blocks_total = big();
        m.ram_collisions_total = big();
        return m;
    }

    Generate generate() {
        Generate m;
        m.request = request();
        m.prompt.push_back(token());
        repeat([&] { m.prompt.push_back(token()); });
        m.salt = big();
        m.max_tokens = 1 + small() / 2;
        m.choices = static_cast<std::uint16_t>(1 + random_.below(16));
        m.sampling = sampling();
        m.priority = static_cast<std::int32_t>(big());
        m.expected_cached_tokens = small();
        return m;
    }

    std::vector<TokenId> tokens(std::size_t count) {
        std::vector<TokenId> out(count);
        for (TokenId& t : out) t = token();
        return out;
    }

    TextModel text_model() {
        TextModel m;
        m.model = text();
        m.pre = text();
        repeat([&] { m.tokens.push_back(text()); });
        if (random_.chance(0.5))
            for (std::size_t i = 0; i < m.tokens.size(); ++i)
                m.types.push_back(static_cast<TokenType>(random_.below(7)));
        repeat([&] { m.merges.push_back(text()); });
        for (auto* id : {&m.bos, &m.eos, &m.eot, &m.unknown, &m.padding})
            if (random_.chance(0.5)) *id = token();
        m.add_bos = random_.chance(0.5);
        m.add_eos = random_.chance(0.5);
        m.chat_template = text();
        return m;
    }

    Random& random() { return random_; }

private:
    // Every width of integer, and both ends.
    std::uint64_t big() {
        if (random_.chance(0.1)) return random_.chance(0.5) ? 0 : ~std::uint64_t{0};
        return random_.next() >> random_.below(64);
    }
    std::uint32_t small() { return static_cast<std::uint32_t>(big()); }
    RequestId request() { return RequestId{big()}; }
    TokenId token() { return static_cast<TokenId>(big() & 0x7FFF'FFFF); }
    double real() { return (random_.unit() - 0.5) * static_cast<double>(big()); }
    float real32() { return static_cast<float>(random_.unit() * 200 - 100); }
    std::string text() {
        std::string out(random_.chance(0.05) ? random_.below(700) : random_.below(40), '\0');
        for (char& c : out) c = static_cast<char>(random_.next());
        return out;
    }
    KvTier tier() { return static_cast<KvTier>(random_.below(3)); }
    KvStored stored() { return {BlockHash{big()}, BlockHash{big()}, tier()}; }
    KvEvent event() {
        switch (random_.below(3)) {
            case 0:
                return stored();
            case 1:
                return KvRemoved{BlockHash{big()}, tier()};
            default:
                return KvCleared{};
        }
    }
    std::vector<TokenLogprob> logprobs() {
        std::vector<TokenLogprob> out;
        repeat([&] { out.push_back({token(), real32()}); });
        return out;
    }
    PromptLogprobs prompt_logprobs() {
        PromptLogprobs m{request(), small(), {}, {}};
        repeat([&] { m.logprobs.push_back(real32()); });
        if (random_.chance(0.5))
            for (std::size_t i = 0; i < m.logprobs.size(); ++i) m.top.push_back(logprobs());
        return m;
    }
    TokenOutput token_output() {
        TokenOutput m;
        m.request = request();
        m.choice = static_cast<std::uint16_t>(big());
        m.has_token = random_.chance(0.9);
        if (m.has_token) m.token = token();
        if (random_.chance(0.3)) m.finish = static_cast<FinishReason>(random_.below(5));
        if (random_.chance(0.3)) m.stop_token = token();
        if (random_.chance(0.3)) m.logprob = real32();
        if (random_.chance(0.3)) m.top_logprobs = logprobs();
        if (random_.chance(0.3)) m.logits_hash = big();
        return m;
    }
    SamplingParams sampling() {
        SamplingParams m;
        m.temperature = static_cast<float>(random_.unit() * 2);
        m.top_k = small();
        m.top_p = static_cast<float>(random_.unit());
        m.min_p = static_cast<float>(random_.unit());
        m.repetition_penalty = static_cast<float>(random_.unit() + 0.5);
        m.presence_penalty = real32();
        m.frequency_penalty = real32();
        repeat([&] { m.logit_bias.push_back({token(), real32()}); });
        m.seed = big();
        repeat([&] { m.stop_tokens.push_back(token()); });
        m.ignore_eos = random_.chance(0.5);
        m.min_tokens = small();
        if (random_.chance(0.5)) m.logprobs = static_cast<std::uint32_t>(random_.below(21));
        if (random_.chance(0.5)) m.prompt_logprobs = static_cast<std::uint32_t>(random_.below(21));
        m.logits_hash = random_.chance(0.5);
        return m;
    }
    template <typename F>
    void repeat(F&& f) {
        for (std::uint64_t n = random_.below(random_.chance(0.05) ? 300 : 8); n > 0; --n) f();
    }

    Random random_;
};

}  // namespace taproot::link
