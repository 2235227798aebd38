// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "text/tokenizer.h"

namespace taproot {

// Encodes prompts of which most was seen before: a chat that grows by a turn, many requests over
// one system prompt. The text is cut right behind special tokens where a cut is exact (see
// SpecialIndex); the ids of such a segment depend on nothing but the segment, so each is tokenised
// once and then copied. A segment is found by a keyed 64-bit hash and then compared byte by byte: a
// collision can never change an answer.
//
//   <|im_start|>|system\nYou are ...<|im_end|>|\n<|im_start|>|user\nHi<|im_end|>|\n<|im_start|>|...
//              ^ cut                          ^ cut           ^ cut          ^ cut
//
// Owner: one thread; `tokenizer` must outlive it. Invariant: the ids are always those of
// tokenizer.encode_pieces(). Cost: a scan for special tokens, a hash and a compare (GB/s) where the
// text is known, tokenising where it is new. Memory: at most bytes_max, least recently used goes.
class PrefixTokenCache {
public:
    struct Stats {
        std::uint64_t hits = 0;  // segments
        std::uint64_t misses = 0;
        std::uint64_t bytes_reused = 0;  // of text that was not tokenised again
        std::uint64_t bytes_encoded = 0;
        std::uint64_t evictions = 0;
        std::uint64_t entries = 0;  // now
        std::uint64_t bytes = 0;    // now
    };

    // `seed` keys the hash; draw it at random per process, so that nobody can aim at one bucket.
    PrefixTokenCache(const Tokenizer& tokenizer, std::uint64_t bytes_max, std::uint64_t seed = 0);
    PrefixTokenCache(const PrefixTokenCache&) = delete;
    PrefixTokenCache& operator=(const PrefixTokenCache&) = delete;

    // Appends the ids of `spans`, like Tokenizer::encode_pieces.
    void encode_pieces(std::span<const TextSpan> spans, std::vector<TokenId>* out,
                       Tokenizer::Scratch& scratch);

    [[nodiscard]] const Stats& stats() const { return stats_; }

private:
    struct Entry {
        std::uint64_t hash = 0;
        std::string text;
        std::vector<SpecialMatch> controls;  // of control tokens; offsets from the segment's begin
        std::vector<TokenId> ids;

        [[nodiscard]] std::uint64_t bytes() const;
    };
    using Entries = std::list<Entry>;  // most recently used first

    // A part of the text being encoded.
    struct Segment {
        std::string_view text;                  // the segment's own
        std::size_t begin = 0;                  // offset in the whole text
        std::span<const SpecialMatch> matches;  // offsets in the whole text
    };

    void encode_segment(std::string_view whole, const Segment& segment, std::vector<TokenId>* out,
                        Tokenizer::Scratch& scratch);
    void collect_controls(const Segment& segment);
    [[nodiscard]] const Entry* find(const Segment& segment, std::uint64_t hash);
    void insert(const Segment& segment, std::uint64_t hash, std::span<const TokenId> ids);
    void evict_last();

    const Tokenizer& tokenizer_;
    const std::uint64_t bytes_max_;
    const std::uint64_t seed_;
    Entries entries_;
    std::unordered_multimap<std::uint64_t, Entries::iterator> by_hash_;
    JoinedText joined_;
    std::vector<SpecialMatch> matches_;
    std::vector<SpecialMatch> controls_;  // of the segment in work
    Stats stats_;
};

}  // namespace taproot
