// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "worker/kv/block_io.h"

namespace taproot::testing {

// Pages as plain bytes.
class MemoryBlockIo final : public BlockIo {
public:
    MemoryBlockIo(std::uint32_t count, std::size_t bytes)
        : pages(count, std::vector<std::byte>(bytes)) {}

    [[nodiscard]] std::size_t block_bytes() const override { return pages[0].size(); }
    void read_block(BlockId from, std::span<std::byte> to) const override {
        std::copy(pages[from.value].begin(), pages[from.value].end(), to.begin());
    }
    void write_block(std::span<const std::byte> from, BlockId to) override {
        std::copy(from.begin(), from.end(), pages[to.value].begin());
    }

    void fill(BlockId page, std::uint64_t seed) {
        Random random(seed);
        for (std::byte& byte : pages[page.value]) byte = static_cast<std::byte>(random.next());
    }

    std::vector<std::vector<std::byte>> pages;
};

}  // namespace taproot::testing
