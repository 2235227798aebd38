// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace taproot::gateway {

// Takes fields out of one JSON object with their type and range checked. The first problem is kept
// (error()), later calls then return defaults, so a parser reads as a list of fields and checks
// once. An explicit null is the same as absent. Fields never taken stay in unknown().
class FieldReader {
public:
    // `where` prefixes names in errors: "stream_options" makes "stream_options.include_usage".
    explicit FieldReader(const boost::json::object& object, std::string where = {});

    // The value when present and not null; marks the field as known.
    const boost::json::value* find(std::string_view name);

    std::optional<bool> boolean(std::string_view name);
    std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
    // Finite numbers only. `low_open`: the lower end itself is refused.
    enum class LowEnd : std::uint8_t { kClosed, kOpen };
    std::optional<double> number(std::string_view name, double low, double high,
                                 LowEnd low_end = LowEnd::kClosed);
    std::optional<std::string> string(std::string_view name, std::size_t bytes_max);
    const boost::json::object* object(std::string_view name);
    const boost::json::array* array(std::string_view name);

    // Records a problem with a field ("" = the object itself).
    void fail(std::string_view name, std::string message,
              ErrorCode code = ErrorCode::kInvalidArgument);
    [[nodiscard]] bool ok() const { return !error_; }
    [[nodiscard]] Error error() const { return *error_; }

    [[nodiscard]] std::vector<std::string_view> unknown() const;

private:
    [[nodiscard]] std::string path(std::string_view name) const;

    const boost::json::object& object_;
    std::string where_;
    std::vector<std::string_view> known_;
    std::optional<Error> error_;
};

// An integer, or a float without fraction (clients in JavaScript send 16.0); else empty.
std::optional<std::int64_t> exact_integer(const boost::json::value& value);
// "a string", "an object", ...: for messages.
std::string_view json_kind(const boost::json::value& value);

}  // namespace taproot::gateway
