// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "text/text_model.h"

namespace taproot::testing {

// Reads the tokenizer part of a GGUF header, for tests of text/ (which may not use worker/'s
// reader). Trusts its input: it throws on a short file and checks nothing else.
class GgufTextReader {
public:
    explicit GgufTextReader(const std::filesystem::path& path) : in_(path, std::ios::binary) {
        in_.exceptions(std::ios::failbit | std::ios::badbit | std::ios::eofbit);
    }

    TextModel read() {
        if (number<std::uint32_t>() != 0x46554747) throw std::runtime_error("not a GGUF file");
        number<std::uint32_t>();  // version
        number<std::uint64_t>();  // tensors
        const auto keys = number<std::uint64_t>();
        for (std::uint64_t i = 0; i < keys; ++i) {
            const std::string key = text();
            value(key, number<std::int32_t>());
        }
        return model_;
    }

private:
    static constexpr std::int32_t kBool = 7, kString = 8, kArray = 9;

    template <typename T>
    T number() {
        T out;
        in_.read(reinterpret_cast<char*>(&out), sizeof(out));
        return out;
    }
    std::string text() {
        std::string out(number<std::uint64_t>(), '\0');
        in_.read(out.data(), static_cast<std::streamsize>(out.size()));
        return out;
    }
    static int bytes_of(std::int32_t type) {
        constexpr int kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
        return kBytes[type];
    }
    void skip(std::int32_t type) { in_.seekg(bytes_of(type), std::ios::cur); }

    void value(const std::string& key, std::int32_t type) {
        if (type == kArray) return array(key);
        if (type == kString) return string_value(key, text());
        if (key == "tokenizer.ggml.bos_token_id")
            model_.bos = number<std::int32_t>();
        else if (key == "tokenizer.ggml.eos_token_id")
            model_.eos = number<std::int32_t>();
        else if (key == "tokenizer.ggml.eot_token_id")
            model_.eot = number<std::int32_t>();
        else if (key == "tokenizer.ggml.unknown_token_id")
            model_.unknown = number<std::int32_t>();
        else if (key == "tokenizer.ggml.padding_token_id")
            model_.padding = number<std::int32_t>();
        else if (key == "tokenizer.ggml.add_bos_token")
            model_.add_bos = number<char>() != 0;
        else if (key == "tokenizer.ggml.add_eos_token")
            model_.add_eos = number<char>() != 0;
        else
            skip(type);
    }
    void string_value(const std::string& key, std::string value) {
        if (key == "tokenizer.ggml.model") model_.model = value;
        if (key == "tokenizer.ggml.pre") model_.pre = value;
        if (key == "tokenizer.chat_template") model_.chat_template = value;
    }
    void array(const std::string& key) {
        const auto type = number<std::int32_t>();
        const auto count = number<std::uint64_t>();
        for (std::uint64_t i = 0; i < count; ++i) {
            if (type == kString) {
                std::string item = text();
                if (key == "tokenizer.ggml.tokens")
                    model_.tokens.push_back(std::move(item));
                else if (key == "tokenizer.ggml.merges")
                    model_.merges.push_back(std::move(item));
            } else if (key == "tokenizer.ggml.token_type") {
                model_.types.push_back(static_cast<TokenType>(number<std::int32_t>()));
            } else {
                skip(type);
            }
        }
    }

    std::ifstream in_;
    TextModel model_;
};

inline TextModel read_gguf_text_model(const std::filesystem::path& path) {
    return GgufTextReader(path).read();
}

}  // namespace taproot::testing
