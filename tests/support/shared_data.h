// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace taproot::testing {

// The folder of golden values beside the checkout (TAPROOT_SHARED, else ../shared). It is not part
// of the repository: a test that needs it skips, with a message, where it is absent.
inline std::filesystem::path shared_dir() {
    if (const char* from_env = std::getenv("TAPROOT_SHARED")) return from_env;
    return std::filesystem::path(TAPROOT_SOURCE_DIR) / ".." / "shared";
}

// The default model, where quickstart puts it (TAPROOT_MODEL, else models/...). May be absent.
inline std::filesystem::path default_model() {
    if (const char* from_env = std::getenv("TAPROOT_MODEL")) return from_env;
    return std::filesystem::path(TAPROOT_SOURCE_DIR) / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf";
}

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace taproot::testing

// TAPROOT_NEEDS_FILE(path): skips the running test when the file is not there.
#define TAPROOT_NEEDS_FILE(path)                                                         \
    do {                                                                                 \
        if (!std::filesystem::exists(path))                                              \
            GTEST_SKIP() << "needs " << (path) << " (see docs/HACKING.md, golden data)"; \
    } while (false)
