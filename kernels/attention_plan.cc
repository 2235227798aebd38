// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention_plan.h"

#include <algorithm>

#include "base/assert.h"

namespace taproot {
namespace {

// Rows that share one conversion of a K/V tile to float32. More rows hide the conversion better
// (96 rows: ~3 % of the time), fewer balance threads better.
constexpr int kRowsWanted = 96;
// Tile results kept at once; sequences beyond it take the kWhole way. 32 MiB.
constexpr std::int64_t kPartialFloatsMax = 8 << 20;
constexpr int kTilesPerItemMax = 8;
constexpr int kBlocksPerTile = kAttentionTileTokens / kBlockTokens;

int tokens_of(const AttentionSequence& s) {
    return s.position + s.count;
}

int pages_of(int tokens) {
    return (tokens + kBlockTokens - 1) / kBlockTokens;
}

// Leading tiles of which a and b have all blocks, and the same ones.
int shared_tiles(const AttentionSequence& a, const AttentionSequence& b) {
    const int full = std::min(tokens_of(a), tokens_of(b)) / kAttentionTileTokens;
    const auto blocks = static_cast<std::ptrdiff_t>(full) * kBlocksPerTile;
    auto differs = std::mismatch(a.blocks.begin(), a.blocks.begin() + blocks, b.blocks.begin());
    return static_cast<int>(differs.first - a.blocks.begin()) / kBlocksPerTile;
}

}  // namespace

void AttentionPlan::build(const KvGeometry& geometry, int q_heads, int threads,
                          std::span<const AttentionSequence> sequences) {
    if (same_as_before(geometry, q_heads, threads, sequences)) return;
    remember(geometry, q_heads, threads, sequences);
    group_ = q_heads / geometry.kv_heads;
    rows_max_ = std::max(kRowsWanted, group_);
    items_.clear();
    members_.clear();

    cost_ = 0;
    std::int64_t member_tiles = 0;
    choose_members(sequences);
    for (const AttentionSequence& s : sequences) {
        const std::int64_t seen =
            std::int64_t{s.count} * s.position + std::int64_t{s.count} * (s.count + 1) / 2;
        cost_ += 2 * seen * geometry.head_dim * q_heads;
    }
    for (const AttentionMember& m : members_) member_tiles += m.tiles;
    // Many items for each thread, so that the last one to finish is not far behind. One thread has
    // nobody to wait for.
    tiles_per_item_ = static_cast<int>(std::clamp<std::int64_t>(
        threads == 1 ? kTilesPerItemMax
                     : member_tiles * geometry.kv_heads / (std::int64_t{12} * threads),
        1, kTilesPerItemMax));

    add_whole(sequences);
    sort_members(sequences);
    for (int begin = 0, end = 0; begin < static_cast<int>(members_.size()); begin = end) {
        end = begin + 1;
        while (end < static_cast<int>(members_.size()) &&
               members_[static_cast<std::size_t>(end)].shared_tiles > 0) {
            ++end;
        }
        add_partial(begin, end, 0);
    }
}

bool AttentionPlan::same_as_before(const KvGeometry& geometry, int q_heads, int threads,
                                   std::span<const AttentionSequence> sequences) const {
    if (geometry.layers != geometry_.layers || geometry.kv_heads != geometry_.kv_heads ||
        geometry.head_dim != geometry_.head_dim || geometry.dtype != geometry_.dtype ||
        q_heads != q_heads_ || threads != threads_ || sequences.size() != sequences_.size()) {
        return false;
    }
    auto block = blocks_.begin();
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        const AttentionSequence& a = sequences[i];
        const AttentionSequence& b = sequences_[i];
        if (a.row != b.row || a.count != b.count || a.position != b.position ||
            a.blocks.size() != b.blocks.size()) {
            return false;
        }
        if (!std::equal(a.blocks.begin(), a.blocks.end(), block)) return false;
        block += static_cast<std::ptrdiff_t>(a.blocks.size());
    }
    return true;
}

void AttentionPlan::remember(const KvGeometry& geometry, int q_heads, int threads,
                             std::span<const AttentionSequence> sequences) {
    geometry_ = geometry;
    q_heads_ = q_heads;
    threads_ = threads;
    sequences_.assign(sequences.begin(), sequences.end());
    blocks_.clear();
    for (const AttentionSequence& s : sequences) {
        blocks_.insert(blocks_.end(), s.blocks.begin(), s.blocks.end());
    }
}

void AttentionPlan::choose_members(std::span<const AttentionSequence> sequences) {
    is_member_.assign(sequences.size(), 0);
    partial_floats_ = 0;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        const AttentionSequence& s = sequences[i];
        const int rows = s.count * group_;
        if (s.count == 0 || rows > rows_max_) continue;
        const int tiles = attention_tiles(tokens_of(s));
        const std::int64_t tails = 2 * ((rows + 15) / 16 * 16);
        const std::int64_t slot = std::int64_t{rows} * geometry_.head_dim + tails;
        const std::int64_t floats = slot * tiles * geometry_.kv_heads;
        if (partial_floats_ + floats > kPartialFloatsMax) continue;
        members_.push_back({.sequence = static_cast<int>(i),
                            .rows = rows,
                            .tiles = tiles,
                            .shared_tiles = 0,
                            .merged_tiles = 0,
                            .offset = partial_floats_,
                            .slot_floats = slot});
        partial_floats_ += floats;
        is_member_[i] = 1;
    }
}

// Longest first: an item at the end of a sequence sees the most tokens.
void AttentionPlan::add_whole(std::span<const AttentionSequence> sequences) {
    const int tokens = std::max(1, rows_max_ / group_);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        if (is_member_[i] != 0) continue;
        for (int begin = 0; begin < sequences[i].count; begin += tokens) {
            for (int head = 0; head < geometry_.kv_heads; ++head) {
                items_.push_back({.kind = AttentionItem::Kind::kWhole,
                                  .kv_head = head,
                                  .sequence = static_cast<int>(i),
                                  .token_begin = begin,
                                  .token_end = std::min(begin + tokens, sequences[i].count),
                                  .member_begin = 0,
                                  .member_end = 0,
                                  .tile_begin = 0,
                                  .tile_end = 0});
            }
        }
    }
    std::stable_sort(items_.begin(), items_.end(), [&](const auto& a, const auto& b) {
        return sequences[static_cast<std::size_t>(a.sequence)].position + a.token_end >
               sequences[static_cast<std::size_t>(b.sequence)].position + b.token_end;
    });
}

// Sequences that begin with the same blocks become neighbours.
void AttentionPlan::sort_members(std::span<const AttentionSequence> sequences) {
    auto sequence = [&](const AttentionMember& m) -> const AttentionSequence& {
        return sequences[static_cast<std::size_t>(m.sequence)];
    };
    std::sort(members_.begin(), members_.end(), [&](const auto& a, const auto& b) {
        const auto& x = sequence(a).blocks;
        const auto& y = sequence(b).blocks;
        return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
    });
    for (std::size_t i = 1; i < members_.size(); ++i) {
        members_[i].shared_tiles = shared_tiles(sequence(members_[i - 1]), sequence(members_[i]));
    }
}

// Members [begin, end) have the same tiles up to `tile`; hands out those they go on sharing, then
// splits where they part.
void AttentionPlan::add_partial(int begin, int end, int tile) {
    const auto first = members_.begin() + begin;
    if (end - begin == 1) {
        add_tiles(begin, end, tile, first->tiles);
        return;
    }
    int shared = first[1].shared_tiles;
    for (int i = 2; i < end - begin; ++i) shared = std::min(shared, first[i].shared_tiles);
    add_tiles(begin, end, tile, shared);
    for (int from = begin, to = begin; from < end; from = to) {
        to = from + 1;
        while (to < end && members_[static_cast<std::size_t>(to)].shared_tiles > shared) ++to;
        add_partial(from, to, shared);
    }
}

void AttentionPlan::add_tiles(int begin, int end, int tile_begin, int tile_end) {
    for (int from = begin, to = begin; from < end && tile_begin < tile_end; from = to) {
        int rows = 0;
        while (to < end &&
               (to == from || rows + members_[static_cast<std::size_t>(to)].rows <= rows_max_)) {
            AttentionMember& member = members_[static_cast<std::size_t>(to)];
            if (tile_begin == 0) member.merged_tiles = std::min(tiles_per_item_, tile_end);
            rows += member.rows;
            ++to;
        }
        for (int head = 0; head < geometry_.kv_heads; ++head) {
            for (int tile = tile_begin; tile < tile_end; tile += tiles_per_item_) {
                items_.push_back({.kind = AttentionItem::Kind::kPartial,
                                  .kv_head = head,
                                  .sequence = 0,
                                  .token_begin = 0,
                                  .token_end = 0,
                                  .member_begin = from,
                                  .member_end = to,
                                  .tile_begin = tile,
                                  .tile_end = std::min(tile + tiles_per_item_, tile_end)});
            }
        }
    }
}

std::int64_t AttentionPlan::kv_bytes_read(std::span<const AttentionSequence> sequences) const {
    std::int64_t pages = 0;
    for (const AttentionItem& item : items_) {
        if (item.kind == AttentionItem::Kind::kWhole) {
            const AttentionSequence& s = sequences[static_cast<std::size_t>(item.sequence)];
            pages += pages_of(s.position + item.token_end);
            continue;
        }
        // Members that share tiles see the same ones; only the last tile of one alone may be part.
        const AttentionMember& any = members_[static_cast<std::size_t>(item.member_begin)];
        const int tokens = tokens_of(sequences[static_cast<std::size_t>(any.sequence)]);
        pages += pages_of(std::min(tokens, item.tile_end * kAttentionTileTokens)) -
                 item.tile_begin * kBlocksPerTile;
    }
    return pages * 2 * geometry_.plane_bytes();
}

std::int64_t AttentionPlan::kv_bytes_minimum(std::span<const AttentionSequence> sequences) const {
    std::vector<std::uint32_t> pages;
    for (const AttentionSequence& s : sequences) {
        if (s.count == 0) continue;
        for (int i = 0; i < pages_of(tokens_of(s)); ++i) {
            pages.push_back(s.blocks[static_cast<std::size_t>(i)].value);
        }
    }
    std::sort(pages.begin(), pages.end());
    pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
    return static_cast<std::int64_t>(pages.size()) * 2 * geometry_.plane_bytes() *
           geometry_.kv_heads;
}

}  // namespace taproot
