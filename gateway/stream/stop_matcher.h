// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace taproot::gateway {

// Finds stop strings in text that arrives in parts, holding back only what could still become one:
// the longest suffix that is a proper prefix of a stop string. The string that is complete first
// wins; of several that end at the same byte the longest. One Knuth-Morris-Pratt automaton per
// string (at most 16 of 256 bytes by default). Owner: one thread. O(strings) per byte.
//
//   stop "two three", text "one ", "tw", "o th"     -> emits "one ", "", ""   (holds "two th")
//   text "ings"                                     -> emits "two things"
class StopMatcher {
public:
    enum class Include : std::uint8_t { kNo, kYes };  // whether the matched string is emitted

    StopMatcher() = default;
    StopMatcher(std::span<const std::string> stops, Include include);

    // Appends to `out` what of the stream so far is certain. True: a stop string is complete; the
    // text ends here, and nothing may be pushed any more.
    bool push(std::string_view text, std::string* out);
    // The stream ended otherwise: what was held back belongs to the text.
    void flush(std::string* out);

    // Passes `text` through without looking for stops in it (before min_tokens are reached).
    void pass(std::string_view text, std::string* out);

    [[nodiscard]] bool empty() const { return automata_.empty(); }
    [[nodiscard]] std::string_view matched() const { return matched_; }  // after push() said true
    [[nodiscard]] std::size_t held_bytes() const { return held_.size(); }

private:
    struct Automaton {
        std::string pattern;
        std::vector<std::uint32_t> fail;  // [pattern.size() + 1] longest border of each prefix
        std::size_t state = 0;            // bytes of the pattern that the text's end matches

        explicit Automaton(std::string text);
        void step(char byte);
    };

    std::vector<Automaton> automata_;
    Include include_ = Include::kNo;
    std::string held_;
    std::string matched_;
};

}  // namespace taproot::gateway
