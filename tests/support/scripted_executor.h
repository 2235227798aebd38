// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/types.h"
#include "policies/batch/cost_model.h"
#include "worker/engine/executor.h"

namespace taproot::testing {

// A model whose next-token logits are a hash of the whole context, read back from "KV" pages: any
// mistake in block tables, positions, copies or sharing changes the answer, and most are reported
// at once (errors()). Rows are padded by kPadding columns of huge logits that must never win.
class ScriptedExecutor final : public Executor {
public:
    static constexpr int kPadding = 5;

    ScriptedExecutor(std::uint32_t blocks, int tokens, ManualClock* clock = nullptr)
        : pages_(blocks), tokens_(tokens), clock_(clock) {}

    [[nodiscard]] int vocab_size() const override { return tokens_ + kPadding; }

    std::span<const float> run(std::span<const StepSequence> step) override {
        logits_.clear();
        std::size_t new_tokens = 0;
        for (const StepSequence& sequence : step) {
            run_sequence(sequence);
            new_tokens += sequence.tokens.size();
        }
        ++steps_;
        largest_step_ = std::max(largest_step_, new_tokens);
        computed_tokens_ += new_tokens;
        if (clock_ != nullptr) clock_->advance(from_ms(cost_.predict_ms(work_of(step))));
        return logits_;
    }

    // Of a step; without this 1 ms and 0.1 ms per token.
    void set_cost(const StepCost& cost) { cost_ = cost; }

    void copy_block(BlockId from, BlockId to) override {
        if (from == to) error("a block is copied onto itself");
        pages_[to.value] = pages_[from.value];
        ++copies_;
    }

    [[nodiscard]] int threads() const override { return pool_.threads(); }
    void share(TaskRef task) override { pool_.share(task); }
    [[nodiscard]] std::size_t block_bytes() const override { return sizeof(Page); }
    void read_block(BlockId from, std::span<std::byte> to) const override {
        std::memcpy(to.data(), &pages_[from.value], sizeof(Page));
    }
    void write_block(std::span<const std::byte> from, BlockId to) override {
        std::memcpy(&pages_[to.value], from.data(), sizeof(Page));
        ++restored_;
        if (clock_ != nullptr) clock_->advance(from_ms(restore_ms_));
    }
    void set_restore_ms(double ms) { restore_ms_ = ms; }  // of one block

    // After a broken model: every logit is NaN.
    void break_model() { broken_ = true; }

    [[nodiscard]] const std::vector<std::string>& errors() const { return errors_; }
    [[nodiscard]] std::uint64_t computed_tokens() const { return computed_tokens_; }
    [[nodiscard]] std::uint64_t steps() const { return steps_; }
    [[nodiscard]] std::uint64_t copies() const { return copies_; }
    [[nodiscard]] std::uint64_t restored() const { return restored_; }
    [[nodiscard]] std::size_t largest_step() const { return largest_step_; }

private:
    ForkJoin pool_{2};

    struct Entry {
        TokenId token = -1;
        int position = -1;
        std::uint64_t chain = 0;  // hash of tokens [0, position]
    };
    struct Page {
        Entry entries[kBlockTokens];
    };

    static std::uint64_t chain(std::uint64_t before, TokenId token) {
        return mix64(before * 3 + static_cast<std::uint64_t>(token) + 1);
    }

    static StepWork work_of(std::span<const StepSequence> step) {
        StepWork work;
        for (const StepSequence& sequence : step) {
            const std::uint64_t position = static_cast<std::uint64_t>(sequence.position);
            const std::uint64_t count = sequence.tokens.size();
            if (count == 1) {
                ++work.decode_streams;
                work.decode_context_tokens += position + 1;
            } else {
                work.prefill_tokens += static_cast<std::uint32_t>(count);
                work.prefill_context_pairs += count * position + count * (count + 1) / 2;
            }
        }
        return work;
    }

    void run_sequence(const StepSequence& sequence) {
        auto need = static_cast<std::size_t>(sequence.position) + sequence.tokens.size();
        if (sequence.tokens.empty()) error("a part without tokens");
        if (sequence.blocks.size() * kBlockTokens < need) return error("positions lack blocks");
        // Everything before is read from the pages, as attention would.
        std::uint64_t state = 0;
        for (int p = 0; p < sequence.position; ++p) {
            const Entry& entry = at(sequence, p);
            state = chain(state, entry.token);
            if (entry.position != p || entry.chain != state)
                return error("position " + std::to_string(p) + " reads a foreign or stale entry");
        }
        for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
            int p = sequence.position + static_cast<int>(i);
            state = chain(state, sequence.tokens[i]);
            at(sequence, p) = {sequence.tokens[i], p, state};
            if (static_cast<int>(i) >= sequence.logits_from) append_row(state);
        }
    }

    Entry& at(const StepSequence& sequence, int position) {
        BlockId block = sequence.blocks[static_cast<std::size_t>(position / kBlockTokens)];
        return pages_[block.value].entries[position % kBlockTokens];
    }

    void append_row(std::uint64_t state) {
        for (int t = 0; t < tokens_; ++t) {
            double unit = to_unit_double(mix64(state ^ mix64(static_cast<std::uint64_t>(t))));
            logits_.push_back(broken_ ? std::numeric_limits<float>::quiet_NaN()
                                      : static_cast<float>(unit * 8 - 4));
        }
        for (int t = 0; t < kPadding; ++t) logits_.push_back(1e9f);
    }

    void error(std::string sentence) {
        if (errors_.size() < 20) errors_.push_back(std::move(sentence));
    }

    std::vector<Page> pages_;
    std::vector<float> logits_;
    int tokens_;
    ManualClock* clock_;
    StepCost cost_{.fixed_ms = 1, .decode_stream_ms = 0.1, .prefill_token_ms = 0.1};
    bool broken_ = false;
    std::vector<std::string> errors_;
    std::uint64_t computed_tokens_ = 0;
    std::uint64_t steps_ = 0;
    std::uint64_t copies_ = 0;
    std::uint64_t restored_ = 0;
    double restore_ms_ = 0;
    std::size_t largest_step_ = 0;
};

}  // namespace taproot::testing
