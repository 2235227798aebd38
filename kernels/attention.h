// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"
#include "kernels/context.h"
#include "kernels/kv_dtype.h"

namespace taproot {

// Attention tiles sit at absolute positions of the sequence (0..127, 128..255, ...), so that a
// tile's partial result never depends on batch, chunk, or where the KV came from.
inline constexpr int kAttentionTileTokens = 128;
static_assert(kAttentionTileTokens % kBlockTokens == 0);

// One block = 16 tokens of all layers, contiguous (one copy, one transfer, one stored value):
//   [layer][kv_head] { K: [head_dim][16 tokens]   (transposed: scores land in lanes)
//                      V: [16 tokens][head_dim] }
// With int8 each of the two planes ends in the float32 scales of its 16 tokens.
struct KvGeometry {
    int layers;
    int kv_heads;
    int head_dim;  // a multiple of 16
    KvDType dtype;

    [[nodiscard]] constexpr std::int64_t element_bytes() const {
        if (dtype == KvDType::kInt8) return 1;
        return dtype == KvDType::kF32 ? 4 : 2;
    }
    [[nodiscard]] constexpr std::int64_t scale_bytes() const {  // of a plane
        return dtype == KvDType::kInt8 ? std::int64_t{sizeof(float)} * kBlockTokens : 0;
    }
    [[nodiscard]] constexpr std::int64_t plane_bytes() const {  // K or V of one head and layer
        return element_bytes() * head_dim * kBlockTokens + scale_bytes();
    }
    [[nodiscard]] constexpr std::int64_t block_bytes() const {
        return 2 * plane_bytes() * kv_heads * layers;
    }
    [[nodiscard]] constexpr std::int64_t k_offset(int layer, int kv_head) const {
        return (static_cast<std::int64_t>(layer) * kv_heads + kv_head) * 2 * plane_bytes();
    }
    [[nodiscard]] constexpr std::int64_t v_offset(int layer, int kv_head) const {
        return k_offset(layer, kv_head) + plane_bytes();
    }
};

// The pool's memory: block i begins at base + i * block_bytes() (64-bit arithmetic throughout).
struct KvView {
    std::byte* base;
    KvGeometry geometry;
    [[nodiscard]] std::byte* block(BlockId id) const {
        return base + static_cast<std::int64_t>(id.value) * geometry.block_bytes();
    }
};

// The new rows of one sequence within a packed step: rows [row, row + count) of q, k, v and out are
// positions [position, position + count); blocks[i] holds positions 16i .. 16i+15 and covers all of
// them. Everything before `position` is in the cache already.
struct AttentionSequence {
    int row;
    int count;
    int position;
    std::span<const BlockId> blocks;
};

// Rounds k and v rows to the pool's type and stores them (kernels/README.md: what is rounded,
// clamped, and what becomes of NaN). k, v: [rows, kv_heads * head_dim], k already rotated.
void kv_append(KernelContext& context, const KvView& kv, int layer, ConstRows k, ConstRows v,
               std::span<const AttentionSequence> sequences);

// Causal attention of every new row over its whole sequence, as stored (the rows of this step
// included; call kv_append first). Grouped queries: query head h reads kv head h / (q_heads /
// kv_heads). q, out: [rows, q_heads * head_dim]. Base-2 softmax; tiles give (max, sum, out) and
// merge ascending. Canonical order: kernels/README.md. Cost: reads each K/V page once per kv head
// and group of rows.
void attention(KernelContext& context, const KvView& kv, int layer, int q_heads, float scale,
               ConstRows q, Rows out, std::span<const AttentionSequence> sequences);

}  // namespace taproot
