// SPDX-License-Identifier: Apache-2.0
#include "tests/support/tiny_model.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <vector>

#include "base/assert.h"
#include "base/random.h"
#include "tests/support/quantiser.h"

namespace taproot::testing {
namespace {

struct Type {
    std::string_view name;
    std::uint32_t id;
    int block;  // weights
};
constexpr std::array kTypes = {Type{"q4_1", 3, 32}, Type{"q8_0", 8, 32}, Type{"f16", 1, 1},
                               Type{"q4_0", 2, 32}, Type{"bf16", 30, 1}, Type{"q5_0", 6, 32},
                               Type{"f32", 0, 1},   Type{"q5_1", 7, 32}};
// These are drawn as floats and quantised.
constexpr std::array kSuperTypes = {
    Type{"q4_k", 12, 256}, Type{"q6_k", 14, 256},   Type{"q2_k", 10, 256},  Type{"q5_k", 13, 256},
    Type{"q3_k", 11, 256}, Type{"iq4_xs", 23, 256}, Type{"iq4_nl", 20, 32},
};

const Type& type_named(std::string_view name) {
    for (const Type& type : kTypes)
        if (type.name == name) return type;
    for (const Type& type : kSuperTypes)
        if (type.name == name) return type;
    TAPROOT_UNREACHABLE();
    return kTypes[0];
}

// What quantising tools choose for a "Q4_K_M" file: better types for some matrices, and types of
// blocks of 32 where rows are no whole number of super-blocks.
std::string_view q4_k_m_type(std::string_view tensor, int columns) {
    auto has = [&](std::string_view part) { return tensor.find(part) != tensor.npos; };
    bool better = has("attn_v") || has("ffn_down") || has("output.weight") || has("token_embd");
    if (has("attn_output")) better = false;
    if (columns % 256 == 0) return better ? "q6_k" : "q4_k";
    return better ? "q8_0" : "q5_0";
}

std::uint16_t to_bfloat16(float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}
// Truncates; exact for the few mantissa bits used here. Zero below the normal range.
std::uint16_t to_half(float value) {
    std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    int exponent = static_cast<int>((bits >> 23) & 255) - 127 + 15;
    if (exponent <= 0) return 0;
    return static_cast<std::uint16_t>(((bits >> 16) & 0x8000u) |
                                      (static_cast<std::uint32_t>(exponent) << 10) |
                                      ((bits >> 13) & 1023u));
}

// One block of random weights, roughly uniform with standard deviation `spread`: the quantised
// values themselves are drawn, so that no quantiser is needed here.
void append_block(const Type& type, float spread, Random& random, GgufBytes& out) {
    auto uniform = [&] { return static_cast<float>(random.unit()) * 2.0f - 1.0f; };
    auto scale = [&](float levels) {  // a step so that `levels` steps span +-sqrt(3) * spread
        return 3.4641f * spread / levels * (0.75f + 0.5f * static_cast<float>(random.unit()));
    };
    auto noise = [&](int bytes) {
        for (int i = 0; i < bytes; ++i) out.put(static_cast<std::uint8_t>(random.next()));
    };
    if (type.name == "f32") {
        out.put(1.7320f * spread * uniform());
    } else if (type.name == "f16") {
        out.put(to_half(1.7320f * spread * uniform()));
    } else if (type.name == "bf16") {
        out.put(to_bfloat16(1.7320f * spread * uniform()));
    } else if (type.name == "q4_0" || type.name == "q5_0") {
        int bits = type.name == "q4_0" ? 4 : 5;
        out.put(to_half(scale(static_cast<float>((1 << bits) - 1))));
        noise(bits * 4);
    } else if (type.name == "q4_1" || type.name == "q5_1") {
        int bits = type.name == "q4_1" ? 4 : 5;
        float step = scale(static_cast<float>((1 << bits) - 1));
        out.put(to_half(step)).put(to_half(-step * 0.5f * static_cast<float>((1 << bits) - 1)));
        noise(bits * 4);
    } else if (const QuantType* drawn = find_quant_type(type.name); type.name != "q8_0") {
        std::array<float, 256> values;
        for (float& value : values) value = 1.7320f * spread * uniform();
        std::string block;
        quantise(*drawn, std::span(values).first(static_cast<std::size_t>(type.block)), &block);
        out.raw(block);
    } else {
        out.put(to_half(scale(255)));
        noise(32);
    }
}

std::string random_matrix(const Type& type, int columns, int rows, float spread, Random& random) {
    TAPROOT_ASSERT(columns % type.block == 0);
    GgufBytes out;
    for (int i = 0; i < rows * (columns / type.block); ++i) append_block(type, spread, random, out);
    return std::move(out.bytes);
}

std::string utf8(std::uint32_t code_point) {
    if (code_point < 0x80) return {static_cast<char>(code_point)};
    return {static_cast<char>(0xC0 | (code_point >> 6)),
            static_cast<char>(0x80 | (code_point & 63))};
}

// The printable stand-in of each byte in byte-level BPE.
std::array<std::string, 256> byte_texts() {
    std::array<std::string, 256> out;
    std::uint32_t next = 256;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
        out[byte] = utf8(printable ? byte : next++);
    }
    return out;
}

constexpr std::array<std::string_view, 61> kMerges = {
    "Ġ t",  "Ġ a",   "h e",  "i n",  "r e", "o n",  "Ġt he", "e r",  "Ġ s",  "a t",  "Ġ w",
    "Ġ o",  "e n",   "Ġ c",  "i t",  "i s", "a n",  "o r",   "e s",  "Ġ b",  "e d",  "Ġ f",
    "in g", "Ġ p",   "o u",  "Ġa n", "a l", "a r",  "Ġt o",  "Ġ m",  "Ġo f", "Ġ in", "Ġ d",
    "Ġ h",  "Ġan d", "i c",  "a s",  "l e", "Ġt h", "i on",  "o m",  "l l",  "en t", "Ġ n",
    "Ġ l",  "s t",   "Ġ re", "v e",  "Ġ e", "r o",  "l y",   "Ġb e", "Ġ g",  "u s",  "er s",
    "m e",  "u r",   "a m",  "o w",  "a d", "Ġ is"};

void add_text(GgufWriter& out) {
    std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    std::vector<std::int32_t> types(3, 3);
    for (const std::string& text : byte_texts()) tokens.push_back(text);
    std::vector<std::string> merges;
    for (std::string_view merge : kMerges) {
        merges.emplace_back(merge);
        std::size_t space = merge.find(' ', 1);
        tokens.push_back(std::string(merge.substr(0, space)) +
                         std::string(merge.substr(space + 1)));
    }
    TAPROOT_ASSERT(tokens.size() == kTinyVocabulary);
    types.resize(tokens.size(), 1);
    out.string("tokenizer.ggml.model", "gpt2");
    out.string("tokenizer.ggml.pre", "smollm");
    out.strings("tokenizer.ggml.tokens", tokens);
    out.array<std::int32_t>("tokenizer.ggml.token_type", types);
    out.strings("tokenizer.ggml.merges", merges);
    out.number("tokenizer.ggml.bos_token_id", kTinyBos);
    out.number("tokenizer.ggml.eos_token_id", kTinyEos);
    out.number("tokenizer.ggml.unknown_token_id", kTinyEndOfText);
    out.number("tokenizer.ggml.padding_token_id", kTinyEos);
    out.boolean("tokenizer.ggml.add_bos_token", false);
    out.string("tokenizer.chat_template",
               "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + "
               "message['content'] + '<|im_end|>\n' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
}

}  // namespace

GgufWriter tiny_model_writer(const TinyModelOptions& options) {
    GgufWriter out;
    auto number = [&](std::string_view key, int value) {
        out.number(key, static_cast<std::uint32_t>(value));
    };
    out.string("general.architecture", "llama");
    out.string("general.name", "tiny");
    number("llama.block_count", options.layers);
    number("llama.context_length", options.context);
    number("llama.embedding_length", options.embedding);
    number("llama.feed_forward_length", options.feed_forward);
    number("llama.attention.head_count", options.heads);
    number("llama.attention.head_count_kv", options.kv_heads);
    number("llama.attention.key_length", options.head_dim);
    number("llama.attention.value_length", options.head_dim);
    number("llama.rope.dimension_count", options.head_dim);
    out.real("llama.rope.freq_base", 10000.0f);
    out.real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    add_text(out);

    Random random(options.seed);
    std::size_t mixed = 0;
    auto matrix = [&](std::string_view name, int columns, int rows, float gain,
                      std::string_view dtype) {
        const Type& type = dtype == "mixed"     ? kTypes[mixed++ % kTypes.size()]
                           : dtype == "mixed_k" ? kSuperTypes[mixed++ % kSuperTypes.size()]
                           : dtype == "q4_k_m"  ? type_named(q4_k_m_type(name, columns))
                                                : type_named(dtype);
        // sqrt by Newton: the same bits under any math library.
        float root = 1.0f;
        for (int i = 0; i < 20; ++i) root = 0.5f * (root + static_cast<float>(columns) / root);
        std::uint64_t dims[] = {static_cast<std::uint64_t>(columns),
                                static_cast<std::uint64_t>(rows)};
        out.tensor(name, dims, type.id, random_matrix(type, columns, rows, gain / root, random));
    };
    auto norm = [&](std::string_view name) {
        GgufBytes data;
        for (int i = 0; i < options.embedding; ++i)
            data.put(0.75f + 0.5f * static_cast<float>(random.unit()));
        std::uint64_t dims[] = {static_cast<std::uint64_t>(options.embedding)};
        out.tensor(name, dims, 0, std::move(data.bytes));
    };
    int rows = kTinyVocabulary + options.padding_rows;
    matrix("token_embd.weight", options.embedding, rows, 3.0f, options.embedding_dtype);
    for (int layer = 0; layer < options.layers; ++layer) {
        auto name = [&](std::string_view part) {
            return "blk." + std::to_string(layer) + "." + std::string(part) + ".weight";
        };
        int queries = options.heads * options.head_dim;
        int keys = options.kv_heads * options.head_dim;
        norm(name("attn_norm"));
        matrix(name("attn_q"), options.embedding, queries, 1.5f, options.dtype);
        matrix(name("attn_k"), options.embedding, keys, 1.5f, options.dtype);
        matrix(name("attn_v"), options.embedding, keys, 1.5f, options.dtype);
        matrix(name("attn_output"), queries, options.embedding, 1.5f, options.dtype);
        norm(name("ffn_norm"));
        matrix(name("ffn_gate"), options.embedding, options.feed_forward, 1.5f, options.dtype);
        matrix(name("ffn_up"), options.embedding, options.feed_forward, 1.5f, options.dtype);
        matrix(name("ffn_down"), options.feed_forward, options.embedding, 1.5f, options.dtype);
    }
    norm("output_norm.weight");
    if (!options.tied)
        matrix("output.weight", options.embedding, rows, 3.0f, options.embedding_dtype);
    return out;
}

TempFile::TempFile(std::string_view suffix, std::string_view bytes) {
    static std::atomic<int> counter{0};
    path_ =
        std::filesystem::temp_directory_path() / ("taproot-" + std::to_string(getpid()) + "-" +
                                                  std::to_string(counter++) + std::string(suffix));
    std::ofstream out(path_, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    TAPROOT_ASSERT(out.good());
}

TempFile::~TempFile() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove(path_, ignored);
}

}  // namespace taproot::testing
