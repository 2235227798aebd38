// SPDX-License-Identifier: Apache-2.0
// The first byte chooses the decoder; the rest are its bytes. What decodes must encode to something
// that decodes to the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "link/codec.h"

namespace taproot::link {
namespace {

template <typename Decode>
void check_messages(std::string_view frame, Decode decode) {
    while (!frame.empty()) {
        auto message = decode(frame);
        if (!message) return;
        std::string bytes;
        encode(*message, bytes);
        std::string_view again = bytes;
        auto twice = decode(again);
        TAPROOT_ASSERT(twice.has_value());
        TAPROOT_ASSERT(again.empty());
        TAPROOT_ASSERT(*twice == *message);
    }
}

void check_text_model(std::string_view bytes) {
    auto model = decode_text_model(bytes);
    if (!model) return;
    auto twice = decode_text_model(encode_text_model(*model));
    TAPROOT_ASSERT(twice.has_value());
    TAPROOT_ASSERT(*twice == *model);
}

}  // namespace
}  // namespace taproot::link

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
    if (data[0] % 3 == 0) taproot::link::check_messages(bytes, taproot::link::decode_to_gateway);
    if (data[0] % 3 == 1) taproot::link::check_messages(bytes, taproot::link::decode_to_worker);
    if (data[0] % 3 == 2) taproot::link::check_text_model(bytes);
    return 0;
}
