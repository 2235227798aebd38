// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace taproot {

// Cuts text into the pieces that byte-pair merging may not cross. Each model family publishes a
// regular expression for it; here each is a hand-written scanner with the same result, because a
// backtracking engine needs stack or time out of proportion on long runs.
//
// Invariants: pieces are never empty, never overlap and cover the text; a byte that belongs to no
// valid UTF-8 character is a character of its own, in no class (not letter, number or space).
// Immutable; any thread. Cost: O(text), each byte is looked at a small constant number of times.
class PreTokenizer {
public:
    // `name` as in tokenizer.ggml.pre ("smollm", "llama-bpe", ...). kUnsupported when unknown.
    static Result<PreTokenizer> from_name(std::string_view name);
    // All names that from_name knows, sorted, separated by ", ".
    static std::string supported_names();

    // The end of the piece that starts at text[pos]; pos < text.size() and pos must be 0 or an
    // earlier result. `steps`, when given, grows by the number of characters looked at.
    [[nodiscard]] std::size_t next(std::string_view text, std::size_t pos,
                                   std::uint64_t* steps = nullptr) const;

    // The model looks a whole piece up in its vocabulary before it merges (Llama 3, Mistral
    // tekken).
    [[nodiscard]] bool ignore_merges() const { return ignore_merges_; }

private:
    using NextFunction = std::size_t (*)(std::string_view, std::size_t, std::uint64_t*);

    PreTokenizer(NextFunction function, bool whole_first)
        : next_(function), ignore_merges_(whole_first) {}

    NextFunction next_;
    bool ignore_merges_;
};

}  // namespace taproot
