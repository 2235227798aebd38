// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/filters_order.h"

#include <algorithm>
#include <numeric>

#include "text/jinja/attribute_path.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/raise.h"
#include "text/jinja/text_ops.h"

namespace taproot::jinja {
namespace {

bool flag(const Value* value) {
    return value != nullptr && is_truthy(*value);
}

// Positions of `keys` in ascending (or descending) order; equal keys keep their order either way.
std::vector<std::size_t> sorted_positions(const std::vector<Value>& keys, bool descending) {
    std::vector<std::size_t> order(keys.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&keys, descending](std::size_t a, std::size_t b) {
        spend_steps(1);
        return descending ? compare_values(keys[b], keys[a], "<") == -1
                          : compare_values(keys[a], keys[b], "<") == -1;
    });
    return order;
}

template <int kWanted>
Value extreme(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader(kWanted < 0 ? "min" : "max", args);
    const bool case_sensitive = flag(reader.optional("case_sensitive"));
    const AttributePath path(reader.optional("attribute"));
    reader.finish();
    const std::vector<Value> items = collect(input);
    if (items.empty()) return make_undefined({.hint = "No aggregated item, sequence was empty."});
    const auto key_of = [&](const Value& item) {
        return comparison_key(path.get(item, interpreter.options().strict_sandbox), case_sensitive);
    };
    std::size_t best = 0;
    Value best_key = key_of(items[0]);
    for (std::size_t i = 1; i < items.size(); ++i) {
        Value key = key_of(items[i]);
        if (compare_values(key, best_key, kWanted < 0 ? "<" : ">") != kWanted) continue;
        best = i;
        best_key = std::move(key);
    }
    return items[best];
}

}  // namespace

Value filter_min(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    return extreme<-1>(interpreter, input, args);
}

Value filter_max(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    return extreme<1>(interpreter, input, args);
}

Value filter_sort(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader("sort", args);
    const bool descending = flag(reader.optional("reverse"));
    const bool case_sensitive = flag(reader.optional("case_sensitive"));
    const Value* attribute = reader.optional("attribute");
    reader.finish();
    // "age,name" sorts by several attributes.
    std::vector<AttributePath> paths;
    if (attribute != nullptr && attribute->is_string()) {
        for (Text& part : split(attribute->text(), ",", -1)) {
            const Value name = Value::string(std::move(part));
            paths.emplace_back(&name);
        }
    } else {
        paths.emplace_back(attribute);
    }
    const std::vector<Value> items = collect(input);
    std::vector<Value> keys;
    for (const Value& item : items) {
        std::vector<Value> parts;
        for (const AttributePath& path : paths) {
            parts.push_back(comparison_key(path.get(item, interpreter.options().strict_sandbox),
                                           case_sensitive));
        }
        keys.push_back(Value::list(std::move(parts)));
    }
    std::vector<Value> sorted;
    for (const std::size_t at : sorted_positions(keys, descending)) sorted.push_back(items[at]);
    return new_list(std::move(sorted));
}

Value filter_dictsort(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("dictsort", args);
    const bool case_sensitive = flag(reader.optional("case_sensitive"));
    const Value* by = reader.optional("by");
    const bool descending = flag(reader.optional("reverse"));
    reader.finish();
    const bool by_value = by != nullptr && by->is_string() && by->view() == "value";
    if (by != nullptr && !by_value && !(by->is_string() && by->view() == "key")) {
        raise("FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
    }
    if (input.is_undefined()) raise_undefined(input);
    if (!input.is_dict())
        raise("AttributeError",
              std::string("'") + type_name(input) + "' object has no attribute 'items'");
    const auto& entries = input.dict_data().entries;
    std::vector<Value> keys;
    for (const auto& [key, value] : entries)
        keys.push_back(comparison_key(by_value ? value : key, case_sensitive));
    std::vector<Value> sorted;
    for (const std::size_t at : sorted_positions(keys, descending)) {
        sorted.push_back(
            Value::list({entries[at].first, entries[at].second}, SequenceKind::kTuple));
    }
    return new_list(std::move(sorted));
}

Value filter_groupby(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader("groupby", args);
    const AttributePath path(&reader.required("attribute"));
    const Value* fallback = reader.optional("default");
    const bool case_sensitive = flag(reader.optional("case_sensitive"));
    reader.finish();
    if (fallback != nullptr && fallback->is_none()) fallback = nullptr;
    const std::vector<Value> items = collect(input);
    std::vector<Value> names;
    std::vector<Value> keys;
    for (const Value& item : items) {
        names.push_back(path.get(item, interpreter.options().strict_sandbox, fallback));
        keys.push_back(comparison_key(names.back(), case_sensitive));
    }
    std::vector<Value> groups;
    std::vector<Value> members;
    const auto order = sorted_positions(keys, false);
    for (std::size_t i = 0; i < order.size(); ++i) {
        members.push_back(items[order[i]]);
        if (i + 1 < order.size() && values_equal(keys[order[i]], keys[order[i + 1]])) continue;
        const Value& name = names[order[i + 1 - members.size()]];
        groups.push_back(
            Value::list({name, new_list(std::exchange(members, {}))}, SequenceKind::kTuple));
    }
    return new_list(std::move(groups));
}

Value filter_sum(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader("sum", args);
    const AttributePath path(reader.optional("attribute"));
    const Value* start = reader.optional("start");
    reader.finish();
    Value total = start == nullptr ? Value::integer(0) : *start;
    for (const Value& item : collect(input)) {
        total = arithmetic(ArithmeticOp::kAdd, std::move(total),
                           path.get(item, interpreter.options().strict_sandbox));
    }
    return total;
}

Value filter_unique(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader("unique", args);
    const bool case_sensitive = flag(reader.optional("case_sensitive"));
    const AttributePath path(reader.optional("attribute"));
    reader.finish();
    DictData seen({});
    std::vector<Value> kept;
    for (const Value& item : collect(input)) {
        const Value key =
            comparison_key(path.get(item, interpreter.options().strict_sandbox), case_sensitive);
        require_hashable(key);
        if (seen.find(key) != nullptr) continue;
        seen.set(key, Value::none());
        kept.push_back(item);
    }
    return new_generator(std::move(kept), "sync_do_unique");
}

}  // namespace taproot::jinja
