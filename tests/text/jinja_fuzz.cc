// SPDX-License-Identifier: Apache-2.0
// Bytes as a template: parsing and rendering end in text or an error, within the limits. The first
// byte chooses strict or lenient and whether the template is run as a chat template.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/assert.h"
#include "text/chat_template.h"
#include "text/jinja/json.h"
#include "text/jinja/template.h"

namespace {

using namespace taproot;         // NOLINT
using namespace taproot::jinja;  // NOLINT

const Value& context() {
    static const Value value =
        *parse_json(R"({"messages": [{"role": "user", "content": "hi <|im_end|>"},
            {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}],
            "tools": [{"type": "function", "function": {"name": "f"}}], "s": "Hello é 日本", "l": [3, 1, 2],
            "d": {"a": 1, "b": [true, null, 1.5]}, "n": null, "f": 2.5, "i": 7, "add_generation_prompt": true})",
                    Origin::kUser);
    return value;
}

void check(const Text& text) {
    std::size_t bytes = 0;
    bool first = true;
    Origin before = Origin::kTemplate;
    text.for_each_run([&](std::string_view run, Origin origin) {
        TAPROOT_ASSERT(!run.empty());
        TAPROOT_ASSERT(first || origin != before);
        first = false;
        before = origin;
        bytes += run.size();
    });
    TAPROOT_ASSERT(bytes == text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view source(reinterpret_cast<const char*>(data) + 1, size - 1);
    if ((data[0] & 2) != 0) {
        parse_json(source, Origin::kUser).ignore("any answer is fine");
    }
    if ((data[0] & 4) != 0) {
        const auto compiled = ChatTemplate::compile(std::string(source), {"<s>", "</s>", {}});
        if (!compiled) return 0;
        ChatRequest request;
        request.messages = *context().find("messages");
        compiled->render(request).ignore("any answer is fine");
        return 0;
    }
    const auto parsed = Template::parse(source);
    if (!parsed) return 0;
    RenderOptions options;
    options.strict_sandbox = (data[0] & 1) != 0;
    options.limits.steps = 20'000;
    options.limits.work_bytes = 1 << 22;
    options.limits.output_bytes = 1 << 20;
    const auto text = parsed->render(context(), options);
    if (text) check(*text);
    return 0;
}
