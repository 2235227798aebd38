// SPDX-License-Identifier: Apache-2.0
// The tests of `value is name(arguments)`.
#include <unordered_map>

#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja {
namespace {

void no_arguments(const CallArgs& args) {
    ArgReader("test", args).finish();
}

template <bool (*kHolds)(const Value&)>
bool plain(Interpreter&, const Value& value, const CallArgs& args) {
    no_arguments(args);
    return kHolds(value);
}

bool is_defined(const Value& value) {
    return !value.is_undefined();
}
bool is_undefined(const Value& value) {
    return value.is_undefined();
}
bool is_none(const Value& value) {
    return value.is_none();
}
bool is_boolean(const Value& value) {
    return value.is(Kind::kBool);
}
bool is_true(const Value& value) {
    return value.is(Kind::kBool) && value.as_bool();
}
bool is_false(const Value& value) {
    return value.is(Kind::kBool) && !value.as_bool();
}
bool is_integer(const Value& value) {
    return value.is(Kind::kInt) || value.is(Kind::kBigInt);
}
bool is_float(const Value& value) {
    return value.is(Kind::kFloat);
}
bool is_number(const Value& value) {
    return value.is_number() || value.is(Kind::kBigInt);
}
bool is_string(const Value& value) {
    return value.is_string();
}
bool is_mapping(const Value& value) {
    return value.is_dict();
}
bool is_escaped(const Value& value) {
    return value.is_string() && value.text().is_markup();
}
bool is_callable(const Value& value) {
    return value.is(Kind::kCallable) || value.is(Kind::kLoop) || value.is_undefined();
}
bool is_sequence(const Value& value) {
    if (value.is_list()) return value.list_data().is_sequence();
    return value.is_string() || value.is_dict() || value.is_undefined();
}
bool is_iterable_value(const Value& value) {
    return is_iterable(value);
}

// str(value).islower() and isupper()
bool is_cased(const Value& value, bool (*wanted)(char32_t), bool (*other)(char32_t)) {
    const Text text = to_text(value);
    bool any = false;
    for (std::size_t pos = 0; pos < text.size();) {
        char32_t c = 0;
        pos += decode_code_point(text.view(), pos, c);
        if (other(c)) return false;
        any |= wanted(c);
    }
    return any;
}
bool is_lower_text(const Value& value) {
    return is_cased(value, is_lower, is_upper);
}
bool is_upper_text(const Value& value) {
    return is_cased(value, is_upper, is_lower);
}

const Value& only_argument(const CallArgs& args) {
    ArgReader reader("test", args);
    const Value& other = reader.required("other");
    reader.finish();
    return other;
}

bool has_remainder(const Value& value, const Value& divisor, std::int64_t rest) {
    return values_equal(arithmetic(ArithmeticOp::kMod, value, divisor), Value::integer(rest));
}

template <std::int64_t kRest>
bool parity(Interpreter&, const Value& value, const CallArgs& args) {
    no_arguments(args);
    return has_remainder(value, Value::integer(2), kRest);
}

bool divisible_by(Interpreter&, const Value& value, const CallArgs& args) {
    return has_remainder(value, only_argument(args), 0);
}

template <CompareOp kOp>
bool compares(Interpreter&, const Value& value, const CallArgs& args) {
    return compare(kOp, value, only_argument(args));
}

bool same_as(Interpreter&, const Value& value, const CallArgs& args) {
    const Value& other = only_argument(args);
    if (value.kind() != other.kind()) return false;
    if (value.identity() != nullptr && !value.is_string())
        return value.identity() == other.identity();
    return values_equal(value, other);
}

bool names_filter(Interpreter&, const Value& value, const CallArgs& args) {
    no_arguments(args);
    require_hashable(value);
    return value.is_string() && find_filter(value.view()) != nullptr;
}

bool names_test(Interpreter&, const Value& value, const CallArgs& args) {
    no_arguments(args);
    require_hashable(value);
    return value.is_string() && find_test(value.view()) != nullptr;
}

using TestTable = std::unordered_map<std::string_view, TestFunction>;

const TestTable& all_tests() {
    static const TestTable table = {
        {"defined", plain<is_defined>},
        {"undefined", plain<is_undefined>},
        {"none", plain<is_none>},
        {"boolean", plain<is_boolean>},
        {"true", plain<is_true>},
        {"false", plain<is_false>},
        {"integer", plain<is_integer>},
        {"float", plain<is_float>},
        {"number", plain<is_number>},
        {"string", plain<is_string>},
        {"mapping", plain<is_mapping>},
        {"sequence", plain<is_sequence>},
        {"iterable", plain<is_iterable_value>},
        {"callable", plain<is_callable>},
        {"escaped", plain<is_escaped>},
        {"lower", plain<is_lower_text>},
        {"upper", plain<is_upper_text>},
        {"odd", parity<1>},
        {"even", parity<0>},
        {"divisibleby", divisible_by},
        {"sameas", same_as},
        {"filter", names_filter},
        {"test", names_test},
        {"in", compares<CompareOp::kIn>},
        {"==", compares<CompareOp::kEq>},
        {"eq", compares<CompareOp::kEq>},
        {"equalto", compares<CompareOp::kEq>},
        {"!=", compares<CompareOp::kNe>},
        {"ne", compares<CompareOp::kNe>},
        {"<", compares<CompareOp::kLt>},
        {"lt", compares<CompareOp::kLt>},
        {"lessthan", compares<CompareOp::kLt>},
        {"<=", compares<CompareOp::kLe>},
        {"le", compares<CompareOp::kLe>},
        {">", compares<CompareOp::kGt>},
        {"gt", compares<CompareOp::kGt>},
        {"greaterthan", compares<CompareOp::kGt>},
        {">=", compares<CompareOp::kGe>},
        {"ge", compares<CompareOp::kGe>},
    };
    return table;
}

}  // namespace

TestFunction find_test(std::string_view name) {
    const auto found = all_tests().find(name);
    return found == all_tests().end() ? nullptr : found->second;
}

}  // namespace taproot::jinja
