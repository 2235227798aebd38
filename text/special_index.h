// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "text/vocab.h"

namespace taproot {

// A stretch of a text of which every byte may be matched by control tokens.
struct TrustedRange {
    std::size_t begin = 0;
    std::size_t end = 0;
};

struct SpecialMatch {
    std::size_t begin = 0;
    std::size_t end = 0;
    TokenId id = 0;
    bool safe_cut = false;  // see SpecialIndex

    friend bool operator==(const SpecialMatch&, const SpecialMatch&) = default;
};

// Finds the tokens that are matched as whole texts: control tokens, only inside trusted ranges, and
// user-defined tokens, everywhere. Leftmost first, longest first among those that begin together.
//
// A match is a *safe cut* when nothing before its end could have matched otherwise, whatever text
// follows: then the ids of the text up to there never depend on the rest. Only control tokens whose
// text does not lie inside another one's (but at its end) qualify.
// Immutable once built; any thread. Cost: a scan for first bytes, a trie walk at each.
class SpecialIndex {
public:
    explicit SpecialIndex(const Vocab& vocab);

    // Appends all matches in `text`, in order. `trusted`: ascending, disjoint, not touching.
    void find_all(std::string_view text, std::span<const TrustedRange> trusted,
                  std::vector<SpecialMatch>* out) const;

    [[nodiscard]] std::size_t size() const { return size_; }

private:
    struct Node {
        std::int32_t child = -1;    // first child
        std::int32_t sibling = -1;  // next child of the parent
        TokenId id = -1;            // the token that ends here
        std::uint8_t byte = 0;
        bool is_control = false;
        bool safe_cut = false;
    };

    void add(std::string_view text, TokenId id, bool is_control, bool safe_cut);
    [[nodiscard]] std::int32_t child_of(std::int32_t node, std::uint8_t byte) const;
    [[nodiscard]] std::size_t next_candidate(std::string_view text, std::size_t pos) const;

    std::vector<Node> nodes_;
    std::array<std::int32_t, 256> roots_{};  // node of each first byte, or -1
    std::vector<std::uint8_t> first_bytes_;
    std::size_t size_ = 0;
};

}  // namespace taproot
