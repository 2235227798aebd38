// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/raise.h"
#include "text/jinja/search.h"

namespace taproot::jinja {

bool compare(CompareOp op, const Value& left, const Value& right) {
    switch (op) {
        case CompareOp::kEq:
            return values_equal(left, right);
        case CompareOp::kNe:
            return !values_equal(left, right);
        case CompareOp::kLt:
            return compare_values(left, right, "<") == -1;
        case CompareOp::kLe: {
            const int order = compare_values(left, right, "<=");
            return order == -1 || order == 0;
        }
        case CompareOp::kGt:
            return compare_values(left, right, ">") == 1;
        case CompareOp::kGe: {
            const int order = compare_values(left, right, ">=");
            return order == 1 || order == 0;
        }
        case CompareOp::kIn:
            return contains(right, left);
        case CompareOp::kNotIn:
            return !contains(right, left);
    }
    return false;
}

bool contains(const Value& container, const Value& item) {
    if (container.is_string()) {
        if (!item.is_string()) {
            raise("TypeError", std::string("'in <string>' requires string as left operand, not ") +
                                   type_name(item));
        }
        return find_bytes(container.view(), item.view(), 0) != std::string_view::npos;
    }
    if (container.is_dict()) {
        require_hashable(item);
        return container.dict_data().find(item) != nullptr;
    }
    if (!is_iterable(container) || container.is(Kind::kLoop)) {
        raise("TypeError",
              std::string("argument of type '") + type_name(container) + "' is not iterable");
    }
    Iteration iteration(container);
    Value candidate;
    while (iteration.next(candidate)) {
        if (values_equal(candidate, item)) return true;
    }
    return false;
}

}  // namespace taproot::jinja
