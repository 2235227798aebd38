// SPDX-License-Identifier: Apache-2.0
#include "gateway/stream/stop_matcher.h"

#include <algorithm>

#include "base/assert.h"

namespace taproot::gateway {

StopMatcher::Automaton::Automaton(std::string text)
    : pattern(std::move(text)), fail(pattern.size() + 1, 0) {
    std::uint32_t border = 0;
    for (std::size_t i = 1; i < pattern.size(); ++i) {
        while (border > 0 && pattern[i] != pattern[border]) border = fail[border];
        if (pattern[i] == pattern[border]) ++border;
        fail[i + 1] = border;
    }
}

void StopMatcher::Automaton::step(char byte) {
    if (state == pattern.size()) state = fail[state];
    while (state > 0 && pattern[state] != byte) state = fail[state];
    if (pattern[state] == byte) ++state;
}

StopMatcher::StopMatcher(std::span<const std::string> stops, Include include) : include_(include) {
    for (const std::string& stop : stops) {
        TAPROOT_ASSERT(!stop.empty());
        automata_.emplace_back(stop);
    }
}

bool StopMatcher::push(std::string_view text, std::string* out) {
    if (automata_.empty()) {
        out->append(text);
        return false;
    }
    held_.append(text);
    std::size_t seen = held_.size() - text.size();
    for (; seen < held_.size(); ++seen) {
        const Automaton* longest = nullptr;
        for (Automaton& automaton : automata_) {
            automaton.step(held_[seen]);
            bool complete = automaton.state == automaton.pattern.size();
            if (complete && (longest == nullptr || automaton.state > longest->state))
                longest = &automaton;
        }
        if (longest != nullptr) {
            matched_ = longest->pattern;
            std::size_t end = seen + 1;
            held_.resize(include_ == Include::kYes ? end : end - matched_.size());
            out->append(held_);
            held_.clear();
            return true;
        }
    }
    std::size_t hold = 0;
    for (const Automaton& automaton : automata_) hold = std::max(hold, automaton.state);
    out->append(held_, 0, held_.size() - hold);
    held_.erase(0, held_.size() - hold);
    return false;
}

void StopMatcher::flush(std::string* out) {
    out->append(held_);
    held_.clear();
    for (Automaton& automaton : automata_) automaton.state = 0;
}

void StopMatcher::pass(std::string_view text, std::string* out) {
    flush(out);
    out->append(text);
}

}  // namespace taproot::gateway
