// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

// MessagePack (specification of 2013, msgpack.org) as far as the link needs it: our own, because it
// is small and the packaged library binds another Boost (docs/decisions/0002-own-messagepack.md).
namespace taproot::link {

// Appends values to a string the caller owns and may reuse. Always the shortest encoding.
// Cost: a few ns per value, no allocation once the string has grown.
class MsgpackWriter {
public:
    explicit MsgpackWriter(std::string& out) : out_(out) {}

    void nil() { byte(0xC0); }
    void boolean(bool value) { byte(value ? 0xC3 : 0xC2); }
    void uint(std::uint64_t value);
    void sint(std::int64_t value);
    void float32(float value);
    void float64(double value);
    void string(std::string_view value);
    void array(std::size_t count);
    void map(std::size_t count);
    // Opens a binary value and returns its `size` bytes, to be filled before the next call.
    [[nodiscard]] std::span<char> binary(std::size_t size);

private:
    void byte(unsigned value) { out_.push_back(static_cast<char>(value)); }
    template <typename T>
    void big_endian(T value);

    std::string& out_;
};

// Reads values from bytes of a peer, strictly: every length is compared with the bytes that remain
// before anything is allocated or skipped; integers of any width are accepted when the value lies
// in the asked range; anything else is an error. Errors stick: the first one is kept with the name
// of the value and its offset, later reads return zero values, so a caller reads a whole structure
// and asks once. Loops over counts must stop on !ok(). Owner: one thread. Views point into `bytes`.
class MsgpackReader {
public:
    // Nesting that skip() follows.
    static constexpr int kDepthMax = 32;

    explicit MsgpackReader(std::string_view bytes) : bytes_(bytes) {}

    [[nodiscard]] bool ok() const { return !error_.has_value(); }
    [[nodiscard]] const Error& error() const { return *error_; }
    [[nodiscard]] bool at_end() const { return offset_ == bytes_.size(); }
    [[nodiscard]] std::size_t offset() const { return offset_; }
    [[nodiscard]] std::size_t remaining() const { return bytes_.size() - offset_; }

    // Consumes a nil when one is next.
    bool take_nil();
    bool boolean(const char* name);
    std::uint64_t uint(const char* name, std::uint64_t max);
    std::int64_t sint(const char* name, std::int64_t min, std::int64_t max);
    float float32(const char* name);   // must be finite
    double float64(const char* name);  // float 32 or 64; must be finite
    std::string_view string(const char* name, std::size_t bytes_max);
    std::string_view binary(const char* name, std::size_t bytes_max);
    // Number of elements; never more than the bytes that remain (an element has at least one).
    std::size_t array(const char* name, std::size_t count_max);
    std::size_t map(const char* name, std::size_t count_max);  // pairs
    // Passes over one value of any type.
    void skip(const char* name);

    // Records a failure found by the caller (a rule above MessagePack). The first one stays.
    void fail(const char* name, std::string message);

private:
    struct Integer {
        std::uint64_t bits = 0;  // two's complement
        bool negative = false;
    };
    unsigned peek() const { return static_cast<unsigned char>(bytes_[offset_]); }
    bool need(const char* name, std::size_t size);
    template <typename T>
    T big_endian();
    // Reads a length of `width` bytes after the tag byte.
    bool read_length(const char* name, int width, std::size_t* length);
    bool read_integer(const char* name, Integer* out);
    std::size_t read_count(const char* name, unsigned fix, unsigned wide, std::size_t bytes_each,
                           std::size_t count_max);
    std::string_view take(const char* name, std::size_t size, std::size_t bytes_max);
    bool skip_one(const char* name, std::size_t* children);
    void wrong_type(const char* name, const char* wanted);

    std::string_view bytes_;
    std::size_t offset_ = 0;
    std::optional<Error> error_;
};

}  // namespace taproot::link
