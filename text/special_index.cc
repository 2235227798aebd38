// SPDX-License-Identifier: Apache-2.0
#include "text/special_index.h"

#include <algorithm>
#include <cstring>

namespace taproot {
namespace {

constexpr std::size_t kComparedMax = 8'192;

// Whether `inner` lies in `outer` anywhere but at its very end.
bool lies_inside(std::string_view inner, std::string_view outer) {
    const std::size_t at = outer.find(inner);
    return at != std::string_view::npos && at + inner.size() < outer.size();
}

}  // namespace

SpecialIndex::SpecialIndex(const Vocab& vocab) {
    roots_.fill(-1);
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < vocab.size(); ++i) {
        const auto id = static_cast<TokenId>(i);
        if (vocab.kind(id) != TokenKind::kPlain && !vocab.token_bytes(id).empty())
            ids.push_back(id);
    }
    // Comparing all pairs is for real vocabularies (hundreds of specials); an odd file with more
    // loses cuts, not its load time.
    const bool may_cut = ids.size() <= kComparedMax;
    for (const TokenId id : ids) {
        const std::string_view text = vocab.token_bytes(id);
        const bool is_control = vocab.is_control(id);
        const bool safe_cut =
            may_cut && is_control && std::none_of(ids.begin(), ids.end(), [&](TokenId other) {
                return lies_inside(text, vocab.token_bytes(other));
            });
        add(text, id, is_control, safe_cut);
    }
    size_ = ids.size();
}

void SpecialIndex::add(std::string_view text, TokenId id, bool is_control, bool safe_cut) {
    const auto new_node = [this](std::uint8_t byte) {
        nodes_.push_back(Node{.byte = byte});
        return static_cast<std::int32_t>(nodes_.size() - 1);
    };
    const auto first = static_cast<std::uint8_t>(text[0]);
    if (roots_[first] < 0) {
        roots_[first] = new_node(first);
        first_bytes_.push_back(first);
    }
    std::int32_t node = roots_[first];
    for (const char c : text.substr(1)) {
        const auto byte = static_cast<std::uint8_t>(c);
        std::int32_t child = child_of(node, byte);
        if (child < 0) {
            child = new_node(byte);
            Node& parent = nodes_[static_cast<std::size_t>(node)];
            nodes_[static_cast<std::size_t>(child)].sibling = parent.child;
            parent.child = child;
        }
        node = child;
    }
    Node& last = nodes_[static_cast<std::size_t>(node)];
    // Two tokens may share their bytes (one spelled, one raw): the first id wins.
    if (last.id >= 0) return;
    last.id = id;
    last.is_control = is_control;
    last.safe_cut = safe_cut;
}

std::int32_t SpecialIndex::child_of(std::int32_t node, std::uint8_t byte) const {
    std::int32_t child = nodes_[static_cast<std::size_t>(node)].child;
    while (child >= 0 && nodes_[static_cast<std::size_t>(child)].byte != byte)
        child = nodes_[static_cast<std::size_t>(child)].sibling;
    return child;
}

std::size_t SpecialIndex::next_candidate(std::string_view text, std::size_t pos) const {
    if (first_bytes_.size() == 1) {
        const void* found = std::memchr(text.data() + pos, first_bytes_[0], text.size() - pos);
        if (found == nullptr) return text.size();
        return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
    }
    while (pos < text.size() && roots_[static_cast<std::uint8_t>(text[pos])] < 0) ++pos;
    return pos;
}

void SpecialIndex::find_all(std::string_view text, std::span<const TrustedRange> trusted,
                            std::vector<SpecialMatch>* out) const {
    if (size_ == 0 || text.empty()) return;
    auto range = trusted.begin();
    for (std::size_t pos = next_candidate(text, 0); pos < text.size();
         pos = next_candidate(text, pos)) {
        while (range != trusted.end() && range->end <= pos) ++range;
        const std::size_t trusted_end =
            range != trusted.end() && range->begin <= pos ? range->end : pos;
        SpecialMatch best;
        std::int32_t node = roots_[static_cast<std::uint8_t>(text[pos])];
        for (std::size_t end = pos + 1; node >= 0; ++end) {
            const Node& n = nodes_[static_cast<std::size_t>(node)];
            if (n.id >= 0 && (!n.is_control || end <= trusted_end))
                best = {pos, end, n.id, n.safe_cut};
            if (end == text.size()) break;
            node = child_of(node, static_cast<std::uint8_t>(text[end]));
        }
        if (best.end == 0) {
            ++pos;
            continue;
        }
        out->push_back(best);
        pos = best.end;
    }
}

}  // namespace taproot
