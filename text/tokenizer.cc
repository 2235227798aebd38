// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>

#include "base/assert.h"

namespace taproot {
namespace {

constexpr std::size_t kKeptBytes = std::size_t{1} << 20;  // larger joined texts are given back

std::uint64_t next_identity() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

void JoinedText::assign(std::span<const TextSpan> spans) {
    trusted.clear();
    storage.clear();
    if (spans.size() == 1) {
        text = spans[0].text;
        if (spans[0].trusted && !text.empty()) trusted.push_back({0, text.size()});
        return;
    }
    std::size_t size = 0;
    for (const TextSpan& span : spans) size += span.text.size();
    storage.reserve(size);
    for (const TextSpan& span : spans) {
        const std::size_t begin = storage.size();
        storage += span.text;
        if (!span.trusted || span.text.empty()) continue;
        if (!trusted.empty() && trusted.back().end == begin)
            trusted.back().end = storage.size();
        else
            trusted.push_back({begin, storage.size()});
    }
    text = storage;
}

Result<Tokenizer> Tokenizer::build(const TextModel& model) {
    if (model.model != "gpt2")
        return Error{ErrorCode::kUnsupported,
                     fmt::format("'{}'; only byte-level BPE ('gpt2') is supported", model.model),
                     "tokenizer.ggml.model"};
    TAPROOT_TRY(PreTokenizer pre, PreTokenizer::from_name(model.pre));
    TAPROOT_TRY(Vocab vocab, Vocab::build(model));
    TAPROOT_TRY(MergeTable merges, MergeTable::build(model, vocab));
    return Tokenizer(std::move(vocab), std::move(merges), pre, model);
}

Tokenizer::Tokenizer(Vocab vocab, MergeTable merges, PreTokenizer pre, const TextModel& model)
    : vocab_(std::move(vocab)),
      merges_(std::move(merges)),
      pre_(pre),
      specials_(vocab_),
      end_ids_(end_tokens(model)),
      bos_(model.bos),
      eos_(model.eos),
      add_bos_(model.add_bos),
      add_eos_(model.add_eos),
      identity_(next_identity()) {
    if (pre_.ignore_merges()) index_whole_pieces();
}

void Tokenizer::index_whole_pieces() {
    whole_pieces_.reserve(vocab_.size());
    for (std::size_t i = 0; i < vocab_.size(); ++i) {
        const auto id = static_cast<TokenId>(i);
        if (vocab_.kind(id) == TokenKind::kPlain && !vocab_.token_bytes(id).empty())
            whole_pieces_.emplace(vocab_.token_bytes(id), id);
    }
}

void Tokenizer::encode(std::string_view text, bool parse_special, std::vector<TokenId>* out,
                       Scratch& scratch) const {
    const TextSpan span{text, parse_special};
    encode_pieces({&span, 1}, out, scratch);
}

void Tokenizer::encode_pieces(std::span<const TextSpan> spans, std::vector<TokenId>* out,
                              Scratch& scratch) const {
    scratch.joined_.assign(spans);
    const std::string_view text = scratch.joined_.text;
    scratch.matches_.clear();
    find_specials(scratch.joined_, &scratch.matches_);
    encode_range(text, 0, text.size(), scratch.matches_, out, scratch);
    if (scratch.joined_.storage.capacity() > kKeptBytes) scratch.joined_ = {};
}

void Tokenizer::find_specials(const JoinedText& joined, std::vector<SpecialMatch>* out) const {
    specials_.find_all(joined.text, joined.trusted, out);
}

void Tokenizer::encode_range(std::string_view text, std::size_t begin, std::size_t end,
                             std::span<const SpecialMatch> matches, std::vector<TokenId>* out,
                             Scratch& scratch) const {
    TAPROOT_ASSERT(text.size() < UINT32_MAX);
    if (scratch.identity_ != identity_) {
        scratch.pieces_.clear();
        scratch.identity_ = identity_;
    }
    std::size_t pos = begin;
    for (const SpecialMatch& match : matches) {
        encode_plain(text.substr(pos, match.begin - pos), out, scratch);
        out->push_back(match.id);
        pos = match.end;
    }
    encode_plain(text.substr(pos, end - pos), out, scratch);
}

void Tokenizer::encode_plain(std::string_view text, std::vector<TokenId>* out,
                             Scratch& scratch) const {
    for (std::size_t pos = 0; pos < text.size();) {
        const std::size_t end = pre_.next(text, pos, &scratch.counters_.scan_steps);
        TAPROOT_DASSERT(end > pos && end <= text.size());
        encode_piece(text.substr(pos, end - pos), out, scratch);
        pos = end;
    }
}

void Tokenizer::encode_piece(std::string_view piece, std::vector<TokenId>* out,
                             Scratch& scratch) const {
    ++scratch.counters_.pieces;
    if (piece.size() > PieceCache::kPieceBytesMax) {
        merge_piece(piece, out, scratch);
        return;
    }
    const std::uint64_t hash = XXH3_64bits(piece.data(), piece.size());
    if (const PieceCache::Entry* entry = scratch.pieces_.find(piece, hash)) {
        ++scratch.counters_.cached_pieces;
        out->insert(out->end(), entry->ids.begin(), entry->ids.begin() + entry->id_count);
        return;
    }
    const std::size_t before = out->size();
    merge_piece(piece, out, scratch);
    const std::span<const TokenId> ids = std::span<const TokenId>(*out).subspan(before);
    if (ids.size() <= PieceCache::kIdsMax) scratch.pieces_.insert(piece, hash, ids);
}

void Tokenizer::merge_piece(std::string_view piece, std::vector<TokenId>* out,
                            Scratch& scratch) const {
    if (pre_.ignore_merges()) {
        const auto found = whole_pieces_.find(piece);
        if (found != whole_pieces_.end()) {
            out->push_back(found->second);
            return;
        }
    }
    std::vector<TokenId>& ids = scratch.merge_.ids;
    ids.clear();
    ids.reserve(piece.size());
    for (const char byte : piece) {
        const TokenId id = vocab_.byte_token(static_cast<std::uint8_t>(byte));
        if (id >= 0) ids.push_back(id);
    }
    merge_pairs(merges_, &scratch.merge_, out);
}

void Tokenizer::add_bos(std::vector<TokenId>* prompt) const {
    if (!add_bos_ || (!prompt->empty() && prompt->front() == *bos_)) return;
    prompt->insert(prompt->begin(), *bos_);
}

void Tokenizer::add_eos(std::vector<TokenId>* prompt) const {
    if (!add_eos_ || (!prompt->empty() && prompt->back() == *eos_)) return;
    prompt->push_back(*eos_);
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids,
                                      bool skip_special_tokens) const {
    std::string out;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (!vocab_.contains(ids[i]))
            return invalid_argument(
                fmt::format("{} is no token id; allowed are 0..{}", ids[i], vocab_.size() - 1),
                fmt::format("tokens[{}]", i));
        if (skip_special_tokens && vocab_.is_control(ids[i])) continue;
        out += vocab_.token_bytes(ids[i]);
    }
    return out;
}

}  // namespace taproot
