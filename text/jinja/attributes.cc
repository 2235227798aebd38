// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/loop.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"
#include "text/jinja/work.h"

namespace taproot::jinja {
namespace {

Value bind_method(const Value& self, const MethodEntry& method) {
    auto callable = std::make_shared<CallableData>();
    callable->kind = CallableData::Kind::kMethod;
    callable->name = method.name;
    callable->method = method.function;
    callable->self = self;
    return make_callable(std::move(callable));
}

Value not_offered(Interpreter&, const Value& self, const CallArgs&) {
    raise("TypeError",
          std::string("this method of '") + type_name(self) + "' is not supported in templates");
}

Value forbidden(const Value& object, std::string_view name) {
    return make_undefined({.hint = "access to attribute '" + std::string(name) + "' of '" +
                                   type_name(object) + "' object is unsafe.",
                           .forbidden = true});
}

std::optional<Value> macro_attribute(const CallableData& macro, std::string_view name) {
    const Signature& signature = *macro.macro->signature;
    if (name == "name") {
        const bool anonymous = macro.macro->kind == StmtKind::kCallBlock;
        return anonymous ? Value::none() : Value::template_string(signature.name);
    }
    if (name == "caller") return Value::boolean(signature.uses_caller);
    if (name == "catch_kwargs") return Value::boolean(signature.uses_kwargs);
    if (name == "catch_varargs") return Value::boolean(signature.uses_varargs);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const Parameter& parameter : signature.parameters) {
        names.push_back(Value::template_string(parameter.name));
    }
    return Value::list(std::move(names), SequenceKind::kTuple);
}

// Attributes that every Python object has and no template may touch.
bool is_internal(std::string_view name) {
    static constexpr std::string_view kInternal[] = {"__class__", "__dict__", "__doc__",
                                                     "__init__",  "__repr__", "__str__",
                                                     "__eq__",    "__hash__", "__module__"};
    return name.starts_with("__") &&
           std::find(std::begin(kInternal), std::end(kInternal), name) != std::end(kInternal);
}

// What Python's getattr finds: methods, attributes of loops, namespaces and macros.
std::optional<Value> find_attribute(const Value& object, std::string_view name,
                                    bool strict_sandbox) {
    if (is_internal(name)) return forbidden(object, name);
    if (object.is(Kind::kLoop)) return loop_attribute(object.loop(), name);
    if (object.is(Kind::kNamespace)) {
        const Value* value = object.namespace_data().find(name);
        return value != nullptr ? std::optional<Value>(*value) : std::nullopt;
    }
    if (object.is(Kind::kCallable) && object.callable().kind == CallableData::Kind::kMacro) {
        return macro_attribute(object.callable(), name);
    }
    if (object.is_integral() && (name == "real" || name == "numerator")) return plus(object);
    if (object.is_integral() && (name == "imag" || name == "denominator")) {
        return Value::integer(name == "imag" ? 0 : 1);
    }
    const MethodEntry* method = find_method(object, name);
    if (method == nullptr) return std::nullopt;
    if (method->mutates && strict_sandbox) return forbidden(object, name);
    MethodEntry entry = *method;
    if (entry.function == nullptr) entry.function = not_offered;
    return bind_method(object, entry);
}

Value missing_attribute(const Value& object, std::string_view name) {
    return make_undefined({.owner = owner_name(object), .name = std::string(name)});
}

// The element at `key`, or nullptr/nullopt where Python raises TypeError or LookupError.
std::optional<Value> find_item(const Value& object, const Value& key) {
    if (object.is_dict()) {
        if (key.is_dict() || (key.is_list() && key.list_data().kind == SequenceKind::kList))
            return std::nullopt;
        const Value* value = object.dict_data().find(key);
        return value != nullptr ? std::optional<Value>(*value) : std::nullopt;
    }
    if (!key.is_integral()) return std::nullopt;
    std::int64_t index = key.as_int();
    if (object.is_list()) {
        const ListData& list = object.list_data();
        const auto size = static_cast<std::int64_t>(list.items.size());
        if (!list.is_sequence()) return std::nullopt;
        if (index < 0) index += size;
        if (index < 0 || index >= size) return std::nullopt;
        return list.items[static_cast<std::size_t>(index)];
    }
    if (!object.is_string()) return std::nullopt;
    const Text& text = object.text();
    if (index < 0) index += static_cast<std::int64_t>(count_code_points(text.view()));
    if (index < 0) return std::nullopt;
    const std::size_t begin = byte_offset(text.view(), static_cast<std::size_t>(index));
    if (begin >= text.size()) return std::nullopt;
    char32_t c = 0;
    const std::size_t length = decode_code_point(text.view(), begin, c);
    return Value::string(text.slice(begin, begin + length));
}

// A resolved slice: `count` positions from `start` by `step`.
struct SliceRange {
    std::int64_t start;
    std::int64_t step;
    std::size_t count;
};

std::int64_t slice_bound(const Value& bound, std::int64_t fallback, std::int64_t size,
                         bool backwards) {
    if (bound.is_none()) return fallback;
    if (bound.is_undefined()) raise_undefined(bound);
    if (!bound.is_integral()) {
        raise("TypeError", "slice indices must be integers or None or have an __index__ method");
    }
    std::int64_t index = bound.as_int();
    if (index < 0) index = index < -size ? -1 - size : index;
    if (index < 0) index += size;
    return std::clamp<std::int64_t>(index, backwards ? -1 : 0, backwards ? size - 1 : size);
}

SliceRange resolve_slice(std::size_t length, const Value& start, const Value& stop,
                         const Value& step) {
    const auto size = static_cast<std::int64_t>(length);
    std::int64_t stride = 1;
    if (!step.is_none()) {
        if (step.is_undefined()) raise_undefined(step);
        if (!step.is_integral()) {
            raise("TypeError",
                  "slice indices must be integers or None or have an __index__ method");
        }
        stride = std::clamp<std::int64_t>(step.as_int(), -(size + 1), size + 1);
    }
    if (stride == 0) raise("ValueError", "slice step cannot be zero");
    const bool backwards = stride < 0;
    const std::int64_t from = slice_bound(start, backwards ? size - 1 : 0, size, backwards);
    const std::int64_t to = slice_bound(stop, backwards ? -1 : size, size, backwards);
    const std::int64_t span = backwards ? from - to : to - from;
    const std::int64_t stride_size = backwards ? -stride : stride;
    const std::int64_t count = span <= 0 ? 0 : (span + stride_size - 1) / stride_size;
    return {from, stride, static_cast<std::size_t>(count)};
}

Value slice_string(const Text& text, const Value& start, const Value& stop, const Value& step) {
    const SliceRange range = resolve_slice(count_code_points(text.view()), start, stop, step);
    if (range.step == 1) {
        const std::size_t begin = byte_offset(text.view(), static_cast<std::size_t>(range.start));
        const std::size_t length = byte_offset(text.view().substr(begin), range.count);
        spend_bytes(length);
        return Value::string(text.slice(begin, begin + length));
    }
    spend_steps(range.count);
    std::vector<std::size_t> offsets;
    for (std::size_t pos = 0; pos < text.size();) {
        offsets.push_back(pos);
        char32_t c = 0;
        pos += decode_code_point(text.view(), pos, c);
    }
    offsets.push_back(text.size());
    Text out;
    std::int64_t index = range.start;
    for (std::size_t i = 0; i < range.count; ++i, index += range.step) {
        const auto at = static_cast<std::size_t>(index);
        out.append(text, offsets[at], offsets[at + 1]);
    }
    out.set_markup(text.is_markup());
    return Value::string(std::move(out));
}

// A slice of a range is a range, which prints its bounds.
Value range_value(std::vector<Value> items, const ListData& source, const SliceRange& slice) {
    const auto& all = source.items;
    const std::int64_t step = all.size() < 2 ? 1 : all[1].as_int() - all[0].as_int();
    const std::int64_t first = all.empty() ? 0 : all[0].as_int();
    const std::int64_t start = first + slice.start * step;
    const std::int64_t stride = step * slice.step;
    const std::int64_t stop = start + static_cast<std::int64_t>(slice.count) * stride;
    Value out = Value::list(std::move(items), SequenceKind::kRange);
    out.list_data().label = range_label(start, stop, stride);
    return out;
}

Value slice_list(const ListData& list, const Value& start, const Value& stop, const Value& step) {
    const SliceRange range = resolve_slice(list.items.size(), start, stop, step);
    spend_steps(range.count);
    std::vector<Value> items;
    items.reserve(range.count);
    std::int64_t index = range.start;
    for (std::size_t i = 0; i < range.count; ++i, index += range.step) {
        items.push_back(list.items[static_cast<std::size_t>(index)]);
    }
    if (list.kind == SequenceKind::kRange) return range_value(std::move(items), list, range);
    const bool tuple = list.kind == SequenceKind::kTuple;
    Value out = Value::list(std::move(items), tuple ? SequenceKind::kTuple : SequenceKind::kList);
    out.list_data().writable = !tuple;
    return out;
}

}  // namespace

Value get_attribute(const Value& object, std::string_view name, bool strict_sandbox) {
    if (object.is_undefined()) raise_undefined(object);
    if (std::optional<Value> value = find_attribute(object, name, strict_sandbox))
        return *std::move(value);
    if (object.is_dict()) {
        if (const Value* value = object.dict_data().find(name)) return *value;
    }
    return missing_attribute(object, name);
}

Value get_item(const Value& object, const Value& key, bool strict_sandbox) {
    if (object.is_undefined()) raise_undefined(object);
    if (std::optional<Value> value = find_item(object, key)) return *std::move(value);
    if (key.is_string()) {
        if (std::optional<Value> value = find_attribute(object, key.view(), strict_sandbox))
            return *std::move(value);
        return missing_attribute(object, key.view());
    }
    return make_undefined({.owner = owner_name(object), .name = repr(key), .element = true});
}

Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
    if (object.is_undefined()) raise_undefined(object);
    if (object.is_string()) return slice_string(object.text(), start, stop, step);
    if (object.is_list() && object.list_data().is_sequence()) {
        return slice_list(object.list_data(), start, stop, step);
    }
    if (object.is_dict()) raise("TypeError", "unhashable type: 'slice'");
    raise("TypeError", std::string("'") + type_name(object) + "' object is not subscriptable");
}

}  // namespace taproot::jinja
