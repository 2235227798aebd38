// SPDX-License-Identifier: Apache-2.0
// requantise_model IN.gguf OUT.gguf KIND: the same model with its matrices in other types, chosen
// as quantising tools do, to test and time those types. KIND: a type (q8_0, q6_k, iq4_xs, ...), or
// q4_k_m, q5_k_m: q6_k where these files have it. Metadata is copied as it is.
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/linear.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/quantiser.h"
#include "worker/model/gguf.h"

namespace taproot::testing {
namespace {

// Rows that are no whole number of super-blocks get a type of blocks of 32.
std::string_view for_columns(std::string_view type, std::uint64_t columns) {
    static const std::map<std::string_view, std::string_view> smaller = {
        {"q4_k", "q5_0"}, {"q5_k", "q5_1"}, {"q6_k", "q8_0"},
        {"q3_k", "q4_0"}, {"q2_k", "q4_0"}, {"iq4_xs", "iq4_nl"}};
    if (columns % 256 == 0) return type;
    auto found = smaller.find(type);
    return found == smaller.end() ? type : found->second;
}

// The first and last eighth of the layers, and every third between, get the better type.
bool is_precise_layer(int layer, int layers) {
    int eighth = layers / 8;
    return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

std::string_view type_for(std::string_view kind, const GgufTensor& tensor, int layers) {
    std::string name(tensor.name);
    bool mixed = kind == "q4_k_m" || kind == "q5_k_m";
    if (!mixed) return for_columns(kind, tensor.columns());
    bool precise = name == "token_embd.weight" || name == "output.weight";
    int layer = 0;
    char part[32] = "";
    if (std::sscanf(name.c_str(), "blk.%d.%31[a-z_]", &layer, part) == 2) {
        std::string_view which = part;
        precise = (which == "attn_v" || which == "ffn_down") && is_precise_layer(layer, layers);
    }
    return for_columns(precise ? "q6_k" : kind.substr(0, 4), tensor.columns());
}

DType dtype_of(const GgufTensor& tensor) {
    for (DType type : kDTypes)
        if (dtype_info(type).name == tensor.type->name) return type;
    std::fprintf(stderr, "%s: unknown type\n", std::string(tensor.name).c_str());
    std::exit(1);
}

struct Output {
    std::uint32_t type;
    std::string data;
};

Output convert(const GgufTensor& tensor, std::string_view kind, int layers) {
    if (tensor.dims_count == 1) {
        const char* data = reinterpret_cast<const char*>(tensor.bytes.data());
        return {tensor.type->id, std::string(data, tensor.bytes.size())};
    }
    const QuantType* type = find_quant_type(type_for(kind, tensor, layers));
    if (type == nullptr) {
        std::fprintf(stderr, "unknown kind\n");
        std::exit(2);
    }
    std::vector<float> values(tensor.elements);
    dequantize(dtype_of(tensor), tensor.bytes.data(), static_cast<std::int64_t>(values.size()),
               values.data());
    Output out{type->id, {}};
    quantise(*type, values, &out.data);
    return out;
}

std::string converted(const GgufFile& file, std::string_view kind) {
    int layers = static_cast<int>(file.find_integer("llama.block_count").value().value_or(0));
    // Metadata ends where the first tensor's name (after its length) begins.
    const char* begin = reinterpret_cast<const char*>(file.bytes().data()) + 24;
    const char* end = file.tensors().front().name.data() - 8;
    GgufBytes out;
    out.header(file.tensors().size(), file.key_count());
    out.raw({begin, static_cast<std::size_t>(end - begin)});
    std::vector<std::string> data;
    std::map<std::uint32_t, int> counts;
    std::uint64_t offset = 0;
    const std::uint64_t alignment = file.alignment();
    for (const GgufTensor& tensor : file.tensors()) {
        Output to = convert(tensor, kind, layers);
        out.text(tensor.name).put(static_cast<std::uint32_t>(tensor.dims_count));
        for (int d = 0; d < tensor.dims_count; ++d) {
            out.put(tensor.dims[static_cast<std::size_t>(d)]);
        }
        out.put(to.type).put(offset);
        offset += (to.data.size() + alignment - 1) / alignment * alignment;
        ++counts[to.type];
        data.push_back(std::move(to.data));
    }
    for (const std::string& bytes : data) out.pad(alignment).raw(bytes);
    for (auto [type, count] : counts) {
        std::printf("%s x %d\n", std::string(find_ggml_type(type)->name).c_str(), count);
    }
    return std::move(out.pad(alignment).bytes);
}

}  // namespace
}  // namespace taproot::testing

int main(int argc, char** argv) {
    if (argc != 4) {
        std::fprintf(stderr, "usage: requantise_model IN.gguf OUT.gguf KIND\n");
        return 2;
    }
    auto file = taproot::GgufFile::open(argv[1]);
    if (!file || file->tensors().empty()) {
        std::fprintf(stderr, "%s\n", file ? "no tensors" : file.error().describe().c_str());
        return 1;
    }
    std::ofstream out(argv[2], std::ios::binary | std::ios::trunc);
    std::string bytes = taproot::testing::converted(*file, argv[3]);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return out.good() ? 0 : 1;
}
