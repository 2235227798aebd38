// SPDX-License-Identifier: Apache-2.0
#include "link/msgpack.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/assert.h"

namespace taproot::link {

// --- writer --------------------------------------------------------------------------------------

template <typename T>
void MsgpackWriter::big_endian(T value) {
    for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
        byte(static_cast<unsigned>((value >> shift) & 0xFF));
}

void MsgpackWriter::uint(std::uint64_t value) {
    if (value < 0x80) return byte(static_cast<unsigned>(value));
    if (value <= 0xFF) {
        byte(0xCC);
        byte(static_cast<unsigned>(value));
    } else if (value <= 0xFFFF) {
        byte(0xCD);
        big_endian(static_cast<std::uint16_t>(value));
    } else if (value <= 0xFFFF'FFFF) {
        byte(0xCE);
        big_endian(static_cast<std::uint32_t>(value));
    } else {
        byte(0xCF);
        big_endian(value);
    }
}

void MsgpackWriter::sint(std::int64_t value) {
    if (value >= 0) return uint(static_cast<std::uint64_t>(value));
    auto bits = static_cast<std::uint64_t>(value);
    if (value >= -32) return byte(static_cast<unsigned>(bits & 0xFF));
    if (value >= std::numeric_limits<std::int8_t>::min()) {
        byte(0xD0);
        byte(static_cast<unsigned>(bits & 0xFF));
    } else if (value >= std::numeric_limits<std::int16_t>::min()) {
        byte(0xD1);
        big_endian(static_cast<std::uint16_t>(bits));
    } else if (value >= std::numeric_limits<std::int32_t>::min()) {
        byte(0xD2);
        big_endian(static_cast<std::uint32_t>(bits));
    } else {
        byte(0xD3);
        big_endian(bits);
    }
}

void MsgpackWriter::float32(float value) {
    byte(0xCA);
    big_endian(std::bit_cast<std::uint32_t>(value));
}

void MsgpackWriter::float64(double value) {
    byte(0xCB);
    big_endian(std::bit_cast<std::uint64_t>(value));
}

void MsgpackWriter::string(std::string_view value) {
    TAPROOT_ASSERT(value.size() <= 0xFFFF'FFFF);
    if (value.size() < 32) {
        byte(0xA0 | static_cast<unsigned>(value.size()));
    } else if (value.size() <= 0xFF) {
        byte(0xD9);
        byte(static_cast<unsigned>(value.size()));
    } else if (value.size() <= 0xFFFF) {
        byte(0xDA);
        big_endian(static_cast<std::uint16_t>(value.size()));
    } else {
        byte(0xDB);
        big_endian(static_cast<std::uint32_t>(value.size()));
    }
    out_.append(value);
}

void MsgpackWriter::array(std::size_t count) {
    TAPROOT_ASSERT(count <= 0xFFFF'FFFF);
    if (count < 16) return byte(0x90 | static_cast<unsigned>(count));
    if (count <= 0xFFFF) {
        byte(0xDC);
        big_endian(static_cast<std::uint16_t>(count));
    } else {
        byte(0xDD);
        big_endian(static_cast<std::uint32_t>(count));
    }
}

void MsgpackWriter::map(std::size_t count) {
    TAPROOT_ASSERT(count <= 0xFFFF'FFFF);
    if (count < 16) return byte(0x80 | static_cast<unsigned>(count));
    if (count <= 0xFFFF) {
        byte(0xDE);
        big_endian(static_cast<std::uint16_t>(count));
    } else {
        byte(0xDF);
        big_endian(static_cast<std::uint32_t>(count));
    }
}

std::span<char> MsgpackWriter::binary(std::size_t size) {
    TAPROOT_ASSERT(size <= 0xFFFF'FFFF);
    if (size <= 0xFF) {
        byte(0xC4);
        byte(static_cast<unsigned>(size));
    } else if (size <= 0xFFFF) {
        byte(0xC5);
        big_endian(static_cast<std::uint16_t>(size));
    } else {
        byte(0xC6);
        big_endian(static_cast<std::uint32_t>(size));
    }
    std::size_t start = out_.size();
    out_.resize(start + size);
    return {out_.data() + start, size};
}

// --- reader --------------------------------------------------------------------------------------

void MsgpackReader::fail(const char* name, std::string message) {
    if (error_) return;
    error_ = Error{ErrorCode::kDataLoss, fmt::format("{} (at byte {})", message, offset_),
                   std::string(name)};
}

void MsgpackReader::wrong_type(const char* name, const char* wanted) {
    fail(name, fmt::format("expected {}, found MessagePack tag 0x{:02x}", wanted, peek()));
}

bool MsgpackReader::need(const char* name, std::size_t size) {
    if (error_) return false;
    if (remaining() >= size) return true;
    fail(name, fmt::format("needs {} bytes, only {} remain", size, remaining()));
    return false;
}

// The caller has checked that the bytes are there.
template <typename T>
T MsgpackReader::big_endian() {
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
        value = static_cast<T>((static_cast<std::uint64_t>(value) << 8) |
                               static_cast<unsigned char>(bytes_[offset_ + i]));
    offset_ += sizeof(T);
    return value;
}

bool MsgpackReader::take_nil() {
    if (error_ || at_end() || peek() != 0xC0) return false;
    ++offset_;
    return true;
}

bool MsgpackReader::boolean(const char* name) {
    if (!need(name, 1)) return false;
    if (peek() != 0xC2 && peek() != 0xC3) {
        wrong_type(name, "a boolean");
        return false;
    }
    return static_cast<unsigned char>(bytes_[offset_++]) == 0xC3;
}

bool MsgpackReader::read_integer(const char* name, Integer* out) {
    if (!need(name, 1)) return false;
    unsigned tag = peek();
    if (tag < 0x80 || tag >= 0xE0) {
        ++offset_;
        out->negative = tag >= 0xE0;
        out->bits = static_cast<std::uint64_t>(static_cast<std::int8_t>(tag));
        return true;
    }
    if (tag < 0xCC || tag > 0xD3) {
        wrong_type(name, "an integer");
        return false;
    }
    bool is_signed = tag >= 0xD0;
    std::size_t width = std::size_t{1} << ((tag - 0xCC) % 4);
    if (!need(name, 1 + width)) return false;
    ++offset_;
    std::uint64_t bits = 0;
    switch (width) {
        case 1:
            bits = big_endian<std::uint8_t>();
            if (is_signed) bits = static_cast<std::uint64_t>(static_cast<std::int8_t>(bits));
            break;
        case 2:
            bits = big_endian<std::uint16_t>();
            if (is_signed) bits = static_cast<std::uint64_t>(static_cast<std::int16_t>(bits));
            break;
        case 4:
            bits = big_endian<std::uint32_t>();
            if (is_signed) bits = static_cast<std::uint64_t>(static_cast<std::int32_t>(bits));
            break;
        default:
            bits = big_endian<std::uint64_t>();
    }
    out->bits = bits;
    out->negative = is_signed && (bits >> 63) != 0;
    return true;
}

std::uint64_t MsgpackReader::uint(const char* name, std::uint64_t max) {
    Integer value;
    if (!read_integer(name, &value)) return 0;
    if (!value.negative && value.bits <= max) return value.bits;
    fail(name, value.negative
                   ? fmt::format("is {}, allowed 0..{}", static_cast<std::int64_t>(value.bits), max)
                   : fmt::format("is {}, allowed 0..{}", value.bits, max));
    return 0;
}

std::int64_t MsgpackReader::sint(const char* name, std::int64_t min, std::int64_t max) {
    Integer value;
    if (!read_integer(name, &value)) return 0;
    bool fits = value.negative || (value.bits >> 63) == 0;
    auto number = static_cast<std::int64_t>(value.bits);
    if (fits && number >= min && number <= max) return number;
    fail(name, fits ? fmt::format("is {}, allowed {}..{}", number, min, max)
                    : fmt::format("is {}, allowed {}..{}", value.bits, min, max));
    return 0;
}

float MsgpackReader::float32(const char* name) {
    if (!need(name, 1)) return 0;
    if (peek() != 0xCA) {
        wrong_type(name, "a float 32");
        return 0;
    }
    if (!need(name, 5)) return 0;
    ++offset_;
    float value = std::bit_cast<float>(big_endian<std::uint32_t>());
    if (std::isfinite(value)) return value;
    fail(name, "is not a finite number");
    return 0;
}

double MsgpackReader::float64(const char* name) {
    if (!need(name, 1)) return 0;
    if (peek() == 0xCA) return static_cast<double>(float32(name));
    if (peek() != 0xCB) {
        wrong_type(name, "a float");
        return 0;
    }
    if (!need(name, 9)) return 0;
    ++offset_;
    double value = std::bit_cast<double>(big_endian<std::uint64_t>());
    if (std::isfinite(value)) return value;
    fail(name, "is not a finite number");
    return 0;
}

bool MsgpackReader::read_length(const char* name, int width, std::size_t* length) {
    if (!need(name, 1 + static_cast<std::size_t>(width))) return false;
    ++offset_;
    if (width == 1) *length = big_endian<std::uint8_t>();
    if (width == 2) *length = big_endian<std::uint16_t>();
    if (width == 4) *length = big_endian<std::uint32_t>();
    return true;
}

std::string_view MsgpackReader::take(const char* name, std::size_t size, std::size_t bytes_max) {
    if (size > bytes_max) {
        fail(name, fmt::format("has {} bytes, allowed {}", size, bytes_max));
        return {};
    }
    if (!need(name, size)) return {};
    std::string_view out = bytes_.substr(offset_, size);
    offset_ += size;
    return out;
}

std::string_view MsgpackReader::string(const char* name, std::size_t bytes_max) {
    if (!need(name, 1)) return {};
    unsigned tag = peek();
    std::size_t size = tag & 0x1F;
    if (tag >= 0xA0 && tag < 0xC0) {
        ++offset_;
    } else if (tag >= 0xD9 && tag <= 0xDB) {
        if (!read_length(name, 1 << (tag - 0xD9), &size)) return {};
    } else {
        wrong_type(name, "a string");
        return {};
    }
    return take(name, size, bytes_max);
}

std::string_view MsgpackReader::binary(const char* name, std::size_t bytes_max) {
    if (!need(name, 1)) return {};
    unsigned tag = peek();
    std::size_t size = 0;
    if (tag < 0xC4 || tag > 0xC6) {
        wrong_type(name, "binary");
        return {};
    }
    if (!read_length(name, 1 << (tag - 0xC4), &size)) return {};
    return take(name, size, bytes_max);
}

std::size_t MsgpackReader::read_count(const char* name, unsigned fix, unsigned wide,
                                      std::size_t bytes_each, std::size_t count_max) {
    if (!need(name, 1)) return 0;
    unsigned tag = peek();
    std::size_t count = tag & 0x0F;
    if ((tag & 0xF0) == fix) {
        ++offset_;
    } else if (tag == wide || tag == wide + 1) {
        if (!read_length(name, tag == wide ? 2 : 4, &count)) return 0;
    } else {
        wrong_type(name, fix == 0x90 ? "an array" : "a map");
        return 0;
    }
    if (count > count_max) {
        fail(name, fmt::format("has {} elements, allowed {}", count, count_max));
        return 0;
    }
    return need(name, count * bytes_each) ? count : 0;
}

std::size_t MsgpackReader::array(const char* name, std::size_t count_max) {
    return read_count(name, 0x90, 0xDC, 1, count_max);
}

std::size_t MsgpackReader::map(const char* name, std::size_t count_max) {
    return read_count(name, 0x80, 0xDE, 2, count_max);
}

// Passes over one value without its children; says how many follow.
bool MsgpackReader::skip_one(const char* name, std::size_t* children) {
    *children = 0;
    if (!need(name, 1)) return false;
    unsigned tag = peek();
    constexpr std::size_t kAny = std::numeric_limits<std::size_t>::max() / 2;
    if ((tag & 0xF0) == 0x90 || tag == 0xDC || tag == 0xDD) {
        *children = array(name, kAny);
    } else if ((tag & 0xF0) == 0x80 || tag == 0xDE || tag == 0xDF) {
        *children = 2 * map(name, kAny);
    } else if ((tag & 0xE0) == 0xA0 || (tag >= 0xD9 && tag <= 0xDB)) {
        string(name, kAny);
    } else if (tag >= 0xC4 && tag <= 0xC6) {
        binary(name, kAny);
    } else if (tag >= 0xC7 && tag <= 0xC9) {  // extension: length, type, bytes
        std::size_t size = 0;
        if (read_length(name, 1 << (tag - 0xC7), &size)) take(name, size + 1, kAny);
    } else if (tag >= 0xD4 && tag <= 0xD8) {  // extension of 1, 2, 4, 8, 16 bytes: type, bytes
        ++offset_;
        take(name, 1 + (std::size_t{1} << (tag - 0xD4)), kAny);
    } else if (tag == 0xCA || tag == 0xCB) {
        take(name, tag == 0xCA ? 5 : 9, kAny);
    } else if (tag == 0xC0 || tag == 0xC2 || tag == 0xC3) {
        ++offset_;
    } else {
        Integer ignored;
        read_integer(name, &ignored);  // 0xC1, never used, fails here
    }
    return ok();
}

void MsgpackReader::skip(const char* name) {
    std::size_t left[kDepthMax] = {1};
    int depth = 0;
    while (depth >= 0) {
        if (left[depth] == 0) {
            --depth;
            continue;
        }
        --left[depth];
        std::size_t children = 0;
        if (!skip_one(name, &children)) return;
        if (children == 0) continue;
        if (++depth == kDepthMax) return fail(name, fmt::format("nests deeper than {}", kDepthMax));
        left[depth] = children;
    }
}

}  // namespace taproot::link
