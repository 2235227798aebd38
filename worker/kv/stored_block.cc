// SPDX-License-Identifier: Apache-2.0
#include "worker/kv/stored_block.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"

namespace taproot {
namespace {

constexpr char kMagic[8] = {'T', 'A', 'P', 'R', 'O', 'O', 'T', 'B'};

struct Stored {
    char magic[8];
    std::uint32_t version;
    std::uint32_t valid_tokens;
    std::uint64_t model_digest;
    std::uint64_t layout_digest;
    std::uint64_t salt;
    std::uint64_t parent;
    std::uint64_t hash;
    std::uint64_t payload_bytes;
    std::int32_t tokens[kBlockTokens];
    std::uint64_t checksum_low;
    std::uint64_t checksum_high;
};
static_assert(sizeof(Stored) == kStoredBlockHeaderBytes);
static_assert(std::endian::native == std::endian::little);
static_assert(kBlockTokens == 16, "another block size is another format");

XXH128_hash_t checksum_of(const Stored& stored, std::span<const std::byte> payload) {
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    XXH3_128bits_update(&state, &stored, offsetof(Stored, checksum_low));
    XXH3_128bits_update(&state, payload.data(), payload.size());
    return XXH3_128bits_digest(&state);
}

// What must hold before any other field means something.
StoredBlockFault load(std::span<const std::byte> bytes, Stored& stored) {
    if (bytes.size() < kStoredBlockHeaderBytes) return StoredBlockFault::kTruncated;
    std::memcpy(&stored, bytes.data(), sizeof stored);
    if (std::memcmp(stored.magic, kMagic, sizeof kMagic) != 0) return StoredBlockFault::kBadMagic;
    if (stored.version != kStoredBlockVersion) return StoredBlockFault::kOtherVersion;
    return StoredBlockFault::kNone;
}

StoredBlock block_of(const Stored& stored) {
    StoredBlock block;
    block.identity = {stored.model_digest, stored.layout_digest};
    block.salt = stored.salt;
    block.parent = BlockHash{stored.parent};
    block.hash = BlockHash{stored.hash};
    block.valid_tokens = stored.valid_tokens;
    std::copy(std::begin(stored.tokens), std::end(stored.tokens), block.tokens.begin());
    return block;
}

bool tokens_are_sound(const Stored& stored) {
    if (stored.valid_tokens < 1 || stored.valid_tokens > kBlockTokens) return false;
    return std::all_of(std::begin(stored.tokens) + stored.valid_tokens, std::end(stored.tokens),
                       [](std::int32_t token) { return token == 0; });
}

}  // namespace

StoredBlock make_stored_block(const KvIdentity& identity, std::uint64_t salt, BlockHash parent,
                              BlockHash hash, std::span<const TokenId> tokens) {
    TAPROOT_ASSERT(!tokens.empty() && tokens.size() <= kBlockTokens);
    StoredBlock block;
    block.identity = identity;
    block.salt = salt;
    block.parent = parent;
    block.hash = hash;
    block.valid_tokens = static_cast<std::uint32_t>(tokens.size());
    std::copy(tokens.begin(), tokens.end(), block.tokens.begin());
    return block;
}

const char* to_string(StoredBlockFault fault) {
    switch (fault) {
        case StoredBlockFault::kNone:
            return "none";
        case StoredBlockFault::kTruncated:
            return "truncated";
        case StoredBlockFault::kBadMagic:
            return "bad_magic";
        case StoredBlockFault::kOtherVersion:
            return "other_version";
        case StoredBlockFault::kBadLength:
            return "bad_length";
        case StoredBlockFault::kBadChecksum:
            return "bad_checksum";
        case StoredBlockFault::kBadHeader:
            return "bad_header";
        case StoredBlockFault::kOtherModel:
            return "other_model";
        case StoredBlockFault::kOtherLayout:
            return "other_layout";
        case StoredBlockFault::kOtherSalt:
            return "other_salt";
        case StoredBlockFault::kOtherParent:
            return "other_parent";
        case StoredBlockFault::kOtherHash:
            return "other_hash";
        case StoredBlockFault::kOtherTokens:
            return "other_tokens";
    }
    return "unknown";
}

void write_stored_block_header(const StoredBlock& block, std::span<const std::byte> payload,
                               std::span<std::byte, kStoredBlockHeaderBytes> out) {
    Stored stored{};
    std::memcpy(stored.magic, kMagic, sizeof kMagic);
    stored.version = kStoredBlockVersion;
    stored.valid_tokens = block.valid_tokens;
    stored.model_digest = block.identity.model_digest;
    stored.layout_digest = block.identity.layout_digest;
    stored.salt = block.salt;
    stored.parent = block.parent.value;
    stored.hash = block.hash.value;
    stored.payload_bytes = payload.size();
    std::copy(block.tokens.begin(), block.tokens.end(), stored.tokens);
    TAPROOT_ASSERT(tokens_are_sound(stored));
    XXH128_hash_t checksum = checksum_of(stored, payload);
    stored.checksum_low = checksum.low64;
    stored.checksum_high = checksum.high64;
    std::memcpy(out.data(), &stored, sizeof stored);
}

void encode_stored_block(const StoredBlock& block, std::span<const std::byte> payload,
                         std::span<std::byte> out) {
    TAPROOT_ASSERT(out.size() == kStoredBlockHeaderBytes + payload.size());
    write_stored_block_header(block, payload, out.first<kStoredBlockHeaderBytes>());
    std::copy(payload.begin(), payload.end(), out.begin() + kStoredBlockHeaderBytes);
}

StoredBlockFault decode_stored_block(std::span<const std::byte> bytes, StoredBlock& block,
                                     std::span<const std::byte>& payload) {
    Stored stored;
    if (StoredBlockFault fault = load(bytes, stored); fault != StoredBlockFault::kNone)
        return fault;
    auto rest = bytes.subspan(kStoredBlockHeaderBytes);
    if (stored.payload_bytes > rest.size()) return StoredBlockFault::kTruncated;
    if (stored.payload_bytes < rest.size()) return StoredBlockFault::kBadLength;
    XXH128_hash_t checksum = checksum_of(stored, rest);
    if (stored.checksum_low != checksum.low64 || stored.checksum_high != checksum.high64)
        return StoredBlockFault::kBadChecksum;
    if (!tokens_are_sound(stored)) return StoredBlockFault::kBadHeader;
    block = block_of(stored);
    payload = rest;
    return StoredBlockFault::kNone;
}

StoredBlockFault read_stored_block_header(std::span<const std::byte> header, StoredBlock& block,
                                          std::uint64_t& payload_bytes) {
    Stored stored;
    if (StoredBlockFault fault = load(header, stored); fault != StoredBlockFault::kNone)
        return fault;
    if (!tokens_are_sound(stored)) return StoredBlockFault::kBadHeader;
    block = block_of(stored);
    payload_bytes = stored.payload_bytes;
    return StoredBlockFault::kNone;
}

StoredBlockFault compare_stored_block(const StoredBlock& stored, const StoredBlock& wanted) {
    if (stored.identity.model_digest != wanted.identity.model_digest)
        return StoredBlockFault::kOtherModel;
    if (stored.identity.layout_digest != wanted.identity.layout_digest)
        return StoredBlockFault::kOtherLayout;
    if (stored.salt != wanted.salt) return StoredBlockFault::kOtherSalt;
    if (stored.parent != wanted.parent) return StoredBlockFault::kOtherParent;
    if (stored.hash != wanted.hash) return StoredBlockFault::kOtherHash;
    if (stored.valid_tokens != wanted.valid_tokens || stored.tokens != wanted.tokens)
        return StoredBlockFault::kOtherTokens;
    return StoredBlockFault::kNone;
}

}  // namespace taproot
