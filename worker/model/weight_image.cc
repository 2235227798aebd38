// SPDX-License-Identifier: Apache-2.0
#include "worker/model/weight_image.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "base/assert.h"

namespace taproot {
namespace {

constexpr char kMagic[8] = {'T', 'A', 'P', 'R', 'O', 'O', 'T', 'W'};

struct Stored {
    char magic[8];
    std::uint32_t version;
    std::uint32_t payload_offset;
    std::uint64_t model_digest;
    std::uint64_t model_bytes;
    std::uint64_t layout_digest;
    std::uint64_t payload_bytes;
    std::uint64_t payload_digest;
    std::uint64_t header_digest;
};
static_assert(sizeof(Stored) == 64 && std::endian::native == std::endian::little);

std::uint64_t digest_of(const Stored& stored) {
    return XXH3_64bits(&stored, offsetof(Stored, header_digest));
}

}  // namespace

void write_weight_image_header(const WeightImageHeader& header, std::span<std::byte> out) {
    TAPROOT_ASSERT(out.size() == WeightImageHeader::kBytes);
    Stored stored{};
    std::memcpy(stored.magic, kMagic, sizeof kMagic);
    stored.version = WeightImageHeader::kVersion;
    stored.payload_offset = static_cast<std::uint32_t>(WeightImageHeader::kBytes);
    stored.model_digest = header.identity.model_digest;
    stored.model_bytes = header.identity.model_bytes;
    stored.layout_digest = header.identity.layout_digest;
    stored.payload_bytes = header.identity.payload_bytes;
    stored.payload_digest = header.payload_digest;
    stored.header_digest = digest_of(stored);
    std::memset(out.data(), 0, out.size());
    std::memcpy(out.data(), &stored, sizeof stored);
}

Result<WeightImageHeader> parse_weight_image_header(std::span<const std::byte> start,
                                                    std::uint64_t image_bytes) {
    if (start.size() < WeightImageHeader::kBytes || image_bytes < WeightImageHeader::kBytes)
        return invalid_argument(fmt::format("has {} bytes, fewer than a header", image_bytes));
    Stored stored;
    std::memcpy(&stored, start.data(), sizeof stored);
    if (std::memcmp(stored.magic, kMagic, sizeof kMagic) != 0)
        return invalid_argument("does not hold repacked weights");
    if (stored.version != WeightImageHeader::kVersion)
        return invalid_argument(fmt::format("is of version {}, this program reads {}",
                                            stored.version, WeightImageHeader::kVersion));
    if (stored.header_digest != digest_of(stored) ||
        stored.payload_offset != WeightImageHeader::kBytes)
        return invalid_argument("has a damaged header");
    if (stored.payload_bytes > image_bytes - WeightImageHeader::kBytes)
        return invalid_argument(fmt::format("is cut off: {} bytes of weights in {} bytes",
                                            stored.payload_bytes, image_bytes));
    WeightImageHeader header;
    header.identity = {stored.model_digest, stored.model_bytes, stored.layout_digest,
                       stored.payload_bytes};
    header.payload_digest = stored.payload_digest;
    return header;
}

}  // namespace taproot
