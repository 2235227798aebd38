// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "base/types.h"

namespace taproot {

// The bytes of a KV page, for whoever keeps copies of it elsewhere. What they mean is known to the
// executor alone (its layout digest); equal bytes give equal results.
// Owner: the engine thread, between two steps.
class BlockIo {
public:
    virtual ~BlockIo() = default;

    [[nodiscard]] virtual std::size_t block_bytes() const = 0;  // of every page; > 0
    // to.size() and from.size() are block_bytes().
    virtual void read_block(BlockId from, std::span<std::byte> to) const = 0;
    virtual void write_block(std::span<const std::byte> from, BlockId to) = 0;
};

}  // namespace taproot
