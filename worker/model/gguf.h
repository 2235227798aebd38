// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "worker/model/gguf_types.h"
#include "worker/model/mapped_file.h"

namespace taproot {

// A metadata value, as a view of the file. Numbers are little-endian and not aligned.
struct GgufValue {
    GgufType type = GgufType::kU8;
    std::uint64_t offset = 0;          // of the value in the file, for messages
    std::span<const std::byte> bytes;  // a number, the text of a string, or packed elements
    GgufType element = GgufType::kU8;  // arrays only
    std::uint64_t count = 0;           // arrays only
};

struct GgufTensor {
    std::string_view name;
    const GgmlType* type = nullptr;
    std::array<std::uint64_t, 4> dims = {1, 1, 1, 1};  // innermost first; all >= 1
    int dims_count = 0;
    std::uint64_t elements = 0;        // product of dims
    std::uint64_t offset = 0;          // in the file
    std::span<const std::byte> bytes;  // row-major: dims[0] weights per row

    [[nodiscard]] std::uint64_t columns() const { return dims[0]; }
    [[nodiscard]] std::uint64_t rows() const { return elements / dims[0]; }
    [[nodiscard]] std::string shape() const;  // "[576, 49152]"
};

// A GGUF file (versions 2 and 3, little-endian), checked as a whole before anything is used: every
// count, length, offset and product against the file's size, without overflow and without reserving
// memory for what the file only claims to hold. All views point into the mapping and live as long
// as this object (moving it keeps them valid). Limits: keys 65 535 bytes (the specification's), 65
// 536 keys, 2^20 tensors, names 1 024 bytes, arrays nested 4 deep. Owner: any one thread; immutable
// after open(). Errors: kIo, kNotFound; kDataLoss for a malformed file, naming key or tensor and
// byte offset; kUnsupported for other versions and tensor types. Cost: one pass over the metadata
// (8 ms for a vocabulary of 49 152), no copies.
class GgufFile {
public:
    static Result<GgufFile> open(const std::filesystem::path& path);
    // From memory that outlives the result; `name` is used in messages.
    static Result<GgufFile> parse(std::span<const std::byte> bytes, std::string name);

    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] std::uint32_t version() const { return version_; }
    [[nodiscard]] std::uint64_t alignment() const { return alignment_; }
    [[nodiscard]] std::uint64_t data_offset() const { return data_offset_; }
    [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
    [[nodiscard]] std::size_t key_count() const { return values_.size(); }
    [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }

    [[nodiscard]] const GgufValue* find(std::string_view key) const;
    [[nodiscard]] const GgufTensor* find_tensor(std::string_view name) const;

    // Typed reads: empty when the key is absent, an error naming key and type when its value is of
    // another kind. find_integer takes every integer type; values above INT64_MAX are an error.
    [[nodiscard]] Result<std::optional<std::int64_t>> find_integer(std::string_view key) const;
    [[nodiscard]] Result<std::optional<double>> find_real(std::string_view key) const;
    [[nodiscard]] Result<std::optional<bool>> find_bool(std::string_view key) const;
    [[nodiscard]] Result<std::optional<std::string_view>> find_string(std::string_view key) const;
    // Arrays of strings; of integers (any integer element type).
    [[nodiscard]] Result<std::optional<std::vector<std::string_view>>> find_strings(
        std::string_view key) const;
    [[nodiscard]] Result<std::optional<std::vector<std::int64_t>>> find_integers(
        std::string_view key) const;

    // An error about a value of this file: "model.gguf: key 'x' (byte 93): message".
    [[nodiscard]] Error key_error(ErrorCode code, std::string_view key, std::string message) const;
    [[nodiscard]] Error tensor_error(ErrorCode code, std::string_view tensor,
                                     std::string message) const;

private:
    friend class GgufParser;

    MappedFile mapping_;
    std::span<const std::byte> bytes_;
    std::string name_;
    std::uint32_t version_ = 0;
    std::uint64_t alignment_ = 32;
    std::uint64_t data_offset_ = 0;
    std::unordered_map<std::string_view, GgufValue> values_;
    std::vector<GgufTensor> tensors_;
    std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace taproot
