// SPDX-License-Identifier: Apache-2.0
// One tile of one kv head, straight at the instruction sets' functions: any number of rows, any
// limits. The plan would never ask for most of them together.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/aligned_buffer.h"
#include "kernels/attention.h"
#include "kernels/ops.h"
#include "tests/kernels/attention_scene.h"

namespace taproot {
namespace {

using testing::kAllKvDTypes;

constexpr float kUntouched = -99.0f;

struct TileResults {
    std::vector<float> max, sum, out;
};

// Eight blocks of stored tokens and up to 130 query rows with random limits.
class TileScene {
public:
    TileScene(KvDType dtype, int dims, int rows, std::uint64_t seed)
        : geometry_{1, 1, dims, dtype},
          pool_(static_cast<std::size_t>(geometry_.block_bytes()) * kTileGroups),
          scratch_(static_cast<std::size_t>(attention_scratch_floats(dims)) * sizeof(float)) {
        Random random(seed);
        const KvView view{pool_.data(), geometry_};
        for (std::uint32_t g = 0; g < kTileGroups; ++g) {
            k_planes_.push_back(view.block(BlockId{g}) + geometry_.k_offset(0, 0));
            v_planes_.push_back(view.block(BlockId{g}) + geometry_.v_offset(0, 0));
        }
        const auto tokens = static_cast<std::size_t>(kTileTokens * dims);
        const auto k = floats(tokens, random);
        const auto v = floats(tokens, random);
        for (int g = 0; g < kTileGroups; ++g) {
            ops_for(Isa::kRef).attention.append(
                {.k_plane = const_cast<std::byte*>(k_planes_[static_cast<std::size_t>(g)]),
                 .v_plane = const_cast<std::byte*>(v_planes_[static_cast<std::size_t>(g)]),
                 .k = k.data() + g * kBlockTokens * dims,
                 .v = v.data() + g * kBlockTokens * dims,
                 .k_stride = dims,
                 .v_stride = dims,
                 .slot = 0,
                 .count = kBlockTokens,
                 .head_dim = dims,
                 .dtype = dtype});
        }
        q_ = floats(static_cast<std::size_t>(rows * dims), random);
        for (int r = 0; r < rows; ++r) {
            // Full and empty rows come often; neighbours are often equal, as heads of a token are.
            const bool again = r > 0 && random.chance(0.4);
            limits_.push_back(again                ? limits_.back()
                              : random.chance(0.3) ? kTileTokens
                                                   : static_cast<int>(random.between(-3, 128)));
        }
    }

    // The first `rows` rows.
    TileResults run(Isa isa, int rows) {
        const int dims = geometry_.head_dim;
        TileResults to;
        to.max.assign(static_cast<std::size_t>(rows), kUntouched);
        to.sum.assign(static_cast<std::size_t>(rows), kUntouched);
        to.out.assign(static_cast<std::size_t>(rows * dims), kUntouched);
        ops_for(isa).attention.tile({.k = k_planes_.data(),
                                     .v = v_planes_.data(),
                                     .next_k = k_planes_.data(),
                                     .next_groups = kTileGroups / 2,
                                     .head_dim = dims,
                                     .dtype = geometry_.dtype,
                                     .rows = rows,
                                     .q = q_.data(),
                                     .limits = limits_.data(),
                                     .max = to.max.data(),
                                     .sum = to.sum.data(),
                                     .out = to.out.data(),
                                     .scratch = scratch_.as<float>()});
        return to;
    }
    const std::vector<int>& limits() const { return limits_; }

private:
    static std::vector<float> floats(std::size_t count, Random& random) {
        std::vector<float> values(count);
        for (float& v : values) v = static_cast<float>(random.unit() * 2 - 1);
        return values;
    }

    KvGeometry geometry_;
    AlignedBuffer pool_;
    AlignedBuffer scratch_;
    std::vector<const std::byte*> k_planes_;
    std::vector<const std::byte*> v_planes_;
    std::vector<float> q_;
    std::vector<int> limits_;
};

void expect_prefix(const std::vector<float>& got, const std::vector<float>& all,
                   const std::string& what) {
    for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(all[i]))
            << what << ": value " << i << " is " << got[i] << ", want " << all[i];
    }
}

TEST(AttentionTile, EveryNumberOfRowsGivesEachRowTheReferenceBits) {
    constexpr int kRowsMax = 130;  // beyond the rows that share one conversion
    for (KvDType dtype : kAllKvDTypes) {
        for (int dims : {16, 48, 128}) {
            TileScene scene(dtype, dims, kRowsMax, static_cast<std::uint64_t>(dims));
            const TileResults want = scene.run(Isa::kRef, kRowsMax);
            for (int r = 0; r < kRowsMax; ++r) {
                const bool seen = scene.limits()[static_cast<std::size_t>(r)] > 0;
                ASSERT_EQ(want.sum[static_cast<std::size_t>(r)] != kUntouched, seen) << "row " << r;
            }
            for (Isa isa : available_isas()) {
                if (isa == Isa::kRef) continue;
                for (int rows = 1; rows <= kRowsMax; ++rows) {
                    const TileResults got = scene.run(isa, rows);
                    const std::string what = std::string(to_string(isa)) + " " +
                                             std::string(to_string(dtype)) + " head_dim " +
                                             std::to_string(dims) + " rows " + std::to_string(rows);
                    expect_prefix(got.max, want.max, what + " max");
                    expect_prefix(got.sum, want.sum, what + " sum");
                    expect_prefix(got.out, want.out, what + " out");
                    if (HasFatalFailure()) return;
                }
            }
        }
    }
}

}  // namespace
}  // namespace taproot
