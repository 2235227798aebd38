// SPDX-License-Identifier: Apache-2.0
#include "config/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "base/units.h"

namespace taproot::config {
namespace {

struct Unit {
    std::string_view name;  // in lower case
    std::uint64_t factor;
};

constexpr Unit kSizeUnits[] = {{"", 1},
                               {"b", 1},
                               {"kib", 1_KiB},
                               {"mib", 1_MiB},
                               {"gib", 1_GiB},
                               {"tib", 1024_GiB},
                               {"kb", 1'000},
                               {"mb", 1'000'000},
                               {"gb", 1'000'000'000},
                               {"tb", 1'000'000'000'000}};

constexpr Unit kTimeUnits[] = {{"", 1},         {"ms", 1},        {"s", 1'000},     {"m", 60'000},
                               {"min", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    return out;
}

std::size_t count_digits(std::string_view text) {
    return std::min(text.find_first_not_of("0123456789"), text.size());
}

// digits[.digits] [space] unit, exactly: the fraction must vanish when multiplied by the unit.
std::optional<std::uint64_t> parse_quantity(std::string_view text, std::span<const Unit> units) {
    std::string digits(text.substr(0, count_digits(text)));
    if (digits.empty()) return std::nullopt;
    text.remove_prefix(digits.size());
    std::uint64_t divisor = 1;
    if (text.starts_with('.')) {
        const std::size_t decimals = count_digits(text.substr(1));
        if (decimals == 0 || decimals > 9) return std::nullopt;
        digits += text.substr(1, decimals);
        text.remove_prefix(1 + decimals);
        for (std::size_t i = 0; i < decimals; ++i) divisor *= 10;
    }
    const auto number = parse_count(digits);
    if (!number) return std::nullopt;
    while (text.starts_with(' ')) text.remove_prefix(1);
    const std::string name = lower(text);
    const auto unit =
        std::find_if(units.begin(), units.end(), [&name](const Unit& u) { return u.name == name; });
    if (unit == units.end()) return std::nullopt;
    const auto scaled = checked_mul(*number, unit->factor);
    if (!scaled || *scaled % divisor != 0) return std::nullopt;
    return *scaled / divisor;
}

}  // namespace

std::optional<std::uint64_t> parse_count(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
    return parse_quantity(text, kSizeUnits);
}

std::optional<std::uint64_t> parse_time_ms(std::string_view text) {
    return parse_quantity(text, kTimeUnits);
}

std::string format_size(std::uint64_t bytes) {
    constexpr Unit kShown[] = {{"TiB", 1024_GiB}, {"GiB", 1_GiB}, {"MiB", 1_MiB}, {"KiB", 1_KiB}};
    for (const Unit& unit : kShown)
        if (bytes != 0 && bytes % unit.factor == 0)
            return fmt::format("{}{}", bytes / unit.factor, unit.name);
    return fmt::format("{}", bytes);
}

std::string format_time_ms(std::uint64_t ms) {
    constexpr Unit kShown[] = {{"h", 3'600'000}, {"min", 60'000}, {"s", 1'000}};
    for (const Unit& unit : kShown)
        if (ms != 0 && ms % unit.factor == 0)
            return fmt::format("{}{}", ms / unit.factor, unit.name);
    return fmt::format("{}ms", ms);
}

}  // namespace taproot::config
