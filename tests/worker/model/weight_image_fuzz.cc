// SPDX-License-Identifier: Apache-2.0
// Any bytes as the header of repacked weights, as they are and with a digest that fits them. What
// is accepted lies inside the image, and writing it again gives the bytes that were read.
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/assert.h"
#include "worker/model/weight_image.h"

namespace taproot {
namespace {

using Bytes = std::array<std::byte, WeightImageHeader::kBytes>;

void check(const Bytes& bytes, std::uint64_t image_bytes) {
    auto header = parse_weight_image_header(bytes, image_bytes);
    if (!header) return;
    TAPROOT_ASSERT(header->identity.payload_bytes <= image_bytes - WeightImageHeader::kBytes);
    Bytes again;
    write_weight_image_header(*header, again);
    TAPROOT_ASSERT(std::memcmp(again.data(), bytes.data(), 64) == 0);
}

}  // namespace
}  // namespace taproot

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace taproot;
    // 8 bytes of image size, then the header; what is missing is zero.
    std::uint64_t image_bytes = 0;
    std::memcpy(&image_bytes, data, std::min(size, sizeof image_bytes));
    Bytes bytes{};
    if (size > 8) std::memcpy(bytes.data(), data + 8, std::min(size - 8, bytes.size()));
    check(bytes, image_bytes);
    std::uint64_t digest = XXH3_64bits(bytes.data(), 56);
    std::memcpy(&bytes[56], &digest, sizeof digest);
    check(bytes, image_bytes);
    if (size > 8)
        parse_weight_image_header(std::as_bytes(std::span(data + 8, size - 8)), image_bytes)
            .ignore("only that it reads nothing outside");
    return 0;
}
