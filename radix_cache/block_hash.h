// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace taproot {

// A block's name: a 64-bit hash chained over everything before it, so that equal names mean equal
// tokens from the root on.
//
//     salt ──> root ──> h0 = H(root, tokens 0..15) ──> h1 = H(h0, tokens 16..31) ──> ...
//
// H(parent, tokens) = XXH3-64 of the tokens as little-endian int32, seeded with the parent. The
// root is XXH3-64 of the salt's 8 bytes under a seed of its own, so a tenant's chain never meets
// another's. Gateway and worker must agree bit for bit: tests/radix_cache/block_hash_test.cc pins
// the values. XXH3 is fast, not cryptographic: a hash routes, tokens decide (radix_tree.h).
//
// Cost: about 10 ns per block of 16 tokens. Pure functions, any thread.
[[nodiscard]] BlockHash root_hash(std::uint64_t salt);
[[nodiscard]] BlockHash hash_block(BlockHash parent, std::span<const TokenId> tokens);

// Hashes of the full blocks of `tokens`, in order, into `out` (replaced, memory reused). A last
// block that is not full has no hash. block_tokens > 0.
void hash_blocks(std::uint64_t salt, std::span<const TokenId> tokens, int block_tokens,
                 std::vector<BlockHash>& out);

// The same for a sequence that grows: each token is hashed once.
// Owner: one thread. Invariant: hashes() equals hash_blocks() of everything appended so far.
class BlockHasher {
public:
    explicit BlockHasher(std::uint64_t salt, int block_tokens = kBlockTokens);

    void append(std::span<const TokenId> tokens);

    [[nodiscard]] std::span<const BlockHash> hashes() const { return hashes_; }  // full blocks
    [[nodiscard]] std::size_t tokens() const {                                   // appended so far
        return hashes_.size() * static_cast<std::size_t>(block_tokens_) + open_.size();
    }

private:
    BlockHash last_;  // of the newest full block, or the root
    int block_tokens_;
    std::vector<BlockHash> hashes_;
    std::vector<TokenId> open_;  // the block being filled, always shorter than block_tokens_
};

}  // namespace taproot
