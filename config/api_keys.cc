// SPDX-License-Identifier: Apache-2.0
#include "config/api_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace taproot::config {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{1} << 20;

std::string trimmed(std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r\n";
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return {};
    return std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

// What is wrong with a trimmed key, without showing it. Empty when nothing is.
std::string fault_of(std::string_view key) {
    if (key.find("${") != std::string_view::npos || key.starts_with('$'))
        return "variables are not expanded here; write the key or use api_keys_file";
    if (key.size() < kApiKeyBytesMin || key.size() > kApiKeyBytesMax)
        return fmt::format("a key has {}..{} characters, this one has {}", kApiKeyBytesMin,
                           kApiKeyBytesMax, key.size());
    for (const char c : key)
        if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7F)
            return "a key has printable ASCII characters and no blanks inside";
    return {};
}

void add_key(std::string key, std::vector<std::string>* keys) {
    if (std::find(keys->begin(), keys->end(), key) == keys->end()) keys->push_back(std::move(key));
}

void read_key_file(const std::string& path, std::vector<std::string>* keys,
                   std::vector<Problem>* problems) {
    constexpr const char* kKey = "gateway.api_keys_file";
    std::ifstream in(path, std::ios::binary);
    std::string text(kFileBytesMax + 1, '\0');
    if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (!in.is_open() || in.bad()) {
        problems->push_back({kKey, fmt::format("'{}': {}", path, std::strerror(errno)), {}});
        return;
    }
    text.resize(static_cast<std::size_t>(in.gcount()));
    if (text.size() > kFileBytesMax) {
        problems->push_back(
            {kKey, fmt::format("'{}' is larger than {} bytes", path, kFileBytesMax), {}});
        return;
    }
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    const std::size_t before = keys->size();
    int line = 0;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::string key = trimmed(std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
        ++line;
        if (key.empty() || key[0] == '#') continue;
        if (const std::string fault = fault_of(key); !fault.empty()) {
            problems->push_back({kKey, fmt::format("'{}' line {}: {}", path, line, fault), {}});
            return;
        }
        keys->push_back(std::move(key));
    }
    if (keys->size() == before)
        problems->push_back({kKey,
                             fmt::format("'{}' holds no key; a server is opened only by "
                                         "'auth: none'",
                                         path),
                             {}});
}

}  // namespace

void resolve_api_keys(Gateway* gateway, const Places& places, std::vector<Problem>* problems) {
    std::vector<std::string> keys;
    for (std::size_t i = 0; i < gateway->api_keys.size(); ++i) {
        std::string key = trimmed(gateway->api_keys[i]);
        const std::string path = fmt::format("gateway.api_keys[{}]", i);
        if (const std::string fault = fault_of(key); !fault.empty())
            problems->push_back({path, fault, {}});
        else
            keys.push_back(std::move(key));
    }
    if (gateway->api_keys.empty() && places.contains("gateway.api_keys"))
        problems->push_back({"gateway.api_keys",
                             "is present but holds no key; remove it, or open the server with "
                             "'auth: none'",
                             {}});
    if (!gateway->api_keys_file.empty())
        read_key_file(gateway->api_keys_file, &keys, problems);
    else if (places.contains("gateway.api_keys_file"))
        problems->push_back({"gateway.api_keys_file",
                             "is present but names no file; remove it, or open the server with "
                             "'auth: none'",
                             {}});
    gateway->api_keys.clear();
    for (std::string& key : keys) add_key(std::move(key), &gateway->api_keys);
}

}  // namespace taproot::config
