// SPDX-License-Identifier: Apache-2.0
// The typed reads of GgufFile.
#include <fmt/format.h>

#include <cstring>
#include <limits>
#include <utility>

#include "worker/model/gguf.h"

namespace taproot {
namespace {

template <typename T>
T load(const std::byte* from) {
    T out;
    std::memcpy(&out, from, sizeof(T));
    return out;
}

bool is_integer(GgufType type) {
    return number_bytes(type) != 0 && type != GgufType::kBool && type != GgufType::kF32 &&
           type != GgufType::kF64;
}

// REQUIRES: is_integer(type). Empty when the value does not fit.
std::optional<std::int64_t> load_integer(GgufType type, const std::byte* from) {
    switch (type) {
        case GgufType::kU8:
            return load<std::uint8_t>(from);
        case GgufType::kI8:
            return load<std::int8_t>(from);
        case GgufType::kU16:
            return load<std::uint16_t>(from);
        case GgufType::kI16:
            return load<std::int16_t>(from);
        case GgufType::kU32:
            return load<std::uint32_t>(from);
        case GgufType::kI32:
            return load<std::int32_t>(from);
        case GgufType::kI64:
            return load<std::int64_t>(from);
        default: {
            auto value = load<std::uint64_t>(from);
            if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
                return std::nullopt;
            return static_cast<std::int64_t>(value);
        }
    }
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string describe_type(const GgufValue& value) {
    if (value.type != GgufType::kArray) return std::string(to_string(value.type));
    return fmt::format("array of {}", to_string(value.element));
}

Error wrong_type(const GgufFile& file, std::string_view key, const GgufValue& value,
                 std::string_view wanted) {
    return file.key_error(
        ErrorCode::kInvalidArgument, key,
        fmt::format("is of type {}, {} is required", describe_type(value), wanted));
}

}  // namespace

Result<std::optional<std::int64_t>> GgufFile::find_integer(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::optional<std::int64_t>();
    if (!is_integer(value->type)) return wrong_type(*this, key, *value, "an integer");
    auto number = load_integer(value->type, value->bytes.data());
    if (!number) return key_error(ErrorCode::kInvalidArgument, key, "is beyond 63 bits");
    return number;
}

Result<std::optional<double>> GgufFile::find_real(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::optional<double>();
    if (value->type == GgufType::kF32)
        return std::optional<double>(static_cast<double>(load<float>(value->bytes.data())));
    if (value->type == GgufType::kF64)
        return std::optional<double>(load<double>(value->bytes.data()));
    return wrong_type(*this, key, *value, "f32 or f64");
}

Result<std::optional<bool>> GgufFile::find_bool(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::optional<bool>();
    if (value->type != GgufType::kBool) return wrong_type(*this, key, *value, "bool");
    return std::optional<bool>(value->bytes[0] != std::byte{0});
}

Result<std::optional<std::string_view>> GgufFile::find_string(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::optional<std::string_view>();
    if (value->type != GgufType::kString) return wrong_type(*this, key, *value, "string");
    return std::optional<std::string_view>(as_text(value->bytes));
}

Result<std::optional<std::vector<std::string_view>>> GgufFile::find_strings(
    std::string_view key) const {
    using Strings = std::optional<std::vector<std::string_view>>;
    const GgufValue* value = find(key);
    if (value == nullptr) return Strings();
    if (value->type != GgufType::kArray || value->element != GgufType::kString)
        return wrong_type(*this, key, *value, "array of string");
    std::vector<std::string_view> out;
    out.reserve(value->count);
    std::span<const std::byte> rest = value->bytes;  // lengths were proved by the parser
    for (std::uint64_t i = 0; i < value->count; ++i) {
        auto length = load<std::uint64_t>(rest.data());
        out.push_back(as_text(rest.subspan(8, length)));
        rest = rest.subspan(8 + length);
    }
    return Strings(std::move(out));
}

Result<std::optional<std::vector<std::int64_t>>> GgufFile::find_integers(
    std::string_view key) const {
    using Integers = std::optional<std::vector<std::int64_t>>;
    const GgufValue* value = find(key);
    if (value == nullptr) return Integers();
    if (value->type != GgufType::kArray || !is_integer(value->element))
        return wrong_type(*this, key, *value, "array of integers");
    std::vector<std::int64_t> out;
    out.reserve(value->count);
    std::uint64_t step = number_bytes(value->element);
    for (std::uint64_t i = 0; i < value->count; ++i) {
        auto number = load_integer(value->element, value->bytes.data() + i * step);
        if (!number)
            return key_error(ErrorCode::kInvalidArgument, key,
                             fmt::format("element {} is beyond 63 bits", i));
        out.push_back(*number);
    }
    return Integers(std::move(out));
}

}  // namespace taproot
