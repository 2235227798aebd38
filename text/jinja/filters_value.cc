// SPDX-License-Identifier: Apache-2.0
// Filters over single values: default, numbers, JSON.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/json.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja {
namespace {

Value default_filter(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("default", args);
    const Value* fallback = reader.optional("default_value");
    const Value* boolean = reader.optional("boolean");
    reader.finish();
    const bool replaces =
        input.is_undefined() || (boolean != nullptr && is_truthy(*boolean) && !is_truthy(input));
    if (!replaces) return input;
    return fallback != nullptr ? *fallback : Value::template_string("");
}

Value abs_filter(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader("abs", args).finish();
    if (input.is_undefined()) raise_undefined(input);
    if (!input.is_number())
        raise("TypeError", std::string("bad operand type for abs(): '") + type_name(input) + "'");
    if (input.is(Kind::kFloat)) return Value::number(std::abs(input.as_double()));
    return input.as_int() < 0 ? negate(input) : plus(input);
}

std::string_view trimmed(std::string_view text) {
    text = text.substr(0, skip_space_right(text));
    return text.substr(skip_space_left(text));
}

// Removes single underscores between digits; false where Python refuses them.
bool remove_underscores(std::string_view text, std::string& out) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '_') {
            out += text[i];
            continue;
        }
        const bool between = i > 0 && i + 1 < text.size() && hex_digit(text[i - 1]) >= 0 &&
                             hex_digit(text[i + 1]) >= 0;
        if (!between) return false;
    }
    return true;
}

// Python's int(text, base).
std::optional<Value> parse_integer(std::string_view text, std::int64_t base) {
    std::string digits;
    if (!remove_underscores(trimmed(text), digits)) return std::nullopt;
    const bool negative = !digits.empty() && digits[0] == '-';
    if (negative || (!digits.empty() && digits[0] == '+')) digits.erase(0, 1);
    if (digits.size() > 2 && digits[0] == '0') {
        const char letter = static_cast<char>(digits[1] | 0x20);
        const int prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
        if (prefixed != 0 && (base == prefixed || base == 0)) {
            digits.erase(0, 2);
            base = prefixed;
        }
    }
    if (base == 0) base = 10;
    if (base < 2 || base > 36 || digits.empty() || digits[0] == '-') return std::nullopt;
    std::int64_t value = 0;
    const char* end = digits.data() + digits.size();
    const std::string signed_digits = (negative ? "-" : "") + digits;
    const auto parsed =
        std::from_chars(signed_digits.data(), signed_digits.data() + signed_digits.size(), value,
                        static_cast<int>(base));
    if (parsed.ptr != signed_digits.data() + signed_digits.size()) return std::nullopt;
    if (parsed.ec == std::errc()) return Value::integer(value);
    if (base != 10 || !std::all_of(static_cast<const char*>(digits.data()), end,
                                   [](char c) { return c >= '0' && c <= '9'; })) {
        return std::nullopt;
    }
    return Value::big_integer(signed_digits);
}

// Python's float(text).
std::optional<double> parse_float(std::string_view text) {
    std::string digits;
    if (!remove_underscores(trimmed(text), digits) || digits.empty()) return std::nullopt;
    if (digits.find_first_of("xXpP") != std::string::npos || digits.find('(') != std::string::npos)
        return std::nullopt;
    char* end = nullptr;
    const double value = std::strtod(digits.c_str(), &end);
    if (end != digits.c_str() + digits.size()) return std::nullopt;
    return value;
}

std::optional<Value> truncated(double value) {
    const double whole = std::trunc(value);
    if (!(std::abs(whole) < 9.2e18)) return std::nullopt;
    return Value::integer(static_cast<std::int64_t>(whole));
}

Value int_filter(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("int", args);
    const Value* fallback = reader.optional("default");
    const Value* base = reader.optional("base");
    reader.finish();
    if (input.is_undefined()) raise_undefined(input);
    std::optional<Value> result;
    if (input.is_integral()) result = plus(input);
    if (input.is(Kind::kBigInt)) result = input;
    if (input.is(Kind::kFloat)) result = truncated(input.as_double());
    if (input.is_string()) {
        result = parse_integer(input.view(),
                               base != nullptr && base->is_integral() ? base->as_int() : 10);
        if (!result) {
            if (const std::optional<double> number = parse_float(input.view()))
                result = truncated(*number);
        }
    }
    if (result) return *std::move(result);
    return fallback != nullptr ? *fallback : Value::integer(0);
}

Value float_filter(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("float", args);
    const Value* fallback = reader.optional("default");
    reader.finish();
    if (input.is_undefined()) raise_undefined(input);
    if (input.is_number()) return Value::number(input.as_double());
    if (input.is(Kind::kBigInt))
        return Value::number(std::strtod(input.big_digits().c_str(), nullptr));
    if (input.is_string()) {
        if (const std::optional<double> number = parse_float(input.view()))
            return Value::number(*number);
    }
    return fallback != nullptr ? *fallback : Value::number(0.0);
}

// Python's round(): exact decimal value, ties to even.
double round_even(double value, int precision) {
    if (!std::isfinite(value)) return value;
    if (precision >= 0) {
        char buffer[400];
        const int length =
            std::snprintf(buffer, sizeof buffer, "%.*f", std::min(precision, 60), value);
        return length > 0 ? std::strtod(buffer, nullptr) : value;
    }
    const double unit = std::pow(10.0, -precision);
    return std::nearbyint(value / unit) * unit;
}

Value round_integer(std::int64_t value, int precision) {
    if (precision >= 0) return Value::integer(value);
    if (precision < -18) return Value::integer(0);
    std::int64_t unit = 1;
    for (int i = 0; i < -precision; ++i) unit *= 10;
    const std::int64_t rest = ((value % unit) + unit) % unit;
    const std::int64_t below = value - rest;
    const bool up = rest * 2 > unit || (rest * 2 == unit && (below / unit) % 2 != 0);
    return Value::integer(up ? below + unit : below);
}

Value round_filter(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("round", args);
    const Value* precision_value = reader.optional("precision");
    const Value* method_value = reader.optional("method");
    reader.finish();
    if (precision_value != nullptr && !precision_value->is_integral()) {
        raise("TypeError", std::string("'") + type_name(*precision_value) +
                               "' object cannot be interpreted as an integer");
    }
    const std::int64_t wanted = precision_value == nullptr ? 0 : precision_value->as_int();
    const int precision = static_cast<int>(std::clamp<std::int64_t>(wanted, -400, 400));
    const std::string method = method_value == nullptr ? "common" : to_text(*method_value).bytes();
    if (method != "common" && method != "ceil" && method != "floor") {
        raise("FilterArgumentError", "method must be common, ceil or floor");
    }

    if (!input.is_number()) {
        raise("TypeError",
              std::string("type ") + type_name(input) + " doesn't define __round__ method");
    }
    if (method == "common") {
        if (input.is_integral()) return round_integer(input.as_int(), precision);
        return Value::number(round_even(input.as_double(), precision));
    }
    const double unit = std::pow(10.0, precision);
    const double scaled = input.as_double() * unit;
    return Value::number((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit);
}

std::string indent_text(const Value& indent) {
    if (indent.is_string()) return indent.text().bytes();
    if (!indent.is_integral())
        raise("TypeError", std::string("can't use ") + type_name(indent) + " as an indent");
    const std::int64_t width = indent.as_int();
    if (width > 1000) raise_limit("a JSON indent is wider than 1000");
    return std::string(static_cast<std::size_t>(std::max<std::int64_t>(width, 0)), ' ');
}

Value to_json(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader("tojson", args);
    const Value* ensure_ascii = reader.optional("ensure_ascii");
    const Value* indent = reader.optional("indent");
    const Value* separators = reader.optional("separators");
    const Value* sort_keys = reader.optional("sort_keys");
    reader.finish();
    JsonFormat format;
    format.ensure_ascii = ensure_ascii != nullptr && is_truthy(*ensure_ascii);
    format.sort_keys = sort_keys != nullptr && is_truthy(*sort_keys);
    format.lenient = !interpreter.options().strict_sandbox;
    if (indent != nullptr && !indent->is_none()) {
        format.indent = indent_text(*indent);
        format.item_separator = ",";
    }
    if (separators != nullptr && !separators->is_none()) {
        const bool pair = separators->is_list() && separators->list_data().items.size() == 2;
        if (!pair) raise("ValueError", "separators must be a pair of strings");
        format.item_separator = to_text(separators->list_data().items[0]).bytes();
        format.key_separator = to_text(separators->list_data().items[1]).bytes();
    }
    return Value::string(dump_json(input, format));
}

Value from_json(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader("from_json", args).finish();
    if (!input.is_string()) {
        raise("TypeError", std::string("the JSON object must be str, bytes or bytearray, not ") +
                               type_name(input));
    }
    spend_steps(input.view().size() / 8);
    Result<Value> value = parse_json(input.view(), input.text().blended_origin());
    if (!value) raise("ValueError", value.error().describe());
    return std::move(value).value();
}

Value attr(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader("attr", args);
    const Value& name = reader.required("name");
    reader.finish();
    const Text wanted = to_text(name);
    const bool key_only = input.is_dict() && find_method(input, wanted.view()) == nullptr;
    if (key_only) return make_undefined({.owner = owner_name(input), .name = wanted.bytes()});
    return get_attribute(input, wanted.view(), interpreter.options().strict_sandbox);
}

constexpr auto kFilters = std::to_array<FilterEntry>({
    {"abs", abs_filter},
    {"attr", attr},
    {"d", default_filter},
    {"default", default_filter},
    {"float", float_filter},
    {"from_json", from_json},
    {"int", int_filter},
    {"round", round_filter},
    {"tojson", to_json},
});

}  // namespace

Filters value_filters() {
    return {kFilters.data(), kFilters.data() + kFilters.size()};
}

}  // namespace taproot::jinja
