// SPDX-License-Identifier: Apache-2.0
// The methods of str.
#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/format_braces.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/number_format.h"
#include "text/jinja/raise.h"
#include "text/jinja/search.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja {
namespace {

constexpr std::size_t kNowhere = std::string_view::npos;

const Text& text_argument(const char* method, const Value& value) {
    if (value.is_undefined()) raise_undefined(value);
    if (!value.is_string()) {
        raise("TypeError", std::string(method) + " argument must be str, not " + type_name(value));
    }
    return value.text();
}

std::int64_t integer_argument(const Value& value) {
    if (value.is_undefined()) raise_undefined(value);
    if (!value.is_integral()) {
        raise("TypeError",
              std::string("'") + type_name(value) + "' object cannot be interpreted as an integer");
    }
    return value.as_int();
}

void no_arguments(const char* method, const CallArgs& args) {
    ArgReader(method, args).finish();
}

template <std::string (*kMap)(std::string_view)>
Value mapped(Interpreter&, const Value& self, const CallArgs& args) {
    no_arguments("str", args);
    return blended(self.text(), kMap(self.view()));
}

template <Side kSide>
Value strip_method(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("strip", args);
    const Value* chars = reader.optional("chars");
    reader.finish();
    const bool given = chars != nullptr && !chars->is_none();
    return Value::string(
        strip(self.text(), kSide, given ? &text_argument("strip", *chars) : nullptr));
}

template <bool kRight>
Value split_method(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("split", args);
    const Value* separator = reader.optional("sep");
    const Value* max_splits = reader.optional("maxsplit");
    reader.finish();
    const std::int64_t limit = max_splits == nullptr ? -1 : integer_argument(*max_splits);
    const Text& text = self.text();
    if (separator == nullptr || separator->is_none()) {
        return string_list(kRight ? split_space_right(text, limit) : split_space(text, limit));
    }
    const std::string_view view = text_argument("split", *separator).view();
    if (view.empty()) raise("ValueError", "empty separator");
    return string_list(kRight ? split_right(text, view, limit) : split(text, view, limit));
}

Value splitlines(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("splitlines", args);
    const Value* keep = reader.optional("keepends");
    reader.finish();
    return string_list(split_lines(self.text(), keep != nullptr && is_truthy(*keep)));
}

template <bool kRight>
Value partition(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("partition", args);
    const std::string_view separator = text_argument("partition", reader.required("sep")).view();
    reader.finish();
    if (separator.empty()) raise("ValueError", "empty separator");
    const Text& text = self.text();
    const std::size_t at =
        kRight ? find_last_bytes(text.view(), separator) : find_bytes(text.view(), separator, 0);
    std::vector<Text> parts(3);
    if (at == kNowhere) {
        parts[kRight ? 2 : 0] = text;
    } else {
        parts[0] = text.slice(0, at);
        parts[1] = text.slice(at, at + separator.size());
        parts[2] = text.slice(at + separator.size(), text.size());
    }
    return string_list(std::move(parts), SequenceKind::kTuple);
}

Value replace_method(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("replace", args);
    const Text& old_part = text_argument("replace", reader.required("old"));
    const Text& new_part = text_argument("replace", reader.required("new"));
    const Value* count = reader.optional("count");
    reader.finish();
    return Value::string(replace(self.text(), old_part.view(), new_part,
                                 count == nullptr ? -1 : integer_argument(*count)));
}

// The part of the text that optional start and end positions choose.
struct Window {
    std::size_t begin;  // bytes
    std::size_t end;
    bool valid;  // start is not beyond the end
};

std::size_t position_argument(const Value* value, std::size_t fallback, std::int64_t length,
                              std::string_view view) {
    if (value == nullptr || value->is_none()) return fallback;
    std::int64_t index = integer_argument(*value);
    if (index < 0) index = std::max<std::int64_t>(index + length, 0);
    if (index > length) return view.size() + 1;
    return byte_offset(view, static_cast<std::size_t>(index));
}

Window read_window(ArgReader& reader, std::string_view view) {
    const Value* start = reader.optional("start");
    const Value* end = reader.optional("end");
    reader.finish();
    if (start == nullptr && end == nullptr) return {0, view.size(), true};
    const auto length = static_cast<std::int64_t>(count_code_points(view));
    const std::size_t from = position_argument(start, 0, length, view);
    const std::size_t to = std::min(position_argument(end, view.size(), length, view), view.size());
    return {std::min(from, view.size()), to, from <= to};
}

template <bool kEnd>
Value affix(Interpreter&, const Value& self, const CallArgs& args) {
    const char* name = kEnd ? "endswith" : "startswith";
    ArgReader reader(name, args);
    const Value& wanted = reader.required("prefix");
    const Window window = read_window(reader, self.view());
    const std::string_view view =
        window.valid ? self.view().substr(window.begin, window.end - window.begin) : "";
    const auto matches = [&](const Value& part) {
        if (part.is_undefined()) raise_undefined(part);
        if (!part.is_string()) {
            raise("TypeError", std::string(name) +
                                   " first arg must be str or a tuple of str, not " +
                                   type_name(part));
        }
        if (!window.valid) return false;
        return kEnd ? view.ends_with(part.view()) : view.starts_with(part.view());
    };
    if (!wanted.is_list() || wanted.list_data().kind != SequenceKind::kTuple)
        return Value::boolean(matches(wanted));
    const auto& parts = wanted.list_data().items;
    return Value::boolean(std::any_of(parts.begin(), parts.end(), matches));
}

template <bool kRight, bool kRaises>
Value find_method_of_str(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("find", args);
    const std::string_view part = text_argument("find", reader.required("sub")).view();
    const std::string_view view = self.view();
    const Window window = read_window(reader, view);
    std::size_t at = kNowhere;
    if (window.valid) {
        const std::string_view inside = view.substr(window.begin, window.end - window.begin);
        at = kRight ? find_last_bytes(inside, part) : find_bytes(inside, part, 0);
    }
    if (at == kNowhere && kRaises) raise("ValueError", "substring not found");
    if (at == kNowhere) return Value::integer(-1);
    return Value::integer(
        static_cast<std::int64_t>(count_code_points(view.substr(0, window.begin + at))));
}

Value count_method(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("count", args);
    const std::string_view part = text_argument("count", reader.required("sub")).view();
    const Window window = read_window(reader, self.view());
    if (!window.valid) return Value::integer(0);
    return Value::integer(
        count_occurrences(self.view().substr(window.begin, window.end - window.begin), part));
}

template <bool kSuffix>
Value remove_affix(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("removeprefix", args);
    const std::string_view part = text_argument("removeprefix", reader.required("prefix")).view();
    reader.finish();
    const Text& text = self.text();
    const bool found = kSuffix ? text.view().ends_with(part) : text.view().starts_with(part);
    if (!found) return self;
    return Value::string(kSuffix ? text.slice(0, text.size() - part.size())
                                 : text.slice(part.size(), text.size()));
}

Value join_method(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("join", args);
    const std::vector<Value> items = collect(reader.required("iterable"));
    reader.finish();
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (items[i].is_string()) continue;
        raise("TypeError", "sequence item " + std::to_string(i) + ": expected str instance, " +
                               type_name(items[i]) + " found");
    }
    return Value::string(join(self.text(), items));
}

template <char kAlign>
Value justify(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("center", args);
    FieldFormat field;
    const std::int64_t width = integer_argument(reader.required("width"));
    const Value* fill = reader.optional("fillchar");
    reader.finish();
    if (width > kMaxFieldWidth) raise_limit("a field is too wide");
    field.width = static_cast<int>(std::max<std::int64_t>(width, 0));
    if (fill != nullptr) {
        if (!fill->is_string() || fill->view().size() != 1) {
            raise("TypeError", "The fill character must be exactly one character long");
        }
        field.fill = fill->view()[0];
    }
    Text text = self.text();
    if (kAlign != '^') return Value::string(pad_field(std::move(text), field, kAlign));
    // CPython puts the odd space left only when the width is odd too.
    const auto length = static_cast<int>(count_code_points(text.view()));
    const int missing = std::max(field.width - length, 0);
    const int left = missing / 2 + (missing & field.width & 1);
    field.width = length + left;
    text = pad_field(std::move(text), field, '>');
    field.width = length + missing;
    return Value::string(pad_field(std::move(text), field, '<'));
}

Value zfill(Interpreter&, const Value& self, const CallArgs& args) {
    ArgReader reader("zfill", args);
    const std::int64_t width = integer_argument(reader.required("width"));
    reader.finish();
    if (width > kMaxFieldWidth) raise_limit("a field is too wide");
    FieldFormat field;
    field.fill = '0';
    field.width = static_cast<int>(std::max<std::int64_t>(width, 0));
    const bool sign = !self.view().empty() && (self.view()[0] == '-' || self.view()[0] == '+');
    return Value::string(pad_field(self.text(), field, sign ? '=' : '>'));
}

Value format_method(Interpreter& interpreter, const Value& self, const CallArgs& args) {
    return Value::string(format_braces(self.text(), args, interpreter.options().strict_sandbox));
}

// str.isX(): all characters are X and there is at least one.
template <bool (*kAccept)(char32_t)>
Value all_of_kind(Interpreter&, const Value& self, const CallArgs& args) {
    no_arguments("str", args);
    const std::string_view view = self.view();
    for (std::size_t pos = 0; pos < view.size();) {
        char32_t c = 0;
        pos += decode_code_point(view, pos, c);
        if (!kAccept(c)) return Value::boolean(false);
    }
    return Value::boolean(!view.empty());
}

// str.islower, isupper: some cased character, and none of the other case.
template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
Value all_cased(Interpreter&, const Value& self, const CallArgs& args) {
    no_arguments("str", args);
    bool any = false;
    for (std::size_t pos = 0; pos < self.view().size();) {
        char32_t c = 0;
        pos += decode_code_point(self.view(), pos, c);
        if (kOther(c)) return Value::boolean(false);
        any |= kWanted(c);
    }
    return Value::boolean(any);
}

Value istitle(Interpreter&, const Value& self, const CallArgs& args) {
    no_arguments("istitle", args);
    const bool cased = to_lower(self.view()) != to_upper(self.view());
    return Value::boolean(cased && title_case(self.view()) == self.view());
}

Value isascii(Interpreter&, const Value& self, const CallArgs& args) {
    no_arguments("isascii", args);
    return Value::boolean(is_ascii(self.view()));
}

bool is_alnum(char32_t c) {
    return c != '_' && is_word(c);
}

constexpr auto kMethods = std::to_array<MethodEntry>({
    {"capitalize", mapped<capitalize>},
    {"casefold", mapped<to_lower>},
    {"center", justify<'^'>},
    {"count", count_method},
    {"encode", nullptr},
    {"endswith", affix<true>},
    {"expandtabs", nullptr},
    {"find", find_method_of_str<false, false>},
    {"format", format_method},
    {"format_map", nullptr},
    {"index", find_method_of_str<false, true>},
    {"isalnum", all_of_kind<is_alnum>},
    {"isalpha", all_of_kind<is_letter>},
    {"isascii", isascii},
    {"isdecimal", all_of_kind<is_digit>},
    {"isdigit", all_of_kind<is_digit>},
    {"isidentifier", nullptr},
    {"islower", all_cased<is_lower, is_upper>},
    {"isnumeric", all_of_kind<is_digit>},
    {"isprintable", nullptr},
    {"isspace", all_of_kind<is_space>},
    {"istitle", istitle},
    {"isupper", all_cased<is_upper, is_lower>},
    {"join", join_method},
    {"ljust", justify<'<'>},
    {"lower", mapped<to_lower>},
    {"lstrip", strip_method<Side::kLeft>},
    {"maketrans", nullptr},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace_method},
    {"rfind", find_method_of_str<true, false>},
    {"rindex", find_method_of_str<true, true>},
    {"rjust", justify<'>'>},
    {"rpartition", partition<true>},
    {"rsplit", split_method<true>},
    {"rstrip", strip_method<Side::kRight>},
    {"split", split_method<false>},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
    {"strip", strip_method<Side::kBoth>},
    {"swapcase", mapped<swap_case>},
    {"title", mapped<title_case>},
    {"translate", nullptr},
    {"upper", mapped<to_upper>},
    {"zfill", zfill},
});

}  // namespace

const MethodEntry* find_string_method(std::string_view name) {
    const auto* entry =
        std::find_if(kMethods.begin(), kMethods.end(),
                     [name](const MethodEntry& method) { return name == method.name; });
    return entry == kMethods.end() ? nullptr : entry;
}

}  // namespace taproot::jinja
