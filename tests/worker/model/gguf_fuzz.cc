// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model file: parsed, read as configuration and text, and every view touched.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/log.h"
#include "worker/model/model_config.h"
#include "worker/model/text_from_gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace taproot;
    init_log(LogLevel::kOff, "fuzz");
    auto file = GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
    if (!file) return 0;
    unsigned sum = 0;
    for (const GgufTensor& tensor : file->tensors()) {
        sum += std::to_integer<unsigned>(tensor.bytes.front());
        sum += std::to_integer<unsigned>(tensor.bytes.back());
        sum += static_cast<unsigned>(tensor.shape().size() + tensor.rows());
    }
    for (const char* key : {"a", "tokenizer.ggml.tokens", "general.architecture"}) {
        sum += file->find_integer(key).has_value();
        sum += file->find_real(key).has_value();
        sum += file->find_bool(key).has_value();
        sum += file->find_string(key).has_value();
        sum += file->find_strings(key).has_value();
        sum += file->find_integers(key).has_value();
    }
    sum += read_model_config(*file).has_value();
    sum += text_model_from_gguf(*file).has_value();
    [[maybe_unused]] static volatile unsigned sink;
    sink = sum;
    return 0;
}
