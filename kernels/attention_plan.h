// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention.h"

namespace taproot {

// How one attention call is cut into independent pieces of work. Planning decides time only: every
// cut gives the same bits, because a row's result is defined tile by tile.
//
//   kWhole    rows of one sequence that walk over all their tiles and keep a running result: long
//             prefill, where per-tile results would be too much memory.
//   kPartial  a few rows of one or several sequences against a range of tiles. The range that
//             begins at tile 0 leaves its merge, the others each tile's result; whoever completes
//             the last tile of a sequence and kv head merges them. Spreads one long sequence over
//             all threads, and reads a prefix that several sequences share once for all of them.
struct AttentionItem {
    enum class Kind : std::uint8_t { kWhole, kPartial } kind;
    int kv_head;
    int sequence;     // kWhole: index into the call's sequences
    int token_begin;  // kWhole: new tokens of that sequence
    int token_end;
    int member_begin;  // kPartial: range of plan.members()
    int member_end;
    int tile_begin;  // kPartial
    int tile_end;
};

// A sequence on the kPartial way, and where its tile results live: for kv head h and tile t at
// offset + (h * tiles + t) * slot_floats: out [rows][head_dim], then max, then sum.
struct AttentionMember {
    int sequence;
    int rows;  // count * query heads per kv head
    int tiles;
    int shared_tiles;  // leading tiles whose blocks equal those of the member before
    int merged_tiles;  // leading tiles that one item covers: it leaves their merge in slot 0
    std::int64_t offset;
    std::int64_t slot_floats;
};

// Owner: the thread that calls attention(). Keeps its memory between calls, and the plan itself
// while the sequences stay the same: all layers of a step share one.
class AttentionPlan {
public:
    void build(const KvGeometry& geometry, int q_heads, int threads,
               std::span<const AttentionSequence> sequences);

    [[nodiscard]] std::span<const AttentionItem> items() const { return items_; }
    [[nodiscard]] std::span<const AttentionMember> members() const { return members_; }
    [[nodiscard]] std::int64_t partial_floats() const { return partial_floats_; }
    // Multiply-adds of the whole call.
    [[nodiscard]] std::int64_t cost() const { return cost_; }
    [[nodiscard]] int rows_max() const { return rows_max_; }  // rows of any item

    // For measuring, of one layer: bytes of K and V pages that the items read, and those of every
    // page of the sequences once. `sequences`: those of build().
    [[nodiscard]] std::int64_t kv_bytes_read(std::span<const AttentionSequence> sequences) const;
    [[nodiscard]] std::int64_t kv_bytes_minimum(std::span<const AttentionSequence> sequences) const;

private:
    bool same_as_before(const KvGeometry& geometry, int q_heads, int threads,
                        std::span<const AttentionSequence> sequences) const;
    void remember(const KvGeometry& geometry, int q_heads, int threads,
                  std::span<const AttentionSequence> sequences);
    void add_whole(std::span<const AttentionSequence> sequences);
    void choose_members(std::span<const AttentionSequence> sequences);
    void sort_members(std::span<const AttentionSequence> sequences);
    void add_partial(int begin, int end, int tile);
    void add_tiles(int begin, int end, int tile_begin, int tile_end);

    KvGeometry geometry_{};
    int group_ = 1;  // query heads per kv head
    int rows_max_ = 0;
    int tiles_per_item_ = 1;
    std::int64_t partial_floats_ = 0;
    std::int64_t cost_ = 0;
    std::vector<AttentionItem> items_;
    std::vector<AttentionMember> members_;
    std::vector<std::uint8_t> is_member_;  // per sequence

    // What the plan was made for. Blocks are copied: the caller's tables change under their spans.
    int q_heads_ = 0;
    int threads_ = 0;
    std::vector<AttentionSequence> sequences_;  // blocks: not to be followed
    std::vector<BlockId> blocks_;               // of all sequences, one after the other
};

constexpr int attention_tiles(int tokens) {
    return (tokens + kAttentionTileTokens - 1) / kAttentionTileTokens;
}

}  // namespace taproot
