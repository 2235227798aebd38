// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/attribute_path.h"

#include <algorithm>

#include "text/jinja/operators.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja {

AttributePath::AttributePath(const Value* attribute) {
    if (attribute == nullptr || attribute->is_none()) return;
    if (!attribute->is_string()) {
        parts_.push_back(*attribute);
        return;
    }
    for (const Text& part : split(attribute->text(), ".", -1)) {
        const std::string_view view = part.view();
        const bool number =
            !view.empty() && view.size() < 18 &&
            std::all_of(view.begin(), view.end(), [](char c) { return c >= '0' && c <= '9'; });
        parts_.push_back(number ? Value::integer(std::stoll(part.bytes())) : Value::string(part));
    }
}

Value AttributePath::get(const Value& item, bool strict_sandbox, const Value* fallback) const {
    Value value = item;
    for (const Value& part : parts_) {
        value = get_item(value, part, strict_sandbox);
        if (fallback != nullptr && value.is_undefined()) value = *fallback;
    }
    return value;
}

Value comparison_key(Value key, bool case_sensitive) {
    if (case_sensitive || !key.is_string()) return key;
    return Value::template_string(to_lower(key.view()));
}

}  // namespace taproot::jinja
