// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/types.h"

namespace taproot {

// Where a block's KV lies.
enum class KvTier : std::uint8_t { kDevice = 0, kRam = 1, kDisk = 2 };

// A worker's news about which full blocks it holds. Numbered per epoch (see link KvEventBatch), so
// a reader notices a gap and asks for a snapshot; nothing is ever inferred. A block is named by its
// chained hash: equal hashes mean equal tokens from the root on.
struct KvStored {
    BlockHash hash;
    BlockHash parent;  // the salt's root hash for a first block
    KvTier tier = KvTier::kDevice;
    friend bool operator==(const KvStored&, const KvStored&) = default;
};
struct KvRemoved {
    BlockHash hash;
    KvTier tier = KvTier::kDevice;
    friend bool operator==(const KvRemoved&, const KvRemoved&) = default;
};
struct KvCleared {  // everything of this worker, all tiers
    friend bool operator==(const KvCleared&, const KvCleared&) = default;
};
using KvEvent = std::variant<KvStored, KvRemoved, KvCleared>;

}  // namespace taproot
