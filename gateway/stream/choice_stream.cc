// SPDX-License-Identifier: Apache-2.0
#include "gateway/stream/choice_stream.h"

#include <algorithm>

namespace taproot::gateway {

using link::FinishReason;

std::uint32_t count_characters(std::string_view text) {
    return static_cast<std::uint32_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    }));
}

ChoiceStream::ChoiceStream(const Vocab& vocab, const GenerateSpec& spec)
    : detokenizer_(vocab, {.skip_special_tokens = spec.skip_special_tokens}),
      stops_(spec.stop, spec.include_stop ? StopMatcher::Include::kYes : StopMatcher::Include::kNo),
      min_tokens_(spec.sampling.min_tokens),
      keep_logprobs_(spec.sampling.logprobs.has_value()),
      keep_tokens_(spec.return_token_ids),
      client_stop_tokens_(spec.sampling.stop_tokens) {}

void ChoiceStream::prepend(std::string text, std::vector<LogprobEntry> logprobs) {
    text_characters_ += count_characters(text);
    pending_.text.insert(0, text);
    pending_.logprobs.insert(pending_.logprobs.begin(), std::make_move_iterator(logprobs.begin()),
                             std::make_move_iterator(logprobs.end()));
}

ChoiceStream::Step ChoiceStream::push(const link::TokenOutput& output) {
    Step step;
    if (finished()) return step;
    if (output.has_token) {
        ++completion_tokens_;
        if (keep_tokens_) pending_.tokens.push_back(output.token);
        if (keep_logprobs_)
            pending_.logprobs.push_back(
                {output.token, output.logprob.value_or(0), output.top_logprobs, text_characters_});
        // The end token is counted and scored; its text never shows.
        bool hidden = output.finish == FinishReason::kStop && output.stop_token == output.token;
        piece_.clear();
        if (!hidden) detokenizer_.push(output.token, &piece_);
        text_characters_ += count_characters(piece_);
        if (completion_tokens_ < min_tokens_) {
            stops_.pass(piece_, &pending_.text);
        } else if (stops_.push(piece_, &pending_.text)) {
            stop_string_ = std::string(stops_.matched());
            finish_ = FinishReason::kStop;
            step.stop_string_matched = output.finish == FinishReason::kNone;
            return step;
        }
    }
    if (output.finish != FinishReason::kNone) {
        if (output.stop_token && std::find(client_stop_tokens_.begin(), client_stop_tokens_.end(),
                                           *output.stop_token) != client_stop_tokens_.end())
            stop_token_ = output.stop_token;
        end(output.finish);
    }
    return step;
}

void ChoiceStream::end(FinishReason reason) {
    finish_ = reason;
    piece_.clear();
    detokenizer_.flush(&piece_);
    if (stops_.push(piece_, &pending_.text)) {
        stop_string_ = std::string(stops_.matched());
        finish_ = FinishReason::kStop;
    } else {
        stops_.flush(&pending_.text);
    }
}

}  // namespace taproot::gateway
