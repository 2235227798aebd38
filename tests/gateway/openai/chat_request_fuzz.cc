// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "gateway/openai/chat.h"
#include "gateway/openai/errors.h"

// Any bytes as a request body: it parses, or the error is a small valid answer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace taproot::gateway;
    std::string_view text(reinterpret_cast<const char*>(data), size);
    const taproot::config::Limits limits;
    auto check = [&](const auto& parsed) {
        if (parsed) {
            const GenerateSpec& spec = *parsed;
            if (spec.choices < 1 || spec.choices > limits.n) std::abort();
            if (!(spec.sampling.temperature >= 0 && spec.sampling.temperature <= 2)) std::abort();
            if (spec.stop.size() > limits.stop_strings) std::abort();
        } else if (error_body(to_api_error(parsed.error())).size() > 4096) {
            std::abort();
        }
    };
    check(parse_chat(text, limits));
    check(parse_completions(text, limits));
    return 0;
}
