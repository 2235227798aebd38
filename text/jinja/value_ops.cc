// SPDX-License-Identifier: Apache-2.0
// What Python's operators ask of values: type names, truth, equality, order, hashability.
#include <cmath>

#include "text/jinja/callable.h"
#include "text/jinja/raise.h"
#include "text/jinja/value.h"
#include "text/jinja/work.h"

namespace taproot::jinja {

void raise(const char* type, const std::string& message) {
    throw Raised{Error{ErrorCode::kInvalidArgument, std::string(type) + ": " + message, {}}};
}

void raise_limit(const std::string& message) {
    throw Raised{Error{ErrorCode::kTooLarge, message, {}}};
}

void raise_message(std::string message) {
    throw Raised{Error{ErrorCode::kInvalidArgument, std::move(message), {}}};
}

namespace {

struct SequenceNames {
    const char* type;
    const char* owner;
};

SequenceNames sequence_names(SequenceKind kind) {
    switch (kind) {
        case SequenceKind::kList:
            return {"list", "list object"};
        case SequenceKind::kTuple:
            return {"tuple", "tuple object"};
        case SequenceKind::kRange:
            return {"range", "range object"};
        case SequenceKind::kKeys:
            return {"dict_keys", "dict_keys object"};
        case SequenceKind::kValues:
            return {"dict_values", "dict_values object"};
        case SequenceKind::kItems:
            return {"dict_items", "dict_items object"};
        case SequenceKind::kGenerator:
            return {"generator", "generator object"};
    }
    return {"list", "list object"};
}

// Called for every value that is looked at: each costs a step.
void visit(int depth) {
    spend_steps(1);
    if (depth > kMaxNesting) raise_limit("values are nested deeper than 200 levels");
}

bool lists_equal(const ListData& left, const ListData& right, int depth) {
    if (left.kind != right.kind || left.size() != right.size()) return false;
    if (!left.is_sequence()) return &left == &right;
    for (std::size_t i = 0; i < left.size(); ++i) {
        if (!values_equal(left.items[i], right.items[i], depth + 1)) return false;
    }
    return true;
}

bool dicts_equal(const DictData& left, const DictData& right, int depth) {
    if (left.entries.size() != right.entries.size()) return false;
    for (const auto& [key, value] : left.entries) {
        const Value* other = right.find(key);
        if (other == nullptr || !values_equal(value, *other, depth + 1)) return false;
    }
    return true;
}

double big_as_double(const std::string& digits) {
    return std::strtod(digits.c_str(), nullptr);
}

bool is_any_number(const Value& value) {
    return value.is_number() || value.is(Kind::kBigInt);
}

// Orders two numbers; NaN gives 2, which no operator accepts.
int compare_numbers(const Value& left, const Value& right) {
    if (left.is_integral() && right.is_integral()) {
        const std::int64_t a = left.as_int();
        const std::int64_t b = right.as_int();
        return a < b ? -1 : a > b ? 1 : 0;
    }
    const double a = left.is(Kind::kBigInt) ? big_as_double(left.big_digits()) : left.as_double();
    const double b =
        right.is(Kind::kBigInt) ? big_as_double(right.big_digits()) : right.as_double();
    if (std::isnan(a) || std::isnan(b)) return 2;
    return a < b ? -1 : a > b ? 1 : 0;
}

bool numbers_equal(const Value& left, const Value& right) {
    if (left.is(Kind::kBigInt) && right.is(Kind::kBigInt))
        return left.big_digits() == right.big_digits();
    return compare_numbers(left, right) == 0;
}

int compare_lists(const ListData& left, const ListData& right, const char* symbol, int depth) {
    const std::size_t shared = std::min(left.size(), right.size());
    for (std::size_t i = 0; i < shared; ++i) {
        if (values_equal(left.items[i], right.items[i], depth + 1)) continue;
        return compare_values(left.items[i], right.items[i], symbol, depth + 1);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
}

}  // namespace

const char* type_name(const Value& value) {
    switch (value.kind()) {
        case Kind::kUndefined:
            return "Undefined";
        case Kind::kNone:
            return "NoneType";
        case Kind::kBool:
            return "bool";
        case Kind::kInt:
        case Kind::kBigInt:
            return "int";
        case Kind::kFloat:
            return "float";
        case Kind::kString:
            return value.text().is_markup() ? "Markup" : "str";
        case Kind::kList:
            return sequence_names(value.list_data().kind).type;
        case Kind::kDict:
            return "dict";
        case Kind::kNamespace:
            return "Namespace";
        case Kind::kCallable:
            return value.callable().python_type();
        case Kind::kLoop:
            return "LoopContext";
    }
    return "object";
}

const char* owner_name(const Value& value) {
    switch (value.kind()) {
        case Kind::kUndefined:
            return "jinja2.runtime.Undefined object";
        case Kind::kNone:
            return "None";
        case Kind::kBool:
            return "bool object";
        case Kind::kInt:
        case Kind::kBigInt:
            return "int object";
        case Kind::kFloat:
            return "float object";
        case Kind::kString:
            return value.text().is_markup() ? "markupsafe.Markup object" : "str object";
        case Kind::kList:
            return sequence_names(value.list_data().kind).owner;
        case Kind::kDict:
            return "dict object";
        case Kind::kNamespace:
            return "jinja2.utils.Namespace object";
        case Kind::kCallable:
            return value.callable().python_owner();
        case Kind::kLoop:
            return "jinja2.runtime.LoopContext object";
    }
    return "object";
}

bool is_truthy(const Value& value) {
    switch (value.kind()) {
        case Kind::kUndefined:
        case Kind::kNone:
            return false;
        case Kind::kBool:
        case Kind::kInt:
            return value.as_int() != 0;
        case Kind::kFloat:
            return value.as_double() != 0.0;
        case Kind::kString:
            return !value.text().empty();
        case Kind::kList:
            return value.list_data().is_generator() || value.list_data().size() != 0;
        case Kind::kDict:
            return !value.dict_data().entries.empty();
        case Kind::kBigInt:
        case Kind::kNamespace:
        case Kind::kCallable:
        case Kind::kLoop:
            return true;
    }
    return true;
}

bool values_equal(const Value& left, const Value& right, int depth) {
    visit(depth);
    if (is_any_number(left) && is_any_number(right)) return numbers_equal(left, right);
    if (left.kind() != right.kind()) return false;
    switch (left.kind()) {
        case Kind::kUndefined:
        case Kind::kNone:
            return true;
        case Kind::kString:
            return left.view() == right.view();
        case Kind::kList:
            return lists_equal(left.list_data(), right.list_data(), depth);
        case Kind::kDict:
            return dicts_equal(left.dict_data(), right.dict_data(), depth);
        default:
            return left.identity() == right.identity();
    }
}

int compare_values(const Value& left, const Value& right, const char* symbol, int depth) {
    visit(depth);
    if (is_any_number(left) && is_any_number(right)) return compare_numbers(left, right);
    if (left.is_string() && right.is_string()) {
        const int order = left.view().compare(right.view());
        return order < 0 ? -1 : order > 0 ? 1 : 0;
    }
    if (left.is_list() && right.is_list() && left.list_data().kind == right.list_data().kind &&
        (left.list_data().kind == SequenceKind::kList ||
         left.list_data().kind == SequenceKind::kTuple)) {
        return compare_lists(left.list_data(), right.list_data(), symbol, depth);
    }
    for (const Value* side : {&left, &right}) {
        if (side->is_undefined()) raise_undefined(*side);
    }
    raise("TypeError", std::string("'") + symbol + "' not supported between instances of '" +
                           type_name(left) + "' and '" + type_name(right) + "'");
}

void require_hashable(const Value& value, int depth) {
    visit(depth);
    if (value.is_dict()) raise("TypeError", "unhashable type: 'dict'");
    if (!value.is_list()) return;
    const ListData& data = value.list_data();
    if (data.kind == SequenceKind::kTuple) {
        for (const Value& item : data.items) require_hashable(item, depth + 1);
    } else if (data.kind == SequenceKind::kList) {
        raise("TypeError", "unhashable type: 'list'");
    }
}

void raise_undefined(const Value& value) {
    const UndefinedInfo* info = value.undefined_info();
    const char* type = info != nullptr && info->forbidden ? "SecurityError" : "UndefinedError";
    raise(type, info != nullptr ? info->message() : "the value is undefined");
}

}  // namespace taproot::jinja
