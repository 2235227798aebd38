// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace taproot {

// Remembers the ids of short pieces: words repeat, so most pieces are answered from here. Two
// places per hash; the newer piece takes the first and the older one moves to the second. Owner:
// one thread (part of Tokenizer::Scratch). Fixed size: 2 x kSets x 64 bytes = 1 MiB.
//
//   entry (64 bytes)  | tag 4 | piece length 1 | id count 1 | piece 26 | ids 8 x 4 |
class PieceCache {
public:
    static constexpr std::size_t kPieceBytesMax = 26;
    static constexpr std::size_t kIdsMax = 8;

    struct Entry {
        std::uint32_t tag = 0;
        std::uint8_t piece_bytes = 0;  // 0 = free
        std::uint8_t id_count = 0;
        std::array<char, kPieceBytesMax> piece{};
        std::array<TokenId, kIdsMax> ids{};
    };
    static_assert(sizeof(Entry) == 64);

    // The ids of `piece`, or null. The pointer is valid until the next insert.
    [[nodiscard]] const Entry* find(std::string_view piece, std::uint64_t hash) const {
        const Entry* set = &entries_[2 * (hash & (kSets - 1))];
        for (int way = 0; way < 2; ++way)
            if (matches(set[way], piece, hash)) return &set[way];
        return nullptr;
    }

    // `piece` of 1..kPieceBytesMax bytes, at most kIdsMax ids.
    void insert(std::string_view piece, std::uint64_t hash, std::span<const TokenId> ids) {
        Entry* set = &entries_[2 * (hash & (kSets - 1))];
        set[1] = set[0];
        set[0].tag = static_cast<std::uint32_t>(hash >> 32);
        set[0].piece_bytes = static_cast<std::uint8_t>(piece.size());
        set[0].id_count = static_cast<std::uint8_t>(ids.size());
        std::memcpy(set[0].piece.data(), piece.data(), piece.size());
        std::copy(ids.begin(), ids.end(), set[0].ids.begin());
    }

    void clear() { entries_.assign(2 * kSets, Entry{}); }

private:
    static constexpr std::size_t kSets = 8'192;

    static bool matches(const Entry& entry, std::string_view piece, std::uint64_t hash) {
        return entry.tag == static_cast<std::uint32_t>(hash >> 32) &&
               entry.piece_bytes == piece.size() &&
               std::memcmp(entry.piece.data(), piece.data(), piece.size()) == 0;
    }

    std::vector<Entry> entries_ = std::vector<Entry>(2 * kSets);
};

}  // namespace taproot
