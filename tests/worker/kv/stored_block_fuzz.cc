// SPDX-License-Identifier: Apache-2.0
// Any bytes as a stored block, as they are and with a checksum that fits them. What is accepted is
// sound, and encoding it again gives the bytes that were read.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "base/assert.h"
#include "worker/kv/stored_block.h"

namespace taproot {
namespace {

constexpr std::size_t kChecksumAt = 128;

void check(std::span<const std::byte> bytes) {
    StoredBlock block;
    std::span<const std::byte> payload;
    StoredBlockFault fault = decode_stored_block(bytes, block, payload);
    TAPROOT_ASSERT(fault < StoredBlockFault::kOtherModel);
    if (fault != StoredBlockFault::kNone) {
        TAPROOT_ASSERT(block == StoredBlock{} && payload.empty());
        return;
    }
    TAPROOT_ASSERT(payload.size() == bytes.size() - kStoredBlockHeaderBytes);
    TAPROOT_ASSERT(block.valid_tokens >= 1 && block.valid_tokens <= kBlockTokens);
    std::vector<std::byte> again(bytes.size());
    encode_stored_block(block, payload, again);
    TAPROOT_ASSERT(std::memcmp(again.data(), bytes.data(), bytes.size()) == 0);
    TAPROOT_ASSERT(compare_stored_block(block, block) == StoredBlockFault::kNone);
}

}  // namespace
}  // namespace taproot

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace taproot;
    std::vector<std::byte> bytes(size);  // exactly as long, so that a read beyond is seen
    if (size > 0) std::memcpy(bytes.data(), data, size);
    check(bytes);
    if (size < kStoredBlockHeaderBytes) return 0;
    std::vector<std::byte> covered(bytes);
    covered.erase(covered.begin() + kChecksumAt, covered.begin() + kStoredBlockHeaderBytes);
    XXH128_hash_t sum = XXH3_128bits(covered.data(), covered.size());
    std::memcpy(&bytes[kChecksumAt], &sum.low64, 8);
    std::memcpy(&bytes[kChecksumAt + 8], &sum.high64, 8);
    check(bytes);
    return 0;
}
