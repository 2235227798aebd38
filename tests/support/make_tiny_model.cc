// SPDX-License-Identifier: Apache-2.0
// make_tiny_model OUT.gguf [--dtype q4_1] [--seed N] [--context N] [--layers N]: the model of
// tests/support/tiny_model.h as a file, for end-to-end tests.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "tests/support/tiny_model.h"

int main(int argc, char** argv) {
    taproot::testing::TinyModelOptions options;
    const char* path = nullptr;
    for (int i = 1; i < argc; ++i) {
        std::string_view name = argv[i];
        const char* value = i + 1 < argc ? argv[i + 1] : "";
        if (name == "--dtype") {
            options.dtype = value;
        } else if (name == "--seed") {
            options.seed = std::strtoull(value, nullptr, 10);
        } else if (name == "--context") {
            options.context = std::atoi(value);
        } else if (name == "--layers") {
            options.layers = std::atoi(value);
        } else {
            path = argv[i];
            continue;
        }
        ++i;
    }
    if (path == nullptr) {
        std::fprintf(stderr, "usage: make_tiny_model OUT.gguf [--dtype T] [--seed N]\n");
        return 2;
    }
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    std::string bytes = taproot::testing::tiny_model_writer(options).finish();
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return out.good() ? 0 : 1;
}
