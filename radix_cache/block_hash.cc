// SPDX-License-Identifier: Apache-2.0
#include "radix_cache/block_hash.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace taproot {

static_assert(std::endian::native == std::endian::little,
              "tokens are hashed as little-endian int32; a big-endian build must swap them");

namespace {

// "taproot" in ASCII: the seed of roots. Blocks are seeded with their parent's hash and their bytes
// come in whole tokens of a block, so a root and a block hash the same input only by design error.
constexpr std::uint64_t kRootSeed = 0x00746F6F72706174ull;

}  // namespace

BlockHash root_hash(std::uint64_t salt) {
    return BlockHash{XXH3_64bits_withSeed(&salt, sizeof salt, kRootSeed)};
}

BlockHash hash_block(BlockHash parent, std::span<const TokenId> tokens) {
    return BlockHash{XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent.value)};
}

void hash_blocks(std::uint64_t salt, std::span<const TokenId> tokens, int block_tokens,
                 std::vector<BlockHash>& out) {
    TAPROOT_ASSERT(block_tokens > 0);
    const auto size = static_cast<std::size_t>(block_tokens);
    out.clear();
    out.reserve(tokens.size() / size);
    BlockHash last = root_hash(salt);
    for (; tokens.size() >= size; tokens = tokens.subspan(size)) {
        last = hash_block(last, tokens.first(size));
        out.push_back(last);
    }
}

BlockHasher::BlockHasher(std::uint64_t salt, int block_tokens)
    : last_(root_hash(salt)), block_tokens_(block_tokens) {
    TAPROOT_ASSERT(block_tokens > 0);
    open_.reserve(static_cast<std::size_t>(block_tokens));
}

void BlockHasher::append(std::span<const TokenId> tokens) {
    const auto size = static_cast<std::size_t>(block_tokens_);
    while (!tokens.empty()) {
        std::span<const TokenId> block = tokens;
        if (open_.empty() && tokens.size() >= size) {  // a whole block: hash it where it lies
            block = tokens.first(size);
            tokens = tokens.subspan(size);
        } else {
            const std::size_t taken = std::min(size - open_.size(), tokens.size());
            open_.insert(open_.end(), tokens.begin(),
                         tokens.begin() + static_cast<std::ptrdiff_t>(taken));
            tokens = tokens.subspan(taken);
            if (open_.size() < size) return;
            block = open_;
        }
        last_ = hash_block(last_, block);
        hashes_.push_back(last_);
        open_.clear();
    }
}

}  // namespace taproot
