// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/types.h"

namespace taproot {

// Whose KV: blocks are exchanged only between equal identities.
struct KvIdentity {
    std::uint64_t model_digest = 0;   // of the model file (LoadedModel::digest)
    std::uint64_t layout_digest = 0;  // of a page (CpuExecutor::kv_layout_digest)

    friend bool operator==(const KvIdentity&, const KvIdentity&) = default;
};

// What a stored page of KV claims to be: everything that decides its bits.
struct StoredBlock {
    KvIdentity identity;
    std::uint64_t salt = 0;
    BlockHash parent{};                          // of the block before it, or the root of the salt
    BlockHash hash{};                            // its own name, under which it is kept
    std::uint32_t valid_tokens = kBlockTokens;   // [1, kBlockTokens]
    std::array<TokenId, kBlockTokens> tokens{};  // zero from valid_tokens on

    friend bool operator==(const StoredBlock&, const StoredBlock&) = default;
};

// The block named `hash` that holds `tokens` (1 to kBlockTokens of them) after `parent`.
[[nodiscard]] StoredBlock make_stored_block(const KvIdentity& identity, std::uint64_t salt,
                                            BlockHash parent, BlockHash hash,
                                            std::span<const TokenId> tokens);

// Why stored bytes are not what was asked for. Each is a miss: the block is computed again.
enum class StoredBlockFault : std::uint8_t {
    kNone,
    kTruncated,     // fewer bytes than a header, or than the header promises
    kBadMagic,      // something else
    kOtherVersion,  // of another format
    kBadLength,     // more bytes than the header promises
    kBadChecksum,   // damaged
    kBadHeader,     // undamaged, but nothing that we write (token counts)
    kOtherModel,    // from here on: a sound block, but not the wanted one
    kOtherLayout,
    kOtherSalt,
    kOtherParent,
    kOtherHash,
    kOtherTokens,
};
inline constexpr std::size_t kStoredBlockFaults = 13;  // kNone included
// "truncated", "other_salt": the label of a metric.
[[nodiscard]] const char* to_string(StoredBlockFault fault);
// The bytes are at fault, not the question: they will never be right again.
[[nodiscard]] constexpr bool is_damage(StoredBlockFault fault) {
    return fault != StoredBlockFault::kNone && fault < StoredBlockFault::kOtherModel;
}

// A block of KV as bytes, in RocksDB or any other place that outlives the process:
//
//   0    "TAPROOTB"            24  layout digest, u64     56   payload bytes, u64
//   8    version, u32          32  salt, u64              64   token ids, i32[16]
//   12   valid tokens, u32     40  parent hash, u64       128  XXH3-128 of bytes 0..127 and of the
//   16   model digest, u64     48  own hash, u64               payload: low, high u64
//   144  payload: one page, all layers
//
// Little-endian. Every bit is covered by the checksum, so a flipped one is always found
// (tests/worker/kv/stored_block_test.cc). XXH3 is no defence against somebody who may write the
// directory; that directory is private. Pure functions, any thread; cost: one pass over the payload
// at memory speed.
inline constexpr std::uint32_t kStoredBlockVersion = 1;
inline constexpr std::size_t kStoredBlockHeaderBytes = 144;

// The header of `block` with `payload`. valid_tokens must be in its range, tokens beyond it zero.
void write_stored_block_header(const StoredBlock& block, std::span<const std::byte> payload,
                               std::span<std::byte, kStoredBlockHeaderBytes> out);
// Header and payload; `out` holds kStoredBlockHeaderBytes + payload.size().
void encode_stored_block(const StoredBlock& block, std::span<const std::byte> payload,
                         std::span<std::byte> out);

// Checks `bytes` and reads them. On kNone, `block` and `payload` (a part of `bytes`) are set;
// otherwise both are unchanged. Never answers one of the kOther... faults but kOtherVersion.
[[nodiscard]] StoredBlockFault decode_stored_block(std::span<const std::byte> bytes,
                                                   StoredBlock& block,
                                                   std::span<const std::byte>& payload);
// The header alone, unchecked but for what it is, its version and its counts: for a list of what a
// store holds. decode_stored_block() decides.
[[nodiscard]] StoredBlockFault read_stored_block_header(std::span<const std::byte> header,
                                                        StoredBlock& block,
                                                        std::uint64_t& payload_bytes);
// kNone when `stored` is exactly `wanted`, otherwise the first difference.
[[nodiscard]] StoredBlockFault compare_stored_block(const StoredBlock& stored,
                                                    const StoredBlock& wanted);

}  // namespace taproot
