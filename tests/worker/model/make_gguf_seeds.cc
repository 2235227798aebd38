// SPDX-License-Identifier: Apache-2.0
// make_gguf_seeds FOLDER: the seeds of gguf_fuzz (tests/corpus/gguf_fuzz), small files that reach
// every branch of the reader.
#include <cstdio>
#include <fstream>
#include <string>

#include "tests/support/gguf_writer.h"

namespace {

using taproot::testing::GgufBytes;
using taproot::testing::GgufWriter;

std::string every_type() {
    GgufBytes out;
    out.header(0, 12, 2);
    for (std::uint32_t type : {0u, 1u, 7u}) out.key("a" + std::to_string(type), type).raw("\1");
    for (std::uint32_t type : {2u, 3u}) out.key("b" + std::to_string(type), type).raw("\1\2");
    for (std::uint32_t type : {4u, 5u, 6u})
        out.key("c" + std::to_string(type), type).raw("\1\2\3\4");
    for (std::uint32_t type : {10u, 11u, 12u})
        out.key("d" + std::to_string(type), type).raw("\1\2\3\4\5\6\7\10");
    out.key("e", 9).put<std::uint32_t>(9).put<std::uint64_t>(1);
    return out.put<std::uint32_t>(8).put<std::uint64_t>(2).text("x").text("").bytes;
}

// A whole model of one layer with a vocabulary of six.
std::string model(bool aligned64) {
    GgufWriter out;
    out.string("general.architecture", "llama");
    if (aligned64) out.number("general.alignment", 64);
    out.number("llama.block_count", 1);
    out.number("llama.context_length", 8);
    out.number("llama.embedding_length", 32);
    out.number("llama.feed_forward_length", 32);
    out.number("llama.attention.head_count", 2);
    out.number("llama.attention.head_count_kv", 1);
    out.real("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    out.real("llama.rope.freq_base", 1e4f);
    if (aligned64) {
        out.string("llama.rope.scaling.type", "yarn");
        out.real("llama.rope.scaling.factor", 2.0f);
        out.number("llama.rope.scaling.original_context_length", 4);
    }
    out.string("tokenizer.ggml.model", "gpt2");
    out.string("tokenizer.ggml.pre", "smollm");
    std::string tokens[] = {"<e>", "a", "b", "ab", "c", "abc"};
    out.strings("tokenizer.ggml.tokens", tokens);
    std::int32_t types[] = {3, 1, 1, 1, 1, 1};
    out.array<std::int32_t>("tokenizer.ggml.token_type", types);
    float scores[] = {0, 0, 0, 0, 0, 0};
    out.array<float>("tokenizer.ggml.scores", scores);
    std::string merges[] = {"a b", "ab c"};
    out.strings("tokenizer.ggml.merges", merges);
    out.number("tokenizer.ggml.bos_token_id", 0);
    out.number("tokenizer.ggml.eos_token_id", 0);
    out.boolean("tokenizer.ggml.add_bos_token", true);
    out.string("tokenizer.chat_template", "{{ messages }}");
    std::uint64_t table[] = {32, 6}, norm[] = {32};
    out.tensor("token_embd.weight", table, 8, std::string(34 * 6, '\1'));
    out.tensor("output_norm.weight", norm, 0, std::string(128, '\0'));
    return out.finish(aligned64 ? 64 : 32);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return std::fprintf(stderr, "usage: make_gguf_seeds FOLDER\n"), 2;
    auto save = [&](const char* name, const std::string& bytes) {
        std::ofstream(std::string(argv[1]) + "/" + name, std::ios::binary) << bytes;
    };
    save("every_type", every_type());
    save("model", model(false));
    save("model_yarn_align64", model(true));
    save("empty_v3", GgufBytes().header(0, 0).bytes);
    std::string cut = model(false);
    save("model_cut", cut.substr(0, cut.size() - 64));
    return 0;
}
