// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "text/text_model.h"
#include "worker/model/gguf.h"
#include "worker/model/model_config.h"

namespace taproot {

// A model file, open and understood, before any weight is packed. Executors are built from it; it
// can be dropped afterwards (they keep no view of the file).
struct LoadedModel {
    GgufFile file;
    ModelConfig config;
    TextModel text;
    // XXH3-64 of the file: all of it up to 1 GiB (10 GB/s), above that its metadata, its size and
    // 4 KiB of every MiB. Equal files are equal everywhere; it names the model on the link and in
    // stored KV.
    std::uint64_t digest = 0;
};

Result<LoadedModel> load_model(const std::filesystem::path& path);

}  // namespace taproot
