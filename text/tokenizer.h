// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "text/merge_table.h"
#include "text/piece_cache.h"
#include "text/pretokenize.h"
#include "text/special_index.h"
#include "text/text_model.h"
#include "text/vocab.h"

namespace taproot {

// A part of a rendered prompt. Trusted parts come from the template or the operator; only there is
// the text of a control token that token. Text from users is never trusted.
struct TextSpan {
    std::string_view text;
    bool trusted = false;
};

// Spans as one text, with the ranges that are trusted. What the tokenizer works on.
struct JoinedText {
    std::string_view text;
    std::vector<TrustedRange> trusted;
    std::string storage;  // holds the text when there was more than one span

    void assign(std::span<const TextSpan> spans);
};

// Byte-level BPE: cut out special tokens, cut the rest into pieces (text/pretokenize.h), merge the
// bytes of each piece (text/merge_table.h).
//
// Immutable once built; any thread may encode, each with its own Scratch.
// Invariants: encoding never fails; ids are those of the reference tokenizer of the same model
// file; decode(encode(x)) == x byte for byte where the vocabulary has all 256 bytes (a byte it
// lacks is dropped, as everywhere); a control id comes only from a trusted range. Cost: O(n log n)
// in the longest piece, O(n) in the text; about 15 ns per word that repeats.
class Tokenizer {
public:
    class Scratch;

    Tokenizer(Tokenizer&&) = default;
    Tokenizer& operator=(Tokenizer&&) = default;

    // `model` is only read during the call. kUnsupported: not a byte-level BPE model, or an unknown
    // pre-tokenizer; kInvalidArgument: the vocabulary contradicts itself (see Vocab, MergeTable).
    static Result<Tokenizer> build(const TextModel& model);

    // Appends the ids of `text`. parse_special: the whole text is trusted.
    // Texts must be shorter than 4 GiB.
    void encode(std::string_view text, bool parse_special, std::vector<TokenId>* out,
                Scratch& scratch) const;
    // Appends the ids of all spans as one text: words may cross from one span to the next.
    void encode_pieces(std::span<const TextSpan> spans, std::vector<TokenId>* out,
                       Scratch& scratch) const;

    // The two halves of encode_pieces, for callers that keep results (PrefixTokenCache).
    void find_specials(const JoinedText& joined, std::vector<SpecialMatch>* out) const;
    // Appends the ids of text[begin, end), which `matches` (all inside that range) cut in pieces.
    void encode_range(std::string_view text, std::size_t begin, std::size_t end,
                      std::span<const SpecialMatch> matches, std::vector<TokenId>* out,
                      Scratch& scratch) const;

    // The fewest ids that a text of so many bytes can give (of bytes the vocabulary knows), so that
    // a hopelessly long prompt is refused before it is tokenised.
    [[nodiscard]] std::size_t tokens_at_least(std::size_t text_bytes) const {
        return text_bytes / std::max<std::size_t>(1, vocab_.token_bytes_max());
    }

    // For raw prompts of /v1/completions (a chat template writes its own): puts the BOS in front
    // when the model asks for one and the prompt does not begin with it; EOS behind likewise.
    void add_bos(std::vector<TokenId>* prompt) const;
    void add_eos(std::vector<TokenId>* prompt) const;

    // The bytes of `ids`, which may end in half a character. kInvalidArgument names the first id
    // outside the vocabulary and its place, as "tokens[3]".
    [[nodiscard]] Result<std::string> decode(std::span<const TokenId> ids,
                                             bool skip_special_tokens) const;

    [[nodiscard]] const Vocab& vocab() const { return vocab_; }
    [[nodiscard]] std::size_t vocab_size() const { return vocab_.size(); }
    [[nodiscard]] std::string_view token_bytes(TokenId id) const { return vocab_.token_bytes(id); }
    [[nodiscard]] bool is_control(TokenId id) const { return vocab_.is_control(id); }
    [[nodiscard]] std::optional<TokenId> id_of(std::string_view text) const {
        return vocab_.id_of(text);
    }
    [[nodiscard]] std::optional<TokenId> bos() const { return bos_; }
    // Sorted; see end_tokens() of text/text_model.h.
    [[nodiscard]] const std::vector<TokenId>& end_ids() const { return end_ids_; }

private:
    Tokenizer(Vocab vocab, MergeTable merges, PreTokenizer pre, const TextModel& model);

    void encode_plain(std::string_view text, std::vector<TokenId>* out, Scratch& scratch) const;
    void encode_piece(std::string_view piece, std::vector<TokenId>* out, Scratch& scratch) const;
    void merge_piece(std::string_view piece, std::vector<TokenId>* out, Scratch& scratch) const;
    void index_whole_pieces();

    Vocab vocab_;
    MergeTable merges_;
    PreTokenizer pre_;
    SpecialIndex specials_;
    std::unordered_map<std::string_view, TokenId> whole_pieces_;  // only with ignore_merges
    std::vector<TokenId> end_ids_;
    std::optional<TokenId> bos_;
    std::optional<TokenId> eos_;
    bool add_bos_ = false;
    bool add_eos_ = false;
    std::uint64_t identity_ = 0;  // unique per build: a Scratch must not mix two tokenizers' pieces
};

// Working memory of one encoding thread. Owner: that thread. Works with any tokenizer; using it
// with another one empties its cache. About 1 MiB.
class Tokenizer::Scratch {
public:
    struct Counters {
        std::uint64_t pieces = 0;
        std::uint64_t cached_pieces = 0;
        std::uint64_t scan_steps = 0;   // characters the pre-tokenizer looked at
        std::uint64_t merge_steps = 0;  // see MergeScratch
    };
    [[nodiscard]] Counters counters() const {
        Counters all = counters_;
        all.merge_steps = merge_.steps;
        return all;
    }

private:
    friend class Tokenizer;

    PieceCache pieces_;
    MergeScratch merge_;
    JoinedText joined_;
    std::vector<SpecialMatch> matches_;
    Counters counters_;
    std::uint64_t identity_ = 0;
};

}  // namespace taproot
