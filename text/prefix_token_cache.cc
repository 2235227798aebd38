// SPDX-License-Identifier: Apache-2.0
#include "text/prefix_token_cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <iterator>

#include "base/assert.h"

namespace taproot {
namespace {

// Shorter segments ("\n<|im_start|>") cost less to tokenise than to look up and store.
constexpr std::size_t kSegmentBytesMin = 48;
constexpr std::size_t kKeptBytes = std::size_t{1} << 20;
constexpr std::uint64_t kEntryOverhead = 192;  // list node, map node, allocations

}  // namespace

std::uint64_t PrefixTokenCache::Entry::bytes() const {
    return kEntryOverhead + text.size() + controls.size() * sizeof(SpecialMatch) +
           ids.size() * sizeof(TokenId);
}

PrefixTokenCache::PrefixTokenCache(const Tokenizer& tokenizer, std::uint64_t bytes_max,
                                   std::uint64_t seed)
    : tokenizer_(tokenizer), bytes_max_(bytes_max), seed_(seed) {}

void PrefixTokenCache::encode_pieces(std::span<const TextSpan> spans, std::vector<TokenId>* out,
                                     Tokenizer::Scratch& scratch) {
    joined_.assign(spans);
    const std::string_view whole = joined_.text;
    matches_.clear();
    tokenizer_.find_specials(joined_, &matches_);
    const std::span<const SpecialMatch> all = matches_;
    std::size_t begin = 0;
    std::size_t first = 0;  // match
    for (std::size_t i = 0; i <= all.size(); ++i) {
        const bool at_end = i == all.size();
        if (!at_end && !all[i].safe_cut) continue;
        const std::size_t end = at_end ? whole.size() : all[i].end;
        const std::size_t match_end = at_end ? i : i + 1;
        if (end > begin)
            encode_segment(
                whole,
                {whole.substr(begin, end - begin), begin, all.subspan(first, match_end - first)},
                out, scratch);
        begin = end;
        first = match_end;
    }
    if (joined_.storage.capacity() > kKeptBytes) joined_ = {};
}

void PrefixTokenCache::encode_segment(std::string_view whole, const Segment& segment,
                                      std::vector<TokenId>* out, Tokenizer::Scratch& scratch) {
    const std::size_t end = segment.begin + segment.text.size();
    if (segment.text.size() < kSegmentBytesMin) {
        tokenizer_.encode_range(whole, segment.begin, end, segment.matches, out, scratch);
        stats_.bytes_encoded += segment.text.size();
        return;
    }
    collect_controls(segment);
    const std::uint64_t hash =
        XXH3_64bits_withSeed(segment.text.data(), segment.text.size(), seed_);
    if (const Entry* entry = find(segment, hash)) {
        out->insert(out->end(), entry->ids.begin(), entry->ids.end());
        ++stats_.hits;
        stats_.bytes_reused += segment.text.size();
        return;
    }
    const std::size_t before = out->size();
    tokenizer_.encode_range(whole, segment.begin, end, segment.matches, out, scratch);
    ++stats_.misses;
    stats_.bytes_encoded += segment.text.size();
    insert(segment, hash, std::span<const TokenId>(*out).subspan(before));
}

// The same bytes give other ids when other ranges are trusted, so what was recognised as control is
// part of a segment's identity. (User-defined tokens then follow: they are matched everywhere.)
void PrefixTokenCache::collect_controls(const Segment& segment) {
    controls_.clear();
    for (SpecialMatch match : segment.matches) {
        if (!tokenizer_.is_control(match.id)) continue;
        match.begin -= segment.begin;
        match.end -= segment.begin;
        controls_.push_back(match);
    }
}

const PrefixTokenCache::Entry* PrefixTokenCache::find(const Segment& segment, std::uint64_t hash) {
    const auto [begin, end] = by_hash_.equal_range(hash);
    for (auto it = begin; it != end; ++it) {
        const Entries::iterator entry = it->second;
        if (entry->text != segment.text || entry->controls != controls_) continue;
        entries_.splice(entries_.begin(), entries_, entry);
        return &*entry;
    }
    return nullptr;
}

void PrefixTokenCache::insert(const Segment& segment, std::uint64_t hash,
                              std::span<const TokenId> ids) {
    Entry entry{hash, std::string(segment.text), controls_,
                std::vector<TokenId>(ids.begin(), ids.end())};
    const std::uint64_t bytes = entry.bytes();
    if (bytes > bytes_max_ / 2) return;  // one text may not drive out all others
    while (stats_.bytes + bytes > bytes_max_) evict_last();
    entries_.push_front(std::move(entry));
    by_hash_.emplace(hash, entries_.begin());
    stats_.bytes += bytes;
    ++stats_.entries;
}

void PrefixTokenCache::evict_last() {
    TAPROOT_ASSERT(!entries_.empty());
    const auto last = std::prev(entries_.end());
    const auto [begin, end] = by_hash_.equal_range(last->hash);
    for (auto it = begin; it != end; ++it) {
        if (it->second != last) continue;
        by_hash_.erase(it);
        break;
    }
    stats_.bytes -= last->bytes();
    --stats_.entries;
    ++stats_.evictions;
    entries_.erase(last);
}

}  // namespace taproot
