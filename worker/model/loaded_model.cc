// SPDX-License-Identifier: Apache-2.0
#include "worker/model/loaded_model.h"

#include <xxhash.h>

#include <algorithm>

#include "base/units.h"
#include "worker/model/text_from_gguf.h"

namespace taproot {
namespace {

std::uint64_t digest_of(const GgufFile& file) {
    constexpr std::uint64_t kWholeMax = 1_GiB;
    constexpr std::uint64_t kStep = 1_MiB;
    constexpr std::uint64_t kSample = 4_KiB;
    std::span<const std::byte> bytes = file.bytes();
    if (bytes.size() <= kWholeMax) return XXH3_64bits(bytes.data(), bytes.size());

    XXH3_state_t* state = XXH3_createState();
    TAPROOT_ASSERT(state != nullptr);
    std::uint64_t size = bytes.size();
    std::uint64_t metadata = std::min<std::uint64_t>(file.data_offset(), size);
    XXH3_64bits_reset_withSeed(state, size);
    XXH3_64bits_update(state, bytes.data(), metadata);
    for (std::uint64_t at = metadata; at < size; at += kStep)
        XXH3_64bits_update(state, bytes.data() + at, std::min(kSample, size - at));
    std::uint64_t digest = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return digest;
}

}  // namespace

Result<LoadedModel> load_model(const std::filesystem::path& path) {
    LoadedModel model;
    TAPROOT_TRY(model.file, GgufFile::open(path));
    TAPROOT_TRY(model.config, read_model_config(model.file));
    TAPROOT_TRY(model.text, text_model_from_gguf(model.file));
    model.digest = digest_of(model.file);
    return model;
}

}  // namespace taproot
