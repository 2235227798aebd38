// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace taproot::testing {

static_assert(std::endian::native == std::endian::little);

// Appends GGUF's primitive fields to a byte string. Tests use it directly to build broken files.
class GgufBytes {
public:
    template <typename T>
    requires std::is_arithmetic_v<T> GgufBytes& put(T value) {
        char raw[sizeof(T)];
        std::memcpy(raw, &value, sizeof(T));
        bytes.append(raw, sizeof(T));
        return *this;
    }
    GgufBytes& text(std::string_view value) {
        put<std::uint64_t>(value.size());
        bytes.append(value);
        return *this;
    }
    GgufBytes& raw(std::string_view value) {
        bytes.append(value);
        return *this;
    }
    // Key and value type; the value follows.
    GgufBytes& key(std::string_view name, std::uint32_t type) { return text(name).put(type); }
    GgufBytes& header(std::uint64_t tensors, std::uint64_t keys, std::uint32_t version = 3) {
        return raw("GGUF").put(version).put(tensors).put(keys);
    }
    GgufBytes& pad(std::size_t alignment) {
        while (bytes.size() % alignment != 0) bytes.push_back('\0');
        return *this;
    }

    std::string bytes;
};

// Builds a well-formed file; values and tensors appear in the order added. A field set wrong on
// purpose (set_* below) stays wrong.
class GgufWriter {
public:
    void number(std::string_view key, std::uint32_t value) { scalar(key, 4, value); }
    void signed_number(std::string_view key, std::int32_t value) { scalar(key, 5, value); }
    void real(std::string_view key, float value) { scalar(key, 6, value); }
    void boolean(std::string_view key, bool value) {
        scalar(key, 7, static_cast<std::uint8_t>(value));
    }
    void string(std::string_view key, std::string_view value) {
        drop(key);
        keys_.push_back({std::string(key), GgufBytes().key(key, 8).text(value).bytes});
    }
    void strings(std::string_view key, std::span<const std::string> values) {
        GgufBytes out;
        out.key(key, 9).put<std::uint32_t>(8).put<std::uint64_t>(values.size());
        for (const std::string& value : values) out.text(value);
        drop(key);
        keys_.push_back({std::string(key), std::move(out.bytes)});
    }
    // T: std::int32_t (type 5), std::uint32_t (4), float (6).
    template <typename T>
    void array(std::string_view key, std::span<const T> values) {
        constexpr std::uint32_t type = std::is_same_v<T, float>          ? 6
                                       : std::is_same_v<T, std::int32_t> ? 5
                                                                         : 4;
        GgufBytes out;
        out.key(key, 9).put(type).put<std::uint64_t>(values.size());
        for (T value : values) out.put(value);
        drop(key);
        keys_.push_back({std::string(key), std::move(out.bytes)});
    }
    // Removes a key if present (each setter replaces an earlier value of the same key).
    void drop(std::string_view key) {
        std::erase_if(keys_, [&](const Field& field) { return field.name == key; });
    }

    // dims: innermost first. type: ggml id. `data` is placed at the next aligned offset.
    void tensor(std::string_view name, std::span<const std::uint64_t> dims, std::uint32_t type,
                std::string data) {
        tensors_.push_back({std::string(name), {dims.begin(), dims.end()}, type, std::move(data)});
    }
    void drop_tensor(std::string_view name) {
        std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
    }

    [[nodiscard]] std::string finish(std::size_t alignment = 32) const {
        GgufBytes out;
        out.header(tensors_.size(), keys_.size());
        for (const Field& field : keys_) out.raw(field.bytes);
        std::uint64_t offset = 0;
        for (const Tensor& tensor : tensors_) {
            out.text(tensor.name).put(static_cast<std::uint32_t>(tensor.dims.size()));
            for (std::uint64_t dim : tensor.dims) out.put(dim);
            out.put(tensor.type).put(offset);
            offset += (tensor.data.size() + alignment - 1) / alignment * alignment;
        }
        for (const Tensor& tensor : tensors_) out.pad(alignment).raw(tensor.data);
        return std::move(out.pad(alignment).bytes);
    }

private:
    struct Field {
        std::string name;
        std::string bytes;
    };
    struct Tensor {
        std::string name;
        std::vector<std::uint64_t> dims;
        std::uint32_t type;
        std::string data;
    };
    template <typename T>
    void scalar(std::string_view key, std::uint32_t type, T value) {
        drop(key);
        keys_.push_back({std::string(key), GgufBytes().key(key, type).put(value).bytes});
    }

    std::vector<Field> keys_;
    std::vector<Tensor> tensors_;
};

}  // namespace taproot::testing
