// SPDX-License-Identifier: Apache-2.0
#include "worker/model/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/units.h"

namespace taproot {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place");

constexpr std::uint64_t kKeyBytesMax = 65535;
constexpr std::uint64_t kKeysMax = 65536;
constexpr std::uint64_t kTensorsMax = 1u << 20;
constexpr std::uint64_t kTensorNameBytesMax = 1024;
constexpr int kArrayDepthMax = 4;
constexpr std::uint64_t kAlignmentMin = 8;  // the specification: a multiple of 8
constexpr std::uint64_t kAlignmentMax = 1u << 20;

template <typename T>
T load(const std::byte* from) {
    T out;
    std::memcpy(&out, from, sizeof(T));
    return out;
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Names come from the file: printable and short in messages.
std::string printable(std::string_view text) {
    constexpr std::size_t kShown = 80;
    std::string out;
    for (char c : text.substr(0, kShown))
        out += c >= 0x20 && c < 0x7f ? std::string(1, c) : std::string("?");
    if (text.size() > kShown) out += "...";
    return out;
}

}  // namespace

std::string GgufTensor::shape() const {
    std::string out = "[";
    for (int i = 0; i < dims_count; ++i)
        out += fmt::format("{}{}", i == 0 ? "" : ", ", dims[static_cast<std::size_t>(i)]);
    return out + "]";
}

// One pass over the header, the keys and the tensor infos. `at_` never passes the end of the file:
// need() proves every step first.
class GgufParser {
public:
    GgufParser(std::span<const std::byte> bytes, std::string name) {
        out_.bytes_ = bytes;
        out_.name_ = std::move(name);
    }

    Result<GgufFile> parse() {
        TAPROOT_CHECK_OK(read_header());
        for (std::uint64_t i = 0; i < key_count_; ++i) TAPROOT_CHECK_OK(read_key());
        place_ = "general.alignment";
        TAPROOT_CHECK_OK(read_alignment());
        for (std::uint64_t i = 0; i < tensor_count_; ++i) TAPROOT_CHECK_OK(read_tensor());
        place_ = "tensor data";
        TAPROOT_CHECK_OK(place_tensors());
        return std::move(out_);
    }

private:
    [[nodiscard]] Error fail(std::string message, ErrorCode code = ErrorCode::kDataLoss) const {
        std::string where = out_.name_ + ": ";
        if (!place_.empty()) where += place_ + " ";
        return {code, std::move(message), where + fmt::format("(byte {})", at_)};
    }

    [[nodiscard]] std::uint64_t remaining() const { return out_.bytes_.size() - at_; }

    Result<void> need(std::uint64_t bytes, std::string_view what) const {
        if (bytes > remaining())
            return fail(fmt::format("{} needs {} bytes, {} are left in the file", what, bytes,
                                    remaining()));
        return {};
    }

    template <typename T>
    Result<T> take(std::string_view what) {
        TAPROOT_CHECK_OK(need(sizeof(T), what));
        T out = load<T>(out_.bytes_.data() + at_);
        at_ += sizeof(T);
        return out;
    }

    Result<std::string_view> take_text(std::string_view what, std::uint64_t bytes_max) {
        TAPROOT_TRY(std::uint64_t length, take<std::uint64_t>(what));
        if (length > bytes_max)
            return fail(
                fmt::format("{} of {} bytes, at most {} are allowed", what, length, bytes_max));
        TAPROOT_CHECK_OK(need(length, what));
        auto out = as_text(out_.bytes_.subspan(at_, length));
        at_ += length;
        return out;
    }

    Result<GgufType> take_type(std::string_view what) {
        TAPROOT_TRY(std::uint32_t id, take<std::uint32_t>(what));
        if (id > static_cast<std::uint32_t>(GgufType::kF64))
            return fail(fmt::format("{} {} is unknown, 0..12 are defined", what, id));
        return static_cast<GgufType>(id);
    }

    Result<void> read_header() {
        TAPROOT_CHECK_OK(need(4, "the magic 'GGUF'"));
        if (as_text(out_.bytes_.first(4)) != "GGUF") return fail("not a GGUF file (no 'GGUF')");
        at_ = 4;
        TAPROOT_TRY(out_.version_, take<std::uint32_t>("version"));
        if ((out_.version_ & 0xffff) == 0)
            return fail("big-endian GGUF is not supported", ErrorCode::kUnsupported);
        if (out_.version_ != 2 && out_.version_ != 3)
            return fail(fmt::format("GGUF version {} is not supported, 2 and 3 are", out_.version_),
                        ErrorCode::kUnsupported);
        TAPROOT_TRY(tensor_count_, take<std::uint64_t>("tensor count"));
        TAPROOT_TRY(key_count_, take<std::uint64_t>("key count"));
        // The smallest key: length, one character, type, one byte; the smallest tensor info alike.
        if (key_count_ > std::min(kKeysMax, remaining() / 14))
            return fail(fmt::format("{} keys cannot be in the {} bytes left (limit {})", key_count_,
                                    remaining(), kKeysMax));
        if (tensor_count_ > std::min(kTensorsMax, remaining() / 33))
            return fail(fmt::format("{} tensors cannot be in the {} bytes left (limit {})",
                                    tensor_count_, remaining(), kTensorsMax));
        return {};
    }

    Result<void> read_key() {
        place_ = fmt::format("key {}", out_.values_.size());
        TAPROOT_TRY(std::string_view key, take_text("key", kKeyBytesMax));
        if (key.empty()) return fail("empty key");
        place_ = fmt::format("key '{}'", printable(key));
        TAPROOT_TRY(GgufType type, take_type("value type"));
        TAPROOT_TRY(GgufValue value, read_value(type));
        if (!out_.values_.emplace(key, value).second) return fail("appears twice");
        return {};
    }

    Result<GgufValue> read_value(GgufType type) {
        GgufValue value;
        value.type = type;
        value.offset = at_;
        if (type == GgufType::kArray) {
            TAPROOT_CHECK_OK(read_array(&value, 1));
        } else if (type == GgufType::kString) {
            TAPROOT_TRY(std::string_view text, take_text("string", remaining()));
            value.bytes = std::as_bytes(std::span(text));
        } else {
            TAPROOT_CHECK_OK(take_numbers(type, 1, &value.bytes));
        }
        return value;
    }

    Result<void> take_numbers(GgufType type, std::uint64_t count,
                              std::span<const std::byte>* numbers) {
        auto bytes = checked_mul(count, number_bytes(type));
        if (!bytes) return fail(fmt::format("{} values overflow", count));
        TAPROOT_CHECK_OK(need(*bytes, to_string(type)));
        *numbers = out_.bytes_.subspan(at_, *bytes);
        if (type == GgufType::kBool)
            for (std::byte value : *numbers)
                if (value > std::byte{1})
                    return fail(fmt::format("bool is {}, 0 and 1 are allowed",
                                            std::to_integer<int>(value)));
        at_ += *bytes;
        return {};
    }

    // Reads element type, count and elements; walks strings and inner arrays to their end.
    Result<void> read_array(GgufValue* value, int depth) {
        if (depth > kArrayDepthMax)
            return fail(fmt::format("arrays nested deeper than {}", kArrayDepthMax));
        TAPROOT_TRY(value->element, take_type("element type"));
        TAPROOT_TRY(value->count, take<std::uint64_t>("array length"));
        if (number_bytes(value->element) != 0)
            return take_numbers(value->element, value->count, &value->bytes);
        bool strings = value->element == GgufType::kString;
        if (value->count > remaining() / (strings ? 8 : 12))
            return fail(fmt::format("{} elements cannot be in the {} bytes left", value->count,
                                    remaining()));
        std::uint64_t begin = at_;
        for (std::uint64_t i = 0; i < value->count; ++i) {
            if (strings) {
                TAPROOT_CHECK_OK(take_text("string", remaining()));
            } else {
                GgufValue inner;
                TAPROOT_CHECK_OK(read_array(&inner, depth + 1));
            }
        }
        value->bytes = out_.bytes_.subspan(begin, at_ - begin);
        return {};
    }

    Result<void> read_alignment() {
        const GgufValue* value = out_.find("general.alignment");
        if (value == nullptr) return {};
        if (value->type != GgufType::kU32)
            return fail(fmt::format("is of type {}, u32 is required", to_string(value->type)));
        out_.alignment_ = load<std::uint32_t>(value->bytes.data());
        if (!std::has_single_bit(out_.alignment_) || out_.alignment_ < kAlignmentMin ||
            out_.alignment_ > kAlignmentMax)
            return fail(fmt::format("is {}, a power of two in {}..{} is required", out_.alignment_,
                                    kAlignmentMin, kAlignmentMax));
        return {};
    }

    Result<void> read_tensor() {
        place_ = fmt::format("tensor {}", out_.tensors_.size());
        GgufTensor tensor;
        TAPROOT_TRY(tensor.name, take_text("tensor name", kTensorNameBytesMax));
        if (tensor.name.empty()) return fail("empty tensor name");
        place_ = fmt::format("tensor '{}'", printable(tensor.name));
        TAPROOT_TRY(std::uint32_t dims_count, take<std::uint32_t>("number of dimensions"));
        if (dims_count < 1 || dims_count > tensor.dims.size())
            return fail(fmt::format("{} dimensions, 1..4 are allowed", dims_count));
        tensor.dims_count = static_cast<int>(dims_count);
        tensor.elements = 1;
        for (std::uint32_t i = 0; i < dims_count; ++i) {
            TAPROOT_TRY(tensor.dims[i], take<std::uint64_t>("dimension"));
            auto product = checked_mul(tensor.elements, tensor.dims[i]);
            if (tensor.dims[i] == 0) return fail(fmt::format("dimension {} is 0", i));
            if (!product || *product > std::numeric_limits<std::int64_t>::max())
                return fail(
                    fmt::format("the product of its dimensions overflows at {}", tensor.dims[i]));
            tensor.elements = *product;
        }
        TAPROOT_TRY(std::uint32_t type, take<std::uint32_t>("tensor type"));
        tensor.type = find_ggml_type(type);
        if (tensor.type == nullptr)
            return fail(fmt::format("tensor type {} is not known", type), ErrorCode::kUnsupported);
        if (tensor.columns() % tensor.type->elements != 0)
            return fail(fmt::format("rows of {} weights, {} needs a multiple of {}",
                                    tensor.columns(), tensor.type->name, tensor.type->elements));
        TAPROOT_TRY(tensor.offset, take<std::uint64_t>("offset"));
        if (!out_.tensor_index_.emplace(tensor.name, out_.tensors_.size()).second)
            return fail("appears twice");
        out_.tensors_.push_back(tensor);
        return {};
    }

    // Turns offsets within the data section into views; ranges lie in the file and apart.
    Result<void> place_tensors() {
        out_.data_offset_ = round_up(at_, out_.alignment_);
        at_ = std::min<std::uint64_t>(out_.data_offset_, out_.bytes_.size());
        std::uint64_t data_bytes = remaining();
        for (GgufTensor& tensor : out_.tensors_) {
            place_ = fmt::format("tensor '{}'", printable(tensor.name));
            if (tensor.offset % out_.alignment_ != 0)
                return fail(fmt::format("offset {} is not a multiple of the alignment {}",
                                        tensor.offset, out_.alignment_));
            auto bytes = checked_mul(tensor.elements / tensor.type->elements, tensor.type->bytes);
            auto end = bytes ? checked_add(tensor.offset, *bytes) : std::nullopt;
            if (!end || *end > data_bytes)
                return fail(fmt::format(
                    "offset {} and size {} leave the data section of {} bytes", tensor.offset,
                    bytes ? fmt::format("{}", *bytes) : "beyond 64 bits", data_bytes));
            tensor.offset += out_.data_offset_;
            tensor.bytes = out_.bytes_.subspan(tensor.offset, *bytes);
        }
        return check_apart();
    }

    Result<void> check_apart() {
        std::vector<const GgufTensor*> order;
        order.reserve(out_.tensors_.size());
        for (const GgufTensor& tensor : out_.tensors_) order.push_back(&tensor);
        std::sort(order.begin(), order.end(),
                  [](const auto* a, const auto* b) { return a->offset < b->offset; });
        for (std::size_t i = 1; i < order.size(); ++i) {
            const GgufTensor& before = *order[i - 1];
            at_ = order[i]->offset;
            place_ = fmt::format("tensor '{}'", printable(order[i]->name));
            if (before.offset + before.bytes.size() > order[i]->offset)
                return fail(fmt::format("overlaps tensor '{}'", printable(before.name)));
        }
        return {};
    }

    GgufFile out_;
    std::uint64_t at_ = 0;
    std::uint64_t key_count_ = 0;
    std::uint64_t tensor_count_ = 0;
    std::string place_ = "header";
};

Result<GgufFile> GgufFile::open(const std::filesystem::path& path) {
    TAPROOT_TRY(MappedFile mapping, MappedFile::open(path));
    TAPROOT_TRY(GgufFile file, parse(mapping.bytes(), path.string()));
    file.mapping_ = std::move(mapping);
    return file;
}

Result<GgufFile> GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
    return GgufParser(bytes, std::move(name)).parse();
}

const GgufValue* GgufFile::find(std::string_view key) const {
    auto found = values_.find(key);
    return found == values_.end() ? nullptr : &found->second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
    auto found = tensor_index_.find(name);
    return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Error GgufFile::key_error(ErrorCode code, std::string_view key, std::string message) const {
    const GgufValue* value = find(key);
    std::string byte = value != nullptr ? fmt::format(" (byte {})", value->offset) : "";
    return {code, std::move(message), fmt::format("{}: key '{}'{}", name_, printable(key), byte)};
}

Error GgufFile::tensor_error(ErrorCode code, std::string_view tensor, std::string message) const {
    return {code, std::move(message), fmt::format("{}: tensor '{}'", name_, printable(tensor))};
}

}  // namespace taproot
