// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/dispatch.h"

namespace taproot::testing {

inline constexpr KvDType kAllKvDTypes[] = {KvDType::kF16, KvDType::kF32, KvDType::kBf16,
                                           KvDType::kInt8};
static_assert(std::size(kAllKvDTypes) == kKvDTypes);

struct SceneShape {
    int kv_heads = 3;
    int group = 3;  // query heads per kv head
    int head_dim = 64;
    KvDType dtype = KvDType::kF16;
    int layers = 2;
};

// Sequences with known K, V and Q rows, and a pool whose unused memory is NaN (all bits set: with
// int8 the scales are). Tests feed the rows in any chunks and compare outputs bit by bit.
class Scene {
public:
    // lengths[i]: tokens of sequence i. The first `shared_blocks` blocks are one prefix of all.
    Scene(SceneShape shape, std::vector<int> lengths, std::uint64_t seed, int shared_blocks = 0)
        : shape_(shape), lengths_(std::move(lengths)), shared_blocks_(shared_blocks) {
        Random random(seed);
        geometry_ = {shape.layers, shape.kv_heads, shape.head_dim, shape.dtype};
        make_tables(random);
        for (std::size_t i = 0; i < lengths_.size(); ++i) {
            const auto tokens = static_cast<std::size_t>(lengths_[i]);
            q_.push_back(floats(tokens * q_columns(), random, 2.0));
            k_.push_back(floats(tokens * kv_columns(), random, 2.0));
            v_.push_back(floats(tokens * kv_columns(), random, 3.0));
            const std::size_t shared = static_cast<std::size_t>(shared_blocks) * kBlockTokens;
            std::copy_n(k_[0].begin(), shared * kv_columns(), k_[i].begin());
            std::copy_n(v_[0].begin(), shared * kv_columns(), v_[i].begin());
        }
        pool_ = AlignedBuffer(static_cast<std::size_t>(geometry_.block_bytes()) * blocks_);
        poison();
    }

    void poison() { std::memset(pool_.data(), 0xff, pool_.bytes()); }

    std::size_t q_columns() const {
        return static_cast<std::size_t>(shape_.kv_heads * shape_.group * shape_.head_dim);
    }
    std::size_t kv_columns() const {
        return static_cast<std::size_t>(shape_.kv_heads * shape_.head_dim);
    }
    KvView view() { return {pool_.data(), geometry_}; }
    int q_heads() const { return shape_.kv_heads * shape_.group; }
    float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }
    const std::vector<int>& lengths() const { return lengths_; }
    const std::vector<std::vector<BlockId>>& tables() const { return tables_; }
    const std::vector<float>& q(std::size_t i) const { return q_[i]; }
    const std::vector<float>& k(std::size_t i) const { return k_[i]; }
    const std::vector<float>& v(std::size_t i) const { return v_[i]; }

    struct Piece {
        std::size_t sequence;
        int position;
        int count;
    };

    // One step: appends the pieces' rows and attends. Returns the packed output rows.
    std::vector<float> step(KernelContext& context, int layer, const std::vector<Piece>& pieces) {
        return run(context, layer, pieces, true);
    }
    // The same rows again over what is stored.
    std::vector<float> attend(KernelContext& context, int layer, const std::vector<Piece>& pieces) {
        return run(context, layer, pieces, false);
    }
    // All sequences in one step from position 0.
    std::vector<float> step_all(KernelContext& context, int layer) {
        std::vector<Piece> pieces;
        for (std::size_t i = 0; i < lengths_.size(); ++i) pieces.push_back({i, 0, lengths_[i]});
        return step(context, layer, pieces);
    }

private:
    static std::vector<float> floats(std::size_t count, Random& random, double scale) {
        std::vector<float> values(count);
        for (float& v : values) v = static_cast<float>((random.unit() * 2 - 1) * scale);
        return values;
    }

    void make_tables(Random& random) {
        std::uint32_t used = static_cast<std::uint32_t>(shared_blocks_);
        for (int length : lengths_) {
            std::vector<BlockId> table;
            for (int b = 0; b * kBlockTokens < length; ++b) {
                table.push_back(b < shared_blocks_ ? BlockId{static_cast<std::uint32_t>(b)}
                                                   : BlockId{used++});
            }
            tables_.push_back(std::move(table));
        }
        blocks_ = used;
        std::vector<std::uint32_t> shuffle(blocks_);
        std::iota(shuffle.begin(), shuffle.end(), 0u);
        for (std::size_t i = shuffle.size(); i > 1; --i) {
            std::swap(shuffle[i - 1], shuffle[static_cast<std::size_t>(random.below(i))]);
        }
        for (auto& table : tables_) {
            for (BlockId& id : table) id = BlockId{shuffle[id.value]};
        }
    }

    std::vector<float> run(KernelContext& context, int layer, const std::vector<Piece>& pieces,
                           bool append) {
        std::vector<AttentionSequence> sequences;
        int rows = 0;
        for (const Piece& p : pieces) {
            sequences.push_back({rows, p.count, p.position, tables_[p.sequence]});
            rows += p.count;
        }
        auto pack = [&](const std::vector<std::vector<float>>& from, std::size_t columns) {
            std::vector<float> packed;
            for (const Piece& p : pieces) {
                auto at =
                    from[p.sequence].begin() + static_cast<std::ptrdiff_t>(p.position * columns);
                packed.insert(packed.end(), at,
                              at + static_cast<std::ptrdiff_t>(p.count * columns));
            }
            return packed;
        };
        const auto q = pack(q_, q_columns());
        auto rows_of = [&](const std::vector<float>& data, std::size_t columns) {
            return ConstRows{data.data(), static_cast<std::int64_t>(columns), rows,
                             static_cast<int>(columns)};
        };
        if (append) {
            const auto k = pack(k_, kv_columns());
            const auto v = pack(v_, kv_columns());
            kv_append(context, view(), layer, rows_of(k, kv_columns()), rows_of(v, kv_columns()),
                      sequences);
        }
        std::vector<float> out(q.size(), -99.0f);
        attention(context, view(), layer, q_heads(), scale(), rows_of(q, q_columns()),
                  {out.data(), static_cast<std::int64_t>(q_columns()), rows,
                   static_cast<int>(q_columns())},
                  sequences);
        return out;
    }

    SceneShape shape_;
    std::vector<int> lengths_;
    int shared_blocks_;
    KvGeometry geometry_{};
    std::size_t blocks_ = 0;
    std::vector<std::vector<BlockId>> tables_;
    std::vector<std::vector<float>> q_, k_, v_;
    AlignedBuffer pool_;
};

}  // namespace taproot::testing
