// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "text/jinja/escape.h"
#include "text/jinja/operators.h"
#include "text/jinja/raise.h"
#include "text/jinja/work.h"

namespace taproot::jinja {
namespace {

const char* symbol_of(ArithmeticOp op) {
    switch (op) {
        case ArithmeticOp::kAdd:
            return "+";
        case ArithmeticOp::kSub:
            return "-";
        case ArithmeticOp::kMul:
            return "*";
        case ArithmeticOp::kDiv:
            return "/";
        case ArithmeticOp::kFloorDiv:
            return "//";
        case ArithmeticOp::kMod:
            return "%";
        case ArithmeticOp::kPow:
            return "** or pow()";
    }
    return "?";
}

[[noreturn]] void raise_operands(ArithmeticOp op, const Value& left, const Value& right) {
    raise("TypeError", std::string("unsupported operand type(s) for ") + symbol_of(op) + ": '" +
                           type_name(left) + "' and '" + type_name(right) + "'");
}

[[noreturn]] void raise_overflow() {
    raise("OverflowError", "an integer result does not fit 64 bits");
}

Value add_strings(Value left, const Value& right) {
    const Text& addition = right.text();
    if (left.text().is_markup() || addition.is_markup()) {
        Text sum = left.text().is_markup() ? left.text() : escape_html(left.text());
        sum.append(addition.is_markup() ? addition : escape_html(addition));
        sum.set_markup(true);
        return Value::string(std::move(sum));
    }
    spend_bytes(addition.size());
    if (Text* own = left.unshared_text()) {
        own->append(addition);
        return left;
    }
    spend_bytes(left.text().size());
    Text sum;
    sum.reserve(left.text().size() + addition.size());
    sum.append(left.text());
    sum.append(addition);
    return Value::string(std::move(sum));
}

Value new_list(std::vector<Value> items, SequenceKind kind) {
    Value list = Value::list(std::move(items), kind);
    list.list_data().writable = kind == SequenceKind::kList;
    return list;
}

Value add_lists(const ListData& left, const ListData& right) {
    spend_steps(left.size() + right.size());
    std::vector<Value> items = left.items;
    items.insert(items.end(), right.items.begin(), right.items.end());
    return new_list(std::move(items), left.kind);
}

bool is_plain_list(const Value& value) {
    return value.is_list() && (value.list_data().kind == SequenceKind::kList ||
                               value.list_data().kind == SequenceKind::kTuple);
}

Value add_sequences(Value left, const Value& right) {
    if (left.is_string() && right.is_string()) return add_strings(std::move(left), right);
    if (is_plain_list(left) && is_plain_list(right) &&
        left.list_data().kind == right.list_data().kind) {
        return add_lists(left.list_data(), right.list_data());
    }
    if (left.is_string() || is_plain_list(left)) {
        const std::string type = left.is_string() ? "str" : type_name(left);
        raise("TypeError",
              "can only concatenate " + type + " (not \"" + type_name(right) + "\") to " + type);
    }
    raise_operands(ArithmeticOp::kAdd, left, right);
}

Value repeat(const Value& sequence, std::int64_t times) {
    const std::size_t count = times < 0 ? 0 : static_cast<std::size_t>(times);
    constexpr std::size_t kTooMany = std::size_t{1} << 40;
    if (sequence.is_string()) {
        const Text& text = sequence.text();
        spend_bytes(
            text.empty() ? 0 : std::min(count, kTooMany) * std::min(text.size(), kTooMany >> 20));
        Text out;
        for (std::size_t i = 0; i < count && !text.empty(); ++i) out.append(text);
        out.set_markup(text.is_markup());
        return Value::string(std::move(out));
    }
    const ListData& list = sequence.list_data();
    if (!list.items.empty()) spend_steps(std::min(count, kTooMany) * list.items.size());
    std::vector<Value> items;
    for (std::size_t i = 0; i < count && !list.items.empty(); ++i) {
        items.insert(items.end(), list.items.begin(), list.items.end());
    }
    return new_list(std::move(items), list.kind);
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
    const std::int64_t quotient = a / b;
    return a % b != 0 && ((a % b < 0) != (b < 0)) ? quotient - 1 : quotient;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
    const std::int64_t rest = a % b;
    return rest != 0 && ((rest < 0) != (b < 0)) ? rest + b : rest;
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) raise("ZeroDivisionError", "0.0 cannot be raised to a negative power");
        return Value::number(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    }
    if (base == 0 || base == 1) return Value::integer(exponent == 0 ? 1 : base);
    if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1);
    std::int64_t result = 1;
    for (std::int64_t i = 0; i < exponent; ++i) {
        if (__builtin_mul_overflow(result, base, &result)) raise_overflow();
    }
    return Value::integer(result);
}

Value integer_arithmetic(ArithmeticOp op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    bool overflow = false;
    const bool divides =
        op == ArithmeticOp::kDiv || op == ArithmeticOp::kFloorDiv || op == ArithmeticOp::kMod;
    if (divides && b == 0) {
        raise("ZeroDivisionError", op == ArithmeticOp::kDiv ? "division by zero"
                                   : op == ArithmeticOp::kFloorDiv
                                       ? "integer division or modulo by zero"
                                       : "integer modulo by zero");
    }
    if (op == ArithmeticOp::kMod && b == -1) return Value::integer(0);
    switch (op) {
        case ArithmeticOp::kAdd:
            overflow = __builtin_add_overflow(a, b, &result);
            break;
        case ArithmeticOp::kSub:
            overflow = __builtin_sub_overflow(a, b, &result);
            break;
        case ArithmeticOp::kMul:
            overflow = __builtin_mul_overflow(a, b, &result);
            break;
        case ArithmeticOp::kDiv:
            return Value::number(static_cast<double>(a) / static_cast<double>(b));
        case ArithmeticOp::kFloorDiv:
            overflow = a == INT64_MIN && b == -1;
            if (!overflow) result = floor_divide(a, b);
            break;
        case ArithmeticOp::kMod:
            result = floor_modulo(a, b);
            break;
        case ArithmeticOp::kPow:
            return integer_power(a, b);
    }
    if (overflow) raise_overflow();
    return Value::integer(result);
}

double float_modulo(double a, double b) {
    const double rest = std::fmod(a, b);
    if (rest == 0.0) return std::copysign(0.0, b);
    return (rest < 0) != (b < 0) ? rest + b : rest;
}

Value float_power(double a, double b) {
    if (a == 0.0 && b < 0) raise("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    const double result = std::pow(a, b);
    if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) {
        raise("ValueError", "a negative number cannot be raised to a fractional power");
    }
    if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) {
        raise("OverflowError", "(34, 'Numerical result out of range')");
    }
    return Value::number(result);
}

Value float_arithmetic(ArithmeticOp op, double a, double b) {
    const bool divides =
        op == ArithmeticOp::kDiv || op == ArithmeticOp::kFloorDiv || op == ArithmeticOp::kMod;
    if (divides && b == 0.0) {
        raise("ZeroDivisionError", op == ArithmeticOp::kDiv        ? "float division by zero"
                                   : op == ArithmeticOp::kFloorDiv ? "float floor division by zero"
                                                                   : "float modulo");
    }
    switch (op) {
        case ArithmeticOp::kAdd:
            return Value::number(a + b);
        case ArithmeticOp::kSub:
            return Value::number(a - b);
        case ArithmeticOp::kMul:
            return Value::number(a * b);
        case ArithmeticOp::kDiv:
            return Value::number(a / b);
        case ArithmeticOp::kFloorDiv:
            return Value::number(std::floor((a - float_modulo(a, b)) / b));
        case ArithmeticOp::kMod:
            return Value::number(float_modulo(a, b));
        case ArithmeticOp::kPow:
            return float_power(a, b);
    }
    return {};
}

}  // namespace

Value arithmetic(ArithmeticOp op, Value left, const Value& right) {
    if (op == ArithmeticOp::kMod && left.is_string()) {
        return format_percent(left.text(), right);
    }
    if (left.is_undefined()) raise_undefined(left);
    if (right.is_undefined()) raise_undefined(right);
    if (left.is_integral() && right.is_integral()) {
        return integer_arithmetic(op, left.as_int(), right.as_int());
    }
    if (left.is_number() && right.is_number()) {
        return float_arithmetic(op, left.as_double(), right.as_double());
    }
    if (left.is(Kind::kBigInt) || right.is(Kind::kBigInt)) raise_overflow();
    if (op == ArithmeticOp::kAdd) return add_sequences(std::move(left), right);
    if (op == ArithmeticOp::kMul) {
        const auto repeats = [](const Value& value) {
            return value.is_string() || is_plain_list(value);
        };
        if (repeats(left) && right.is_integral()) return repeat(left, right.as_int());
        if (repeats(right) && left.is_integral()) return repeat(right, left.as_int());
        if (repeats(left) || repeats(right)) {
            const Value& other = repeats(left) ? right : left;
            raise("TypeError", std::string("can't multiply sequence by non-int of type '") +
                                   type_name(other) + "'");
        }
    }
    raise_operands(op, left, right);
}

Value negate(const Value& operand) {
    if (operand.is_undefined()) raise_undefined(operand);
    if (operand.is_integral()) return integer_arithmetic(ArithmeticOp::kSub, 0, operand.as_int());
    if (operand.is(Kind::kFloat)) return Value::number(-operand.as_double());
    if (operand.is(Kind::kBigInt)) {
        const std::string& digits = operand.big_digits();
        return Value::big_integer(digits[0] == '-' ? digits.substr(1) : "-" + digits);
    }
    raise("TypeError", std::string("bad operand type for unary -: '") + type_name(operand) + "'");
}

Value plus(const Value& operand) {
    if (operand.is_undefined()) raise_undefined(operand);
    if (operand.is_integral()) return Value::integer(operand.as_int());
    if (operand.is(Kind::kFloat) || operand.is(Kind::kBigInt)) return operand;
    raise("TypeError", std::string("bad operand type for unary +: '") + type_name(operand) + "'");
}

}  // namespace taproot::jinja
