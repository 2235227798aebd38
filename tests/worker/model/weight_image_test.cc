// SPDX-License-Identifier: Apache-2.0
#include "worker/model/weight_image.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>

namespace taproot {
namespace {

using Bytes = std::array<std::byte, WeightImageHeader::kBytes>;

constexpr WeightImageHeader kHeader{{0x1122334455667788, 98'362'432, 77, 96'000'000}, 42};
constexpr std::uint64_t kImageBytes = WeightImageHeader::kBytes + 96'000'000;

Bytes written() {
    Bytes bytes;
    bytes.fill(std::byte{0xEE});
    write_weight_image_header(kHeader, bytes);
    return bytes;
}

TEST(WeightImage, ReadsBackWhatItWrote) {
    Bytes bytes = written();
    auto header = parse_weight_image_header(bytes, kImageBytes);
    ASSERT_TRUE(header) << header.error().describe();
    EXPECT_EQ(header->identity, kHeader.identity);
    EXPECT_EQ(header->payload_digest, 42u);
    EXPECT_TRUE(parse_weight_image_header(bytes, kImageBytes + 2'000'000));  // whole pages follow
}

// The layout on disk: a change needs a new version.
TEST(WeightImage, FieldsLieWhereTheHeaderSays) {
    Bytes bytes = written();
    EXPECT_EQ(std::memcmp(bytes.data(), "TAPROOTW\x01\0\0\0\0\x10\0\0", 16), 0);
    EXPECT_EQ(std::memcmp(&bytes[16], "\x88\x77\x66\x55\x44\x33\x22\x11", 8), 0);
    EXPECT_EQ(bytes[32], std::byte{77});
    EXPECT_EQ(bytes[48], std::byte{42});
    for (std::size_t i = 64; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], std::byte{0});
}

TEST(WeightImage, RefusesWhatIsNotAFinishedImage) {
    struct Refusal {
        std::function<void(Bytes&)> damage;
        std::uint64_t image_bytes;
        const char* says;
    };
    const Refusal refusals[] = {
        {[](Bytes&) {}, 4095, "has 4095 bytes"},
        {[](Bytes&) {}, 0, "has 0 bytes"},
        {[](Bytes& b) { b.fill(std::byte{0}); }, kImageBytes, "does not hold"},
        {[](Bytes& b) { std::memcpy(b.data(), "GGUF", 4); }, kImageBytes, "does not hold"},
        {[](Bytes& b) { b[8] = std::byte{9}; }, kImageBytes, "version 9"},
        {[](Bytes& b) { b[12] = std::byte{64}; }, kImageBytes, "damaged header"},
        {[](Bytes&) {}, kImageBytes - 1, "cut off"},
        {[](Bytes&) {}, 4096, "cut off"},
    };
    for (const Refusal& refusal : refusals) {
        Bytes bytes = written();
        refusal.damage(bytes);
        auto header = parse_weight_image_header(bytes, refusal.image_bytes);
        ASSERT_FALSE(header) << refusal.says;
        EXPECT_EQ(header.error().code, ErrorCode::kInvalidArgument);
        EXPECT_NE(header.error().message.find(refusal.says), std::string::npos)
            << header.error().message;
    }
    Bytes bytes = written();
    EXPECT_FALSE(parse_weight_image_header(std::span(bytes).first(100), kImageBytes));
    EXPECT_FALSE(parse_weight_image_header({}, kImageBytes));
}

TEST(WeightImage, OneFlippedBitIsFound) {
    for (std::size_t bit = 0; bit < 64 * 8; ++bit) {
        Bytes bytes = written();
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        EXPECT_FALSE(parse_weight_image_header(bytes, kImageBytes)) << "bit " << bit;
    }
}

}  // namespace
}  // namespace taproot
