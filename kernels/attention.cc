// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "base/assert.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention_plan.h"
#include "kernels/exp2_constants.h"
#include "kernels/ops.h"
#include "kernels/parallel.h"

namespace taproot {
namespace {

static_assert(kTileTokens == kAttentionTileTokens);
static_assert(kTileGroups * kBlockTokens == kAttentionTileTokens);

// Multiply-adds worth a fork: about 2 us of one thread.
constexpr std::int64_t kForkWorthCost = 150'000;

constexpr std::int64_t round_up_16(std::int64_t n) {
    return (n + 15) / 16 * 16;
}

// Grows to the largest call seen and stays; one per kernel thread.
class Scratch {
public:
    // Float32 memory, 64-byte aligned, contents undefined.
    float* reserve(std::int64_t floats) {
        const auto bytes = static_cast<std::size_t>(floats) * sizeof(float);
        if (buffer_.bytes() < bytes) {
            buffer_ = AlignedBuffer();
            buffer_ = AlignedBuffer(bytes);
            TAPROOT_ASSERT(buffer_.data() != nullptr);
        }
        return buffer_.as<float>();
    }

private:
    AlignedBuffer buffer_;
};

// Pages of one tile. Only those below the last visible token are looked up.
struct TilePages {
    std::array<const std::byte*, kTileGroups> k;
    std::array<const std::byte*, kTileGroups> v;
    int groups = 0;
};

struct Call {
    const AttentionOps& ops;
    const KvView& kv;
    int layer;
    int group;       // query heads per kv head
    float q_factor;  // scale * log2(e)
    ConstRows q;
    Rows out;
    std::span<const AttentionSequence> sequences;
    const AttentionPlan& plan;
    float* partials;
    std::vector<int>& tiles_left;  // [members][kv_heads], counted down atomically

    [[nodiscard]] int dims() const { return kv.geometry.head_dim; }

    void find_pages(const AttentionSequence& s, int kv_head, int tile, TilePages* pages) const {
        const int tokens = std::min(s.position + s.count - tile * kTileTokens, kTileTokens);
        const std::int64_t k_at = kv.geometry.k_offset(layer, kv_head);
        const std::int64_t v_at = kv.geometry.v_offset(layer, kv_head);
        pages->groups = std::max(0, (tokens + kBlockTokens - 1) / kBlockTokens);
        for (int i = 0; i < pages->groups; ++i) {
            const auto index = static_cast<std::size_t>(tile * kTileGroups + i);
            const std::byte* block = kv.block(s.blocks[index]);
            pages->k[static_cast<std::size_t>(i)] = block + k_at;
            pages->v[static_cast<std::size_t>(i)] = block + v_at;
        }
    }

    void find_first_pages(const AttentionItem& item, TilePages* pages) const {
        const bool whole = item.kind == AttentionItem::Kind::kWhole;
        const int index =
            whole ? item.sequence
                  : plan.members()[static_cast<std::size_t>(item.member_begin)].sequence;
        AttentionSequence s = sequences[static_cast<std::size_t>(index)];
        if (whole) s.count = item.token_end;
        find_pages(s, item.kv_head, whole ? 0 : item.tile_begin, pages);
    }

    // Query rows of tokens [begin, end), all heads of the kv head, times the softmax factor.
    float* gather_queries(const AttentionSequence& s, int kv_head, int begin, int end,
                          float* to) const {
        const int floats = group * dims();
        for (int t = begin; t < end; ++t) {
            const float* from = q.row(s.row + t) + static_cast<std::int64_t>(kv_head) * floats;
            for (int i = 0; i < floats; ++i) to[i] = from[i] * q_factor;
            to += floats;
        }
        return to;
    }

    // How much of `tile` each row sees (not positive: nothing).
    int* fill_limits(const AttentionSequence& s, int begin, int end, int tile, int* to) const {
        for (int t = begin; t < end; ++t) {
            const int seen = std::min(s.position + t + 1 - tile * kTileTokens, kTileTokens);
            to = std::fill_n(to, group, seen);
        }
        return to;
    }

    void finish_rows(const AttentionSequence& s, int kv_head, int begin, int end,
                     const AttentionState& state) const {
        const int dim = dims();
        for (int t = begin, r = 0; t < end; ++t) {
            for (int h = 0; h < group; ++h, ++r) {
                float* to = out.row(s.row + t) + std::int64_t{kv_head * group + h} * dim;
                ops.finish(dim, state.out + std::int64_t{r} * dim, state.sum[r], to);
            }
        }
    }

    [[nodiscard]] AttentionState slot(const AttentionMember& m, int kv_head, int tile) const {
        float* at = partials + m.offset + (std::int64_t{kv_head} * m.tiles + tile) * m.slot_floats;
        float* tail = at + std::int64_t{m.rows} * dims();
        return {.max = tail, .sum = tail + round_up_16(m.rows), .out = at};
    }
};

AttentionState skip_rows(const AttentionState& s, int rows, int dims) {
    return {.max = s.max + rows, .sum = s.sum + rows, .out = s.out + std::int64_t{rows} * dims};
}

// First row that sees anything of `tile`; rows are in token order.
int first_seeing_row(const AttentionSequence& s, int token_begin, int tile, int group) {
    return std::max(0, tile * kTileTokens - s.position - token_begin) * group;
}

// One thread's memory for an item.
struct ItemMemory {
    float* tile;  // for the instruction set
    float* q;     // [rows_max][head_dim]
    AttentionState state;
    AttentionState next;
    int* limits;

    ItemMemory(Scratch& scratch, int rows_max, int dims) {
        const std::int64_t matrix = std::int64_t{rows_max} * dims;
        const std::int64_t column = round_up_16(rows_max);
        float* at = scratch.reserve(attention_scratch_floats(dims) + 3 * matrix + 5 * column);
        auto take = [&](std::int64_t floats) { return std::exchange(at, at + floats); };
        tile = take(attention_scratch_floats(dims));
        q = take(matrix);
        state = {.max = take(column), .sum = take(column), .out = take(matrix)};
        next = {.max = take(column), .sum = take(column), .out = take(matrix)};
        limits = reinterpret_cast<int*>(take(column));
    }
};

AttentionTile tile_of(const Call& call, const TilePages& pages, const TilePages& next, int rows,
                      const ItemMemory& memory, const AttentionState& result) {
    return {.k = pages.k.data(),
            .v = pages.v.data(),
            .next_k = next.k.data(),
            .next_groups = next.groups,
            .head_dim = call.dims(),
            .dtype = call.kv.geometry.dtype,
            .rows = rows,
            .q = memory.q,
            .limits = memory.limits,
            .max = result.max,
            .sum = result.sum,
            .out = result.out,
            .scratch = memory.tile};
}

// `after`: the pages that this thread reads after the item, to be fetched early.
void run_whole(const Call& call, const AttentionItem& item, const ItemMemory& memory,
               const TilePages& after) {
    const AttentionSequence& s = call.sequences[static_cast<std::size_t>(item.sequence)];
    const int rows = (item.token_end - item.token_begin) * call.group;
    // The tokens this item sees; pages beyond need no look-up.
    AttentionSequence seen = s;
    seen.count = item.token_end;
    const int tiles = attention_tiles(seen.position + seen.count);
    call.gather_queries(s, item.kv_head, item.token_begin, item.token_end, memory.q);

    TilePages pages;
    TilePages next;
    call.find_pages(seen, item.kv_head, 0, &next);
    for (int tile = 0; tile < tiles; ++tile) {
        pages = next;
        if (tile + 1 < tiles) {
            call.find_pages(seen, item.kv_head, tile + 1, &next);
        } else {
            next = after;
        }
        call.fill_limits(s, item.token_begin, item.token_end, tile, memory.limits);
        const AttentionState& to = tile == 0 ? memory.state : memory.next;
        call.ops.tile(tile_of(call, pages, next, rows, memory, to));
        if (tile == 0) continue;
        const int first = first_seeing_row(s, item.token_begin, tile, call.group);
        call.ops.merge(rows - first, call.dims(), skip_rows(memory.state, first, call.dims()),
                       skip_rows(memory.next, first, call.dims()));
    }
    call.finish_rows(s, item.kv_head, item.token_begin, item.token_end, memory.state);
}

void merge_member(const Call& call, const AttentionMember& member, int kv_head) {
    const AttentionSequence& s = call.sequences[static_cast<std::size_t>(member.sequence)];
    const AttentionState state = call.slot(member, kv_head, 0);
    for (int tile = member.merged_tiles; tile < member.tiles; ++tile) {
        const int first = first_seeing_row(s, 0, tile, call.group);
        call.ops.merge(member.rows - first, call.dims(), skip_rows(state, first, call.dims()),
                       skip_rows(call.slot(member, kv_head, tile), first, call.dims()));
    }
    call.finish_rows(s, kv_head, 0, s.count, state);
}

// One kPartial item at work.
class PartialItem {
public:
    PartialItem(const Call& call, const AttentionItem& item, const ItemMemory& memory)
        : call_(call),
          item_(item),
          memory_(memory),
          members_(call.plan.members().subspan(
              static_cast<std::size_t>(item.member_begin),
              static_cast<std::size_t>(item.member_end - item.member_begin))) {
        float* q = memory.q;
        for (const AttentionMember& m : members_) {
            q = call.gather_queries(sequence(m), item.kv_head, 0, sequence(m).count, q);
            rows_ += m.rows;
        }
    }

    void run(const TilePages& after) {
        // Members that share a tile have the same full tile: any of them names its pages.
        const AttentionSequence& any = sequence(members_.front());
        TilePages pages;
        TilePages next;
        call_.find_pages(any, item_.kv_head, item_.tile_begin, &next);
        for (int tile = item_.tile_begin; tile < item_.tile_end; ++tile) {
            pages = next;
            if (tile + 1 < item_.tile_end) {
                call_.find_pages(any, item_.kv_head, tile + 1, &next);
            } else {
                next = after;
            }
            run_tile(tile, pages, next);
        }
        if (item_.tile_begin == 0 && !alone()) scatter(0, memory_.state);
        hand_in();
    }

private:
    [[nodiscard]] const AttentionSequence& sequence(const AttentionMember& m) const {
        return call_.sequences[static_cast<std::size_t>(m.sequence)];
    }
    [[nodiscard]] bool alone() const { return members_.size() == 1; }
    // Where results of `tile` belong, when nobody else is in the item.
    [[nodiscard]] AttentionState own_slot(int tile) const {
        return call_.slot(members_.front(), item_.kv_head, tile);
    }

    void run_tile(int tile, const TilePages& pages, const TilePages& next) {
        int* limits = memory_.limits;
        for (const AttentionMember& m : members_) {
            limits = call_.fill_limits(sequence(m), 0, sequence(m).count, tile, limits);
        }
        auto run = [&](const AttentionState& to) {
            call_.ops.tile(tile_of(call_, pages, next, rows_, memory_, to));
        };
        if (item_.tile_begin > 0) {
            const AttentionState& to = alone() ? own_slot(tile) : memory_.next;
            run(to);
            if (!alone()) scatter(tile, to);
            return;
        }
        const AttentionState state = alone() ? own_slot(0) : memory_.state;
        if (tile == 0) return run(state);
        run(memory_.next);
        // Only a sequence on its own can have rows that do not see a tile of the range.
        const int first =
            alone() ? first_seeing_row(sequence(members_[0]), 0, tile, call_.group) : 0;
        call_.ops.merge(rows_ - first, call_.dims(), skip_rows(state, first, call_.dims()),
                        skip_rows(memory_.next, first, call_.dims()));
    }

    // Rows of several sequences were computed together: each takes its part home.
    void scatter(int tile, const AttentionState& from) {
        const std::int64_t dims = call_.dims();
        std::int64_t row = 0;
        for (const AttentionMember& m : members_) {
            const AttentionState to = call_.slot(m, item_.kv_head, tile);
            std::copy_n(from.max + row, m.rows, to.max);
            std::copy_n(from.sum + row, m.rows, to.sum);
            std::copy_n(from.out + row * dims, m.rows * dims, to.out);
            row += m.rows;
        }
    }

    // Counts the tiles down; who completes a sequence finishes it.
    void hand_in() {
        const int done = item_.tile_end - item_.tile_begin;
        const int kv_heads = call_.kv.geometry.kv_heads;
        for (std::size_t i = 0; i < members_.size(); ++i) {
            const int index = (item_.member_begin + static_cast<int>(i)) * kv_heads + item_.kv_head;
            std::atomic_ref left(call_.tiles_left[static_cast<std::size_t>(index)]);
            if (left.fetch_sub(done, std::memory_order_acq_rel) == done) {
                merge_member(call_, members_[i], item_.kv_head);
            }
        }
    }

    const Call& call_;
    const AttentionItem& item_;
    const ItemMemory& memory_;
    std::span<const AttentionMember> members_;
    int rows_ = 0;
};

// Takes items until none is left. Each thread claims its next item before it runs the current one,
// so that it can fetch that one's first pages early.
void run_items(const Call& call, std::atomic<int>& next_item) {
    thread_local Scratch scratch;
    const ItemMemory memory(scratch, call.plan.rows_max(), call.dims());
    const std::span<const AttentionItem> items = call.plan.items();
    auto claim = [&]() -> const AttentionItem* {
        const auto i = static_cast<std::size_t>(next_item.fetch_add(1, std::memory_order_relaxed));
        return i < items.size() ? &items[i] : nullptr;
    };
    for (const AttentionItem* item = claim(); item != nullptr;) {
        const AttentionItem* following = claim();
        TilePages after;
        if (following != nullptr) call.find_first_pages(*following, &after);
        if (item->kind == AttentionItem::Kind::kWhole) {
            run_whole(call, *item, memory, after);
        } else {
            PartialItem(call, *item, memory).run(after);
        }
        item = following;
    }
}

void check(const KvView& kv, int layer, std::span<const AttentionSequence> sequences, int rows) {
    TAPROOT_ASSERT(kv.geometry.head_dim > 0);
    TAPROOT_ASSERT(kv.geometry.head_dim % 16 == 0);
    TAPROOT_ASSERT(layer >= 0);
    TAPROOT_ASSERT(layer < kv.geometry.layers);
    for (const AttentionSequence& s : sequences) {
        TAPROOT_ASSERT(s.count >= 0);
        TAPROOT_ASSERT(s.position >= 0);
        TAPROOT_ASSERT(s.row >= 0);
        TAPROOT_ASSERT(s.row + s.count <= rows);
        TAPROOT_ASSERT(static_cast<std::int64_t>(s.blocks.size()) * kBlockTokens >=
                       std::int64_t{s.position} + s.count);
    }
}

int blocks_touched(const AttentionSequence& s) {
    if (s.count == 0) return 0;
    return (s.position + s.count - 1) / kBlockTokens - s.position / kBlockTokens + 1;
}

// Stores the new tokens of block number `nth` among those that the sequence touches.
void append_block(const KernelContext& context, const KvView& kv, int layer, ConstRows k,
                  ConstRows v, const AttentionSequence& s, int nth) {
    const KvGeometry& geometry = kv.geometry;
    const int index = s.position / kBlockTokens + nth;
    const int begin = std::max(s.position, index * kBlockTokens);
    const int end = std::min(s.position + s.count, (index + 1) * kBlockTokens);
    const int row = s.row + begin - s.position;
    std::byte* block = kv.block(s.blocks[static_cast<std::size_t>(index)]);
    for (int head = 0; head < geometry.kv_heads; ++head) {
        const std::int64_t column = std::int64_t{head} * geometry.head_dim;
        context.ops.attention.append({.k_plane = block + geometry.k_offset(layer, head),
                                      .v_plane = block + geometry.v_offset(layer, head),
                                      .k = k.row(row) + column,
                                      .v = v.row(row) + column,
                                      .k_stride = k.stride,
                                      .v_stride = v.stride,
                                      .slot = begin % kBlockTokens,
                                      .count = end - begin,
                                      .head_dim = geometry.head_dim,
                                      .dtype = geometry.dtype});
    }
}

}  // namespace

void kv_append(KernelContext& context, const KvView& kv, int layer, ConstRows k, ConstRows v,
               std::span<const AttentionSequence> sequences) {
    check(kv, layer, sequences, k.rows);
    TAPROOT_ASSERT(k.rows == v.rows);
    TAPROOT_ASSERT(k.columns == kv.geometry.kv_heads * kv.geometry.head_dim);
    TAPROOT_ASSERT(v.columns == k.columns);
    int blocks = 0;
    int tokens = 0;
    for (const AttentionSequence& s : sequences) {
        blocks += blocks_touched(s);
        tokens += s.count;
    }
    // A decoding token touches a cold line per two dims of K in each head.
    const double block_ns =
        blocks == 0 ? 0 : std::max(0.5 * k.columns * tokens / blocks, 1.0 * k.columns);
    parallel_for(context, blocks, block_ns, [&](int begin, int end) {
        int first = 0;  // number of this sequence's first block
        for (const AttentionSequence& s : sequences) {
            const int count = blocks_touched(s);
            for (int n = std::max(begin - first, 0); n < std::min(end - first, count); ++n) {
                append_block(context, kv, layer, k, v, s, n);
            }
            first += count;
        }
    });
}

void attention(KernelContext& context, const KvView& kv, int layer, int q_heads, float scale,
               ConstRows q, Rows out, std::span<const AttentionSequence> sequences) {
    check(kv, layer, sequences, q.rows);
    TAPROOT_ASSERT(out.rows == q.rows);
    TAPROOT_ASSERT(q_heads % kv.geometry.kv_heads == 0);
    TAPROOT_ASSERT(q.columns == q_heads * kv.geometry.head_dim);
    TAPROOT_ASSERT(out.columns == q.columns);

    // Kept between calls: nothing is allocated once the largest step has been seen.
    thread_local AttentionPlan plan;
    thread_local Scratch partials;
    thread_local std::vector<int> tiles_left;
    plan.build(kv.geometry, q_heads, context.pool.threads(), sequences);
    tiles_left.clear();
    for (const AttentionMember& m : plan.members()) {
        tiles_left.insert(tiles_left.end(), static_cast<std::size_t>(kv.geometry.kv_heads),
                          m.tiles);
    }

    const Call call = {.ops = context.ops.attention,
                       .kv = kv,
                       .layer = layer,
                       .group = q_heads / kv.geometry.kv_heads,
                       .q_factor = scale * kLog2E,
                       .q = q,
                       .out = out,
                       .sequences = sequences,
                       .plan = plan,
                       .partials = partials.reserve(plan.partial_floats()),
                       .tiles_left = tiles_left};
    std::atomic<int> next_item{0};
    auto work = [&](int) { run_items(call, next_item); };
    if (plan.cost() < kForkWorthCost) {
        work(0);
    } else {
        context.pool.share(work);
    }
}

}  // namespace taproot
