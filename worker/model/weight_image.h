// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace taproot {

// Which repacked weights: equal identities mean equal bytes.
struct WeightIdentity {
    std::uint64_t model_digest = 0;   // of the model file (LoadedModel::digest)
    std::uint64_t model_bytes = 0;    // its size
    std::uint64_t layout_digest = 0;  // which matrix lies where, and in what type
    std::uint64_t payload_bytes = 0;  // all matrices

    friend bool operator==(const WeightIdentity&, const WeightIdentity&) = default;
};

// Repacked weights as a file, or as memory that workers share:
//
//   0     "TAPROOTW"                    32  layout digest, u64
//   8     version, u32                  40  payload bytes, u64
//   12    payload offset, u32 = 4096    48  payload digest, u64
//   16    model digest, u64             56  XXH3-64 of bytes 0..55
//   24    model bytes, u64              64  zeros
//   4096  payload: the matrices in the order in which a step reads them
//
// Little-endian. The panels are those of kernels/README.md, the same for every instruction set. The
// header is written last, so a file or memory without a right one was never finished.
struct WeightImageHeader {
    static constexpr std::uint32_t kVersion = 1;
    static constexpr std::size_t kBytes = 4096;  // also where the payload begins

    WeightIdentity identity;
    std::uint64_t payload_digest = 0;  // 0 where nobody checks it (shared memory)
};

// `out` holds WeightImageHeader::kBytes.
void write_weight_image_header(const WeightImageHeader& header, std::span<std::byte> out);

// `start` is the beginning of an image of `image_bytes` in all. kInvalidArgument with the reason:
// too short, another kind of file, another version, damaged, or cut off.
Result<WeightImageHeader> parse_weight_image_header(std::span<const std::byte> start,
                                                    std::uint64_t image_bytes);

}  // namespace taproot
