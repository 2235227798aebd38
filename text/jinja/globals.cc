// SPDX-License-Identifier: Apache-2.0
// The global functions, and the look-up of every built-in by name.
#include <algorithm>
#include <array>
#include <ctime>
#include <unordered_map>

#include "text/jinja/builtins.h"
#include "text/jinja/dict_build.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"

namespace taproot::jinja {

void fill_dict(DictData& dict, const char* callee, const CallArgs& args) {
    if (args.positional.size() > 1) {
        raise("TypeError", std::string(callee) + " expected at most 1 argument, got " +
                               std::to_string(args.positional.size()));
    }
    if (args.positional.size() == 1 && args.positional[0].is_dict()) {
        const std::vector<DictData::Entry> entries = args.positional[0].dict_data().entries;
        spend_steps(entries.size());
        for (const auto& [key, value] : entries) dict.set(key, value);
    } else if (args.positional.size() == 1) {
        std::size_t index = 0;
        for (const Value& pair : collect(args.positional[0])) {
            const std::vector<Value> parts = collect(pair);
            if (parts.size() != 2) {
                raise("ValueError", "dictionary update sequence element #" + std::to_string(index) +
                                        " has length " + std::to_string(parts.size()) +
                                        "; 2 is required");
            }
            require_hashable(parts[0]);
            dict.set(parts[0], parts[1]);
            ++index;
        }
    }
    for (const auto& [name, value] : args.named) dict.set(Value::template_string(name), value);
}

namespace {

constexpr std::int64_t kMaxRange = 100'000;  // as jinja2's sandbox

Value raise_exception(Interpreter&, const CallArgs& args) {
    ArgReader reader("raise_exception", args);
    const Value& message = reader.required("message");
    reader.finish();
    raise_message(to_text(message).bytes());
}

std::string format_time(const std::string& format, const std::tm& now) {
    if (format.empty()) return {};
    // A leading space tells an empty result ("%p" in some places) from a buffer that is too small.
    const std::string padded = " " + format;
    std::string buffer(256, '\0');
    for (;;) {
        const std::size_t length =
            std::strftime(buffer.data(), buffer.size(), padded.c_str(), &now);
        if (length > 0) return buffer.substr(1, length - 1);
        if (buffer.size() > 64 * format.size() + 4096) raise("ValueError", "Invalid format string");
        buffer.resize(buffer.size() * 4);
    }
}

Value strftime_now(Interpreter& interpreter, const CallArgs& args) {
    ArgReader reader("strftime_now", args);
    const Value& format = reader.required("format");
    reader.finish();
    if (!format.is_string())
        raise("TypeError",
              std::string("strftime() argument 1 must be str, not ") + type_name(format));
    if (format.view().size() > 1000) raise_limit("a time format is longer than 1000 bytes");
    std::tm now{};
    if (interpreter.options().now) {
        now = interpreter.options().now();
    } else {
        const std::time_t seconds = std::time(nullptr);
        ::localtime_r(&seconds, &now);
    }
    return Value::string(
        Text(format_time(std::string(format.view()), now), format.text().blended_origin()));
}

std::int64_t range_argument(const Value& value) {
    if (value.is_undefined()) raise_undefined(value);
    if (!value.is_integral()) {
        raise("TypeError",
              std::string("'") + type_name(value) + "' object cannot be interpreted as an integer");
    }
    return value.as_int();
}

Value range(Interpreter&, const CallArgs& args) {
    const std::size_t count = args.positional.size();
    if (!args.named.empty()) raise("TypeError", "range() takes no keyword arguments");
    if (count == 0 || count > 3)
        raise("TypeError", "range expected 1 to 3 arguments, got " + std::to_string(count));
    const std::int64_t start = count == 1 ? 0 : range_argument(args.positional[0]);
    const std::int64_t stop = range_argument(args.positional[count == 1 ? 0 : 1]);
    const std::int64_t step = count == 3 ? range_argument(args.positional[2]) : 1;
    if (step == 0) raise("ValueError", "range() arg 3 must not be zero");
    std::vector<Value> items;
    for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
        if (items.size() >= static_cast<std::size_t>(kMaxRange)) {
            raise("OverflowError",
                  "Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
        }
        items.push_back(Value::integer(at));
        if (__builtin_add_overflow(at, step, &at)) break;
    }
    spend_steps(items.size());
    Value out = Value::list(std::move(items), SequenceKind::kRange);
    out.list_data().label = range_label(start, stop, step);
    return out;
}

Value make_dict(Interpreter&, const CallArgs& args) {
    Value dict = Value::dict();
    dict.dict_data().writable = true;
    fill_dict(dict.dict_data(), "dict", args);
    return dict;
}

Value make_namespace_value(Interpreter& interpreter, const CallArgs& args) {
    const Value initial = Value::dict();
    fill_dict(initial.dict_data(), "namespace", args);
    auto data = std::make_shared<NamespaceData>();
    for (const auto& [key, value] : initial.dict_data().entries)
        data->set(to_text(key).view(), value);
    return interpreter.new_namespace(std::move(data));
}

struct GlobalEntry {
    std::string_view name;
    GlobalFunction function;
};

constexpr auto kGlobals = std::to_array<GlobalEntry>({
    {"dict", make_dict},
    {"namespace", make_namespace_value},
    {"raise_exception", raise_exception},
    {"range", range},
    {"strftime_now", strftime_now},
});

using FilterTable = std::unordered_map<std::string_view, FilterFunction>;

FilterTable build_filters() {
    FilterTable table;
    for (const Filters& filters : {text_filters(), sequence_filters(), value_filters()}) {
        for (const FilterEntry* entry = filters.begin; entry != filters.end; ++entry) {
            table.emplace(entry->name, entry->function);
        }
    }
    return table;
}

}  // namespace

std::string range_label(std::int64_t start, std::int64_t stop, std::int64_t step) {
    const std::string bounds = "range(" + std::to_string(start) + ", " + std::to_string(stop);
    return step == 1 ? bounds + ")" : bounds + ", " + std::to_string(step) + ")";
}

GlobalFunction find_global(std::string_view name) {
    const auto* found =
        std::find_if(kGlobals.begin(), kGlobals.end(),
                     [name](const GlobalEntry& entry) { return entry.name == name; });
    return found == kGlobals.end() ? nullptr : found->function;
}

FilterFunction find_filter(std::string_view name) {
    static const FilterTable table = build_filters();
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second;
}

const MethodEntry* find_method(const Value& self, std::string_view name) {
    return self.is_string() ? find_string_method(name) : find_container_method(self, name);
}

}  // namespace taproot::jinja
