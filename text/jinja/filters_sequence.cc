// SPDX-License-Identifier: Apache-2.0
// Filters over sequences: length, join, first, map, select and their kin.
#include <algorithm>
#include <array>

#include "text/jinja/attribute_path.h"
#include "text/jinja/builtins.h"
#include "text/jinja/filters_order.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja {

Value new_list(std::vector<Value> items) {
    Value list = Value::list(std::move(items));
    list.list_data().writable = true;
    return list;
}

Value new_generator(std::vector<Value> items, const char* function) {
    Value generator = Value::list(std::move(items), SequenceKind::kGenerator);
    generator.list_data().label =
        std::string("<generator object ") + function + " at 0x7f0000000000>";
    return generator;
}

namespace {

Value length(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader("length", args).finish();
    if (input.is_string())
        return Value::integer(static_cast<std::int64_t>(count_code_points(input.view())));
    if (input.is_dict())
        return Value::integer(static_cast<std::int64_t>(input.dict_data().entries.size()));
    if (input.is_undefined()) return Value::integer(0);
    if (input.is(Kind::kLoop)) return Value::integer(input.loop()->length());
    const bool countable = input.is_list() && !(input.list_data().is_generator() &&
                                                interpreter.options().strict_sandbox);
    if (!countable)
        raise("TypeError", std::string("object of type '") + type_name(input) + "' has no len()");
    return Value::integer(static_cast<std::int64_t>(input.list_data().size()));
}

Value first(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader("first", args).finish();
    Iteration iteration(input);
    Value item;
    if (iteration.next(item)) return item;
    return make_undefined({.hint = "No first item, sequence was empty."});
}

Value last(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader("last", args).finish();
    const bool generator = input.is_list() && input.list_data().is_generator();
    if (generator && interpreter.options().strict_sandbox) {
        raise("TypeError", "'generator' object is not reversible");
    }
    std::vector<Value> items = collect(input);
    if (items.empty()) return make_undefined({.hint = "No last item, sequence was empty."});
    return std::move(items.back());
}

Value list(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader("list", args).finish();
    return new_list(collect(input));
}

// The type that Python's reversed() gives, as it prints.
const char* reversed_type(const Value& input) {
    if (input.is_dict()) return "dict_reversekeyiterator";
    if (!input.is_list()) return "reversed";
    switch (input.list_data().kind) {
        case SequenceKind::kList:
            return "list_reverseiterator";
        case SequenceKind::kRange:
            return "range_iterator";
        case SequenceKind::kKeys:
            return "dict_reversekeyiterator";
        case SequenceKind::kValues:
            return "dict_reversevalueiterator";
        case SequenceKind::kItems:
            return "dict_reverseitemiterator";
        default:
            return "reversed";
    }
}

Value reverse(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader("reverse", args).finish();
    if (!is_iterable(input)) raise("FilterArgumentError", "argument must be iterable");
    std::vector<Value> items = collect(input);
    std::reverse(items.begin(), items.end());
    if (input.is_string()) {
        Text out = join(Text(), items);
        out.set_markup(input.text().is_markup());
        return Value::string(std::move(out));
    }
    if (input.is_list() && input.list_data().is_generator()) return new_list(std::move(items));
    Value reversed = new_generator(std::move(items), "");
    reversed.list_data().label =
        std::string("<") + reversed_type(input) + " object at 0x7f0000000000>";
    return reversed;
}

Value join_filter(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader("join", args);
    const Value* separator = reader.optional("d");
    const Value* attribute = reader.optional("attribute");
    reader.finish();
    std::vector<Value> items = collect(input);
    if (attribute != nullptr && !attribute->is_none()) {
        const AttributePath path(attribute);
        for (Value& item : items) item = path.get(item, interpreter.options().strict_sandbox);
    }
    return Value::string(join(separator == nullptr ? Text() : to_text(*separator), items));
}

// map('filter', arguments...) or map(attribute='a.b', default=x)
Value map(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    if (!is_truthy(input)) return new_generator({}, "sync_do_map");
    std::vector<Value> items = collect(input);
    if (args.positional.empty() && args.find_named("attribute") != nullptr) {
        ArgReader reader("map", args);
        const AttributePath path(&reader.required("attribute"));
        const Value* fallback = reader.optional("default");
        reader.finish();
        if (fallback != nullptr && fallback->is_none()) fallback = nullptr;
        for (Value& item : items)
            item = path.get(item, interpreter.options().strict_sandbox, fallback);
        return new_generator(std::move(items), "sync_do_map");
    }
    if (args.positional.empty()) raise("FilterArgumentError", "map requires a filter argument");
    const Text name = to_text(args.positional[0]);
    const FilterFunction filter = find_filter(name.view());
    if (filter == nullptr) raise("TemplateRuntimeError", "No filter named '" + name.bytes() + "'.");
    CallArgs rest = args;
    rest.positional.erase(rest.positional.begin());
    for (Value& item : items) item = filter(interpreter, item, rest);
    return new_generator(std::move(items), "sync_do_map");
}

// select, reject, selectattr, rejectattr: keeps items by a named test, or by their truth.
template <bool kKeep, bool kAttribute>
Value select(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    if (!is_truthy(input)) return new_generator({}, "select_or_reject");
    CallArgs rest = args;
    const auto take = [&rest] {
        Value value = rest.positional.front();
        rest.positional.erase(rest.positional.begin());
        return value;
    };
    Value attribute = Value::none();
    if (kAttribute) {
        if (rest.positional.empty())
            raise("FilterArgumentError", "Missing parameter for attribute name");
        attribute = take();
    }
    const AttributePath path(&attribute);
    TestFunction test = nullptr;
    if (!rest.positional.empty()) {
        const Text name = to_text(take());
        test = find_test(name.view());
        if (test == nullptr) raise("TemplateRuntimeError", "No test named '" + name.bytes() + "'.");
    }
    std::vector<Value> kept;
    for (const Value& item : collect(input)) {
        const Value value = path.get(item, interpreter.options().strict_sandbox);
        const bool holds = test != nullptr ? test(interpreter, value, rest) : is_truthy(value);
        if (holds == kKeep) kept.push_back(item);
    }
    return new_generator(std::move(kept), "select_or_reject");
}

Value items(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader("items", args).finish();
    if (input.is_undefined()) return new_generator({}, "do_items");
    if (!input.is_dict()) raise("TypeError", "Can only get item pairs from a mapping.");
    std::vector<Value> pairs;
    spend_steps(input.dict_data().entries.size());
    for (const auto& [key, value] : input.dict_data().entries) {
        pairs.push_back(Value::list({key, value}, SequenceKind::kTuple));
    }
    return new_generator(std::move(pairs), "do_items");
}

std::int64_t count_argument(const Value& value) {
    if (value.is_undefined()) raise_undefined(value);
    if (!value.is_integral()) {
        raise("TypeError",
              std::string("'") + type_name(value) + "' object cannot be interpreted as an integer");
    }
    return value.as_int();
}

Value batch(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("batch", args);
    const std::int64_t size = count_argument(reader.required("linecount"));
    const Value* fill = reader.optional("fill_with");
    reader.finish();
    if (size > 100'000) raise_limit("a batch is larger than 100000");
    std::vector<Value> batches;
    std::vector<Value> current;
    for (Value& item : collect(input)) {
        if (static_cast<std::int64_t>(current.size()) == size)
            batches.push_back(new_list(std::exchange(current, {})));
        current.push_back(std::move(item));
    }
    if (!current.empty()) {
        const bool fills = fill != nullptr && !fill->is_none();
        while (fills && static_cast<std::int64_t>(current.size()) < size) {
            spend_steps(1);
            current.push_back(*fill);
        }
        batches.push_back(new_list(std::move(current)));
    }
    return new_generator(std::move(batches), "do_batch");
}

Value slice(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("slice", args);
    const std::int64_t wanted = count_argument(reader.required("slices"));
    const Value* fill = reader.optional("fill_with");
    reader.finish();
    if (wanted > 100'000) raise_limit("more than 100000 slices");
    if (wanted == 0) raise("ZeroDivisionError", "integer division or modulo by zero");
    const std::vector<Value> all = collect(input);
    const std::size_t slices = wanted < 0 ? 0 : static_cast<std::size_t>(wanted);
    std::vector<Value> out;
    std::size_t at = 0;
    for (std::size_t i = 0; i < slices; ++i) {
        const bool extra = i < all.size() % slices;
        const std::size_t end = at + all.size() / slices + (extra ? 1 : 0);
        std::vector<Value> part(all.begin() + static_cast<std::ptrdiff_t>(at),
                                all.begin() + static_cast<std::ptrdiff_t>(end));
        if (fill != nullptr && !fill->is_none() && !extra) part.push_back(*fill);
        spend_steps(part.size() + 1);
        out.push_back(new_list(std::move(part)));
        at = end;
    }
    return new_generator(std::move(out), "sync_do_slice");
}

constexpr auto kFilters = std::to_array<FilterEntry>({
    {"batch", batch},
    {"count", length},
    {"dictsort", filter_dictsort},
    {"first", first},
    {"groupby", filter_groupby},
    {"items", items},
    {"join", join_filter},
    {"last", last},
    {"length", length},
    {"list", list},
    {"map", map},
    {"max", filter_max},
    {"min", filter_min},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"reverse", reverse},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slice},
    {"sort", filter_sort},
    {"sum", filter_sum},
    {"unique", filter_unique},
});

}  // namespace

Filters sequence_filters() {
    return {kFilters.data(), kFilters.data() + kFilters.size()};
}

}  // namespace taproot::jinja
