// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/number_format.h"

#include <fmt/format.h>

#include <cmath>

#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"
#include "text/jinja/work.h"

namespace taproot::jinja {
namespace {

std::string with_sign(bool negative, char sign, std::string digits) {
    if (negative) return "-" + digits;
    return sign == '-' ? digits : sign + digits;
}

// Inserts ',' every three digits of the whole part, which begins at `begin`.
void group_thousands(std::string& digits) {
    std::size_t end = digits.find_first_not_of("0123456789");
    if (end == std::string::npos) end = digits.size();
    for (std::size_t at = end; at > 3; at -= 3) digits.insert(at - 3, 1, ',');
}

std::string float_digits(double value, const FieldFormat& field) {
    const int precision = std::min(field.precision < 0 ? 6 : field.precision, 400);
    const char type = field.type == '%' ? 'f' : field.type;
    const double shown = field.type == '%' ? value * 100 : value;
    // Alternate form keeps the point and, for g, the zeros at the end.
    const std::string spec =
        std::string(field.alternate ? "{:#.{}" : "{:.{}") + (type == 'F' ? 'f' : type) + "}";
    return fmt::format(fmt::runtime(spec), shown, precision);
}

}  // namespace

std::string format_integer(std::int64_t value, const FieldFormat& field) {
    const bool negative = value < 0;
    const auto size = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(value)
                               : static_cast<std::uint64_t>(value);
    std::string digits;
    const char* prefix = "";
    switch (field.type) {
        case 'x':
            digits = fmt::format("{:x}", size), prefix = "0x";
            break;
        case 'X':
            digits = fmt::format("{:X}", size), prefix = "0X";
            break;
        case 'o':
            digits = fmt::format("{:o}", size), prefix = "0o";
            break;
        case 'b':
            digits = fmt::format("{:b}", size), prefix = "0b";
            break;
        default:
            digits = std::to_string(size);
            break;
    }
    if (field.grouped) group_thousands(digits);
    if (field.alternate) digits.insert(0, prefix);
    return with_sign(negative, field.sign, digits);
}

std::string format_float(double value, const FieldFormat& field) {
    const bool negative = std::signbit(value) && !std::isnan(value);
    std::string digits;
    if (std::isfinite(value)) {
        digits = float_digits(std::abs(value), field);
        if (field.grouped) group_thousands(digits);
    } else {
        const bool upper = field.type == 'E' || field.type == 'F' || field.type == 'G';
        digits = std::isnan(value) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf");
    }
    if (field.type == '%') digits += '%';
    return with_sign(negative, field.sign, digits);
}

Text pad_field(Text text, const FieldFormat& field, char default_align) {
    const std::size_t width = static_cast<std::size_t>(field.width);
    const std::size_t length = count_code_points(text.view());
    if (length >= width) return text;
    const std::size_t missing = width - length;
    spend_bytes(width);
    const char align = field.align != 0 ? field.align : default_align;
    std::size_t before = align == '<' ? 0 : missing;
    std::size_t keep = 0;
    if (align == '^') before = missing / 2;
    if (align == '=') {
        const std::string_view view = text.view();
        keep = !view.empty() && (view[0] == '-' || view[0] == '+' || view[0] == ' ') ? 1 : 0;
        const bool prefixed = field.alternate && view.size() > keep + 1 && view[keep] == '0' &&
                              !is_digit(static_cast<unsigned char>(view[keep + 1]));
        if (prefixed) keep += 2;
    }
    Text out;
    out.append(text, 0, keep);
    out.append(std::string(before, field.fill), Origin::kTemplate);
    out.append(text, keep, text.size());
    out.append(std::string(missing - before, field.fill), Origin::kTemplate);
    return out;
}

std::int64_t integer_of(const Value& value, char type) {
    if (value.is_undefined()) raise_undefined(value);
    if (value.is_integral()) return value.as_int();
    if (value.is(Kind::kFloat) && (type == 'd' || type == 'i' || type == 'u')) {
        const double whole = std::trunc(value.as_double());
        if (!(std::abs(whole) < 9.2e18))
            raise("OverflowError", "cannot convert this float to an integer");
        return static_cast<std::int64_t>(whole);
    }
    raise("TypeError",
          std::string("%") + type + " format: a real number is required, not " + type_name(value));
}

}  // namespace taproot::jinja
