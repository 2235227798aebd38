// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/roof_ops.h"

namespace taproot::ref {
namespace {

constexpr int kLanes = 16;

float int8(std::int64_t rounds) {
    std::int32_t sums[kLanes] = {};
    std::int8_t a[kLanes];
    std::int8_t b[kLanes];
    for (int i = 0; i < kLanes; ++i) {
        a[i] = static_cast<std::int8_t>(i + 1);
        b[i] = static_cast<std::int8_t>(3 - i);
    }
    for (std::int64_t r = 0; r < rounds; ++r) {
        for (int i = 0; i < kLanes; ++i) sums[i] += a[i] * b[i];
        a[r % kLanes] = static_cast<std::int8_t>(r);
    }
    std::int32_t total = 0;
    for (std::int32_t sum : sums) total ^= sum;
    return static_cast<float>(total);
}

float fp32(std::int64_t rounds) {
    float sums[kLanes] = {};
    for (std::int64_t r = 0; r < rounds; ++r) {
        for (float& sum : sums) sum = sum * 0.999f + 1.0f;
    }
    float total = 0;
    for (float sum : sums) total += sum;
    return total;
}

float read(const std::byte* data, std::size_t bytes) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < bytes; i += sizeof total) {
        std::uint64_t word;
        std::memcpy(&word, data + i, sizeof word);
        total ^= word;
    }
    return static_cast<float>(total);
}

float read_streams(const std::byte* data, std::size_t bytes) {
    float total = 0;
    const std::size_t part = bytes / kReadStreams;
    for (std::size_t i = 0; i < part; i += 512) {
        for (int stream = 0; stream < kReadStreams; ++stream) {
            const std::byte* at = data + part * static_cast<std::size_t>(stream) + i;
            for (int k = 0; k < 512; k += 64) __builtin_prefetch(at + 1024 + k);
            total += read(at, 512);
        }
    }
    return total;
}

}  // namespace

const RoofOps& roof_ops() {
    static constexpr RoofOps kOps = {int8, 2 * kLanes, fp32, 2 * kLanes, read, read_streams};
    return kOps;
}

}  // namespace taproot::ref
