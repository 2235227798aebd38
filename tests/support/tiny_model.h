// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "tests/support/gguf_writer.h"

namespace taproot::testing {

// A random-weight model of architecture `llama` for tests that need a real forward pass in
// microseconds: byte-level vocabulary of 320 tokens (three control tokens, 256 bytes, a few
// merges), ChatML template, pre-tokenizer "smollm". The same options give the same bytes anywhere.
// Its text is noise, but greedy answers are stable and differ between prompts.
struct TinyModelOptions {
    std::uint64_t seed = 1;
    // f32 f16 bf16 q4_0 q4_1 q5_0 q5_1 q8_0 iq4_nl, or "mixed": every tensor another type. Rows of
    // 256 and more: q2_k q3_k q4_k q5_k q6_k iq4_xs, or "mixed_k" of these. "q4_k_m": as in files
    // of that name, any row length.
    std::string_view dtype = "q4_1";
    std::string_view embedding_dtype = "q8_0";
    int layers = 2;
    int embedding = 64;
    int heads = 4;
    int kv_heads = 2;
    int head_dim = 16;
    int feed_forward = 128;
    int context = 2048;
    bool tied = true;      // false: its own output.weight
    int padding_rows = 0;  // embedding rows beyond the vocabulary
};

inline constexpr int kTinyVocabulary = 320;
inline constexpr std::int32_t kTinyEndOfText = 0;  // <|endoftext|>
inline constexpr std::int32_t kTinyBos = 1;        // <|im_start|>
inline constexpr std::int32_t kTinyEos = 2;        // <|im_end|>

// All keys and tensors, to be changed before finish(). Aborts on a dtype name it does not know.
GgufWriter tiny_model_writer(const TinyModelOptions& options = {});

// A file of its own in the temporary directory, removed by the destructor. Move-only.
class TempFile {
public:
    TempFile(std::string_view suffix, std::string_view bytes);
    ~TempFile();
    TempFile(TempFile&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
    TempFile& operator=(TempFile&&) = delete;

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

inline TempFile write_tiny_model(const TinyModelOptions& options = {}) {
    return {".gguf", tiny_model_writer(options).finish()};
}

}  // namespace taproot::testing
