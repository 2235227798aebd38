// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/strong_id.h"

namespace taproot {

// A vocabulary index. A plain integer, not a StrongId: arrays of them are hashed, sent and indexed
// by the million, and every reader outside (GGUF, the API, MessagePack) has int32.
using TokenId = std::int32_t;

using BlockId = StrongId<struct BlockIdTag, std::uint32_t>;      // a KV page of one worker's pool
using WorkerId = StrongId<struct WorkerIdTag, std::uint32_t>;    // index in the gateway's fleet
using RequestId = StrongId<struct RequestIdTag, std::uint64_t>;  // unique per gateway link
using BlockHash =
    StrongId<struct BlockHashTag, std::uint64_t>;  // chained over tokens, see block_hash.h

// Tokens in one KV block, everywhere: pool pages, hashes, events. Tests may use smaller blocks
// where a class takes the size as a parameter.
inline constexpr int kBlockTokens = 16;

}  // namespace taproot
