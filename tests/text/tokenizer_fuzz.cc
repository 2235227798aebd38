// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/tiny_text_model.h"
#include "text/detokenizer.h"
#include "text/prefix_token_cache.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

// Input: one byte chooses the pre-tokenizer, one says how spans are cut, the rest is text.
// Oracles: bytes come back, no control id out of untrusted text, the cache agrees, the detokenizer
// only ever shows whole characters.
namespace {

using taproot::TextSpan;
using taproot::TokenId;
using taproot::Tokenizer;

constexpr const char* kPres[] = {"smollm", "llama-bpe", "qwen2",   "gpt-2",      "qwen35",
                                 "gpt-4o", "tekken",    "default", "deepseek-v3"};

void must(bool condition) {
    if (!condition) std::abort();
}

struct World {
    Tokenizer tokenizer;
    taproot::PrefixTokenCache cache{tokenizer, 1 << 16};
    explicit World(const char* pre)
        : tokenizer(*Tokenizer::build(taproot::testing::chat_text_model(pre).model())) {}
};

World& world(std::size_t which) {
    static const auto worlds = [] {
        std::vector<std::unique_ptr<World>> made;
        for (const char* pre : kPres) made.push_back(std::make_unique<World>(pre));
        return made;
    }();
    return *worlds[which % worlds.size()];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    World& w = world(data[0]);
    const std::size_t span_bytes = 1 + data[1] % 64;
    const std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
    static Tokenizer::Scratch scratch;

    std::vector<TokenId> plain;
    w.tokenizer.encode(text, false, &plain, scratch);
    must(*w.tokenizer.decode(plain, false) == text);
    for (const TokenId id : plain) must(!w.tokenizer.is_control(id));

    std::vector<TextSpan> spans;
    for (std::size_t pos = 0; pos < text.size(); pos += span_bytes)
        spans.push_back({std::string_view(text).substr(pos, span_bytes), spans.size() % 2 == 0});
    std::vector<TokenId> mixed;
    w.tokenizer.encode_pieces(spans, &mixed, scratch);
    must(*w.tokenizer.decode(mixed, false) == text);
    for (int twice = 0; twice < 2; ++twice) {
        std::vector<TokenId> cached;
        w.cache.encode_pieces(spans, &cached, scratch);
        must(cached == mixed);
    }

    taproot::Detokenizer detokenizer(w.tokenizer.vocab(), {.skip_special_tokens = false});
    std::string out;
    for (const TokenId id : mixed) {
        detokenizer.push(id, &out);
        must(taproot::is_valid_utf8(out));
    }
    detokenizer.flush(&out);
    must(!taproot::is_valid_utf8(text) || out == text);
    return 0;
}
