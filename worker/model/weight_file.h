// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"
#include "worker/model/huge_mapping.h"
#include "worker/model/weight_image.h"

namespace taproot {

struct OpenWeightFile {
    HugeMapping mapping;  // the whole file, read-only
    std::uint64_t payload_digest = 0;
};

// Maps a finished file of exactly these weights. Errors, each with the reason: kNotFound, kIo,
// kInvalidArgument (damaged header, another version, other weights). The payload is not read.
Result<OpenWeightFile> open_weight_file(const std::filesystem::path& path,
                                        const WeightIdentity& identity);

// Writes header and payload to `path`.tmp, flushes them to the disk and renames: readers see the
// old file or the whole new one, and those that have the old one mapped keep it. `mode`: its
// permissions. Errors: kIo, kUnavailable (not enough space; or another process is writing it now).
Result<void> write_weight_file(const std::filesystem::path& path, std::uint32_t mode,
                               const WeightImageHeader& header, std::span<const std::byte> payload);

}  // namespace taproot
