// SPDX-License-Identifier: Apache-2.0
// Bytes of text per second of CPU, one thread. Goal: 8 MB/s for English prose.
#include <benchmark/benchmark.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "tests/support/gguf_text_model.h"
#include "tests/support/shared_data.h"
#include "text/detokenizer.h"
#include "text/prefix_token_cache.h"
#include "text/tokenizer.h"

namespace taproot {
namespace {

const Tokenizer& tokenizer(const std::string& pre = "smollm") {
    static std::map<std::string, Tokenizer> made;
    const auto found = made.find(pre);
    if (found != made.end()) return found->second;
    TextModel model = testing::read_gguf_text_model(testing::default_model());
    model.pre = pre;
    return made.emplace(pre, *Tokenizer::build(model)).first->second;
}

// Prose whose words follow Zipf's law, from syllables, so that it needs no file: about 20 000
// different words, a third of which are seen once or twice.
std::string prose(std::size_t bytes, std::uint64_t seed) {
    static const char* kSyllables[] = {"the", "re",  "an", "tion", "in", "er",  "so",  "al", "ment",
                                       "con", "ver", "st", "a",    "ly", "pro", "ing", "de", "un"};
    Random random(seed);
    std::string text;
    while (text.size() < bytes) {
        const double rank = std::pow(20'000.0, random.unit());
        Random word(static_cast<std::uint64_t>(rank));
        const std::uint64_t syllables = 1 + word.below(3);
        for (std::uint64_t i = 0; i < syllables; ++i) text += kSyllables[word.below(18)];
        text += random.chance(0.08) ? ", " : random.chance(0.07) ? ". " : " ";
        if (random.chance(0.01)) text += "\n\n";
    }
    text.resize(bytes);
    return text;
}

void encode_prose(benchmark::State& state, const char* pre) {
    const Tokenizer& t = tokenizer(pre);
    const std::string text = prose(1 << 20, 1);
    Tokenizer::Scratch scratch;
    std::vector<TokenId> ids;
    for (auto _ : state) {
        ids.clear();
        t.encode(text, false, &ids, scratch);
        benchmark::DoNotOptimize(ids.data());
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
    state.counters["bytes_per_token"] =
        static_cast<double>(text.size()) / static_cast<double>(ids.size());
}
BENCHMARK_CAPTURE(encode_prose, smollm, "smollm");
BENCHMARK_CAPTURE(encode_prose, llama, "llama-bpe");
BENCHMARK_CAPTURE(encode_prose, qwen2, "qwen2");
BENCHMARK_CAPTURE(encode_prose, o200k, "gpt-4o");

// Words of random letters: nearly every piece is new and must be merged.
void encode_random_words(benchmark::State& state) {
    const Tokenizer& t = tokenizer();
    Random random(2);
    std::string text(1 << 20, ' ');
    for (char& c : text)
        if (!random.chance(0.15)) c = static_cast<char>('a' + random.below(26));
    Tokenizer::Scratch scratch;
    std::vector<TokenId> ids;
    for (auto _ : state) {
        ids.clear();
        t.encode(text, false, &ids, scratch);
        benchmark::DoNotOptimize(ids.data());
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
BENCHMARK(encode_random_words);

void encode_source_code(benchmark::State& state) {
    const Tokenizer& t = tokenizer();
    const std::string text = testing::read_file(TAPROOT_SOURCE_DIR "/text/pretokenize.cc") +
                             testing::read_file(TAPROOT_SOURCE_DIR "/text/vocab.cc");
    Tokenizer::Scratch scratch;
    std::vector<TokenId> ids;
    for (auto _ : state) {
        ids.clear();
        t.encode(text, false, &ids, scratch);
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
BENCHMARK(encode_source_code);

void encode_run(benchmark::State& state, const char* unit) {
    const Tokenizer& t = tokenizer();
    std::string text;
    while (text.size() < 1 << 20) text += unit;
    Tokenizer::Scratch scratch;
    std::vector<TokenId> ids;
    for (auto _ : state) {
        ids.clear();
        t.encode(text, false, &ids, scratch);
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
BENCHMARK_CAPTURE(encode_run, letter, "x");
BENCHMARK_CAPTURE(encode_run, space, " ");
BENCHMARK_CAPTURE(encode_run, han, "\xE4\xB8\xAD");

// A chat of 40 turns of 1 KiB; one more turn each time, most of it known.
void prefix_cache_known_chat(benchmark::State& state) {
    const Tokenizer& t = tokenizer();
    const std::string text = prose(40 << 10, 3);
    std::vector<TextSpan> spans;
    for (std::size_t pos = 0; pos < text.size(); pos += 1 << 10) {
        spans.push_back({"<|im_start|>user\n", true});
        spans.push_back({std::string_view(text).substr(pos, 1 << 10), false});
        spans.push_back({"<|im_end|>\n", true});
    }
    PrefixTokenCache cache(t, 64 << 20);
    Tokenizer::Scratch scratch;
    std::vector<TokenId> ids;
    for (auto _ : state) {
        ids.clear();
        cache.encode_pieces(spans, &ids, scratch);
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
BENCHMARK(prefix_cache_known_chat);

void detokenize(benchmark::State& state) {
    const Tokenizer& t = tokenizer();
    Tokenizer::Scratch scratch;
    std::vector<TokenId> ids;
    t.encode(prose(1 << 18, 4), false, &ids, scratch);
    for (auto _ : state) {
        std::string out;
        Detokenizer detokenizer(t.vocab(), {});
        for (const TokenId id : ids) detokenizer.push(id, &out);
        benchmark::DoNotOptimize(out.data());
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * ids.size()));
}
BENCHMARK(detokenize);

}  // namespace
}  // namespace taproot

BENCHMARK_MAIN();
