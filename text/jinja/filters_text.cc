// SPDX-License-Identifier: Apache-2.0
// Filters that make text: value|upper and its kin.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja/builtins.h"
#include "text/jinja/escape.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/number_format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"
#include "text/jinja/search.h"
#include "text/jinja/text_ops.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja {
namespace {

void no_arguments(const char* filter, const CallArgs& args) {
    ArgReader(filter, args).finish();
}

const Text& string_argument(const char* filter, const Value& value) {
    if (value.is_undefined()) raise_undefined(value);
    if (!value.is_string()) {
        raise("TypeError", std::string(filter) + " needs a string, not " + type_name(value));
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

template <std::string (*kMap)(std::string_view)>
Value mapped(Interpreter&, const Value& input, const CallArgs& args) {
    no_arguments("filter", args);
    const Text text = to_text(input);
    return blended(text, kMap(text.view()));
}

// Words begin after white space and - ( { [ <, unlike in str.title().
Value title(Interpreter&, const Value& input, const CallArgs& args) {
    no_arguments("title", args);
    const Text text = to_text(input);
    const std::string_view view = text.view();
    std::string out;
    for (std::size_t pos = 0; pos < view.size();) {
        std::size_t end = pos;
        bool separators = false;
        while (end < view.size()) {
            char32_t c = 0;
            const std::size_t length = decode_code_point(view, end, c);
            const bool separator =
                is_space(c) || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) !=
                                                std::string_view::npos);
            if (end > pos && separator != separators) break;
            separators = separator;
            end += length;
        }
        char32_t first = 0;
        const std::size_t head = decode_code_point(view, pos, first);
        out +=
            to_upper(view.substr(pos, head)) + to_lower(view.substr(pos + head, end - pos - head));
        pos = end;
    }
    return blended(text, std::move(out));
}

Value trim(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("trim", args);
    const Value* chars = reader.optional("chars");
    reader.finish();
    const bool given = chars != nullptr && !chars->is_none();
    const Text* wanted = given ? &string_argument("trim", *chars) : nullptr;
    if (input.is_string()) return Value::string(strip(input.text(), Side::kBoth, wanted));
    return Value::string(strip(to_text(input), Side::kBoth, wanted));
}

Value replace_filter(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("replace", args);
    const Text old_part = to_text(reader.required("old"));
    const Text new_part = to_text(reader.required("new"));
    const Value* count = reader.optional("count");
    reader.finish();
    const std::int64_t limit = count == nullptr || count->is_none() ? -1 : integer_argument(*count);
    Text out = replace(to_text(input), old_part.view(), new_part, limit);
    out.set_markup(false);
    return Value::string(std::move(out));
}

Value string(Interpreter&, const Value& input, const CallArgs& args) {
    no_arguments("string", args);
    return input.is_string() ? input : Value::string(to_text(input));
}

Value safe(Interpreter&, const Value& input, const CallArgs& args) {
    no_arguments("safe", args);
    Text text = to_text(input);
    text.set_markup(true);
    return Value::string(std::move(text));
}

Value escape_filter(Interpreter&, const Value& input, const CallArgs& args) {
    no_arguments("escape", args);
    if (input.is_string() && input.text().is_markup()) return input;
    return Value::string(escape_html(to_text(input)));
}

Value force_escape(Interpreter&, const Value& input, const CallArgs& args) {
    no_arguments("forceescape", args);
    return Value::string(escape_html(to_text(input)));
}

Value indent(Interpreter&, const Value& input, const CallArgs& args) {
    ArgReader reader("indent", args);
    const Value* width = reader.optional("width");
    const Value* first = reader.optional("first");
    const Value* blank = reader.optional("blank");
    reader.finish();
    Text indention(std::string(4, ' '));
    if (width != nullptr && width->is_string()) indention = width->text();
    if (width != nullptr && !width->is_string()) {
        const std::int64_t count = integer_argument(*width);
        if (count > kMaxFieldWidth) raise_limit("an indentation is too wide");
        indention =
            Text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), ' '));
    }
    const bool indents_blank = blank != nullptr && is_truthy(*blank);
    if (input.is_list() && input.list_data().kind == SequenceKind::kList) {
        raise("AttributeError", "'list' object has no attribute 'splitlines'");
    }
    Text source = string_argument("indent", input);
    source.append("\n", Origin::kTemplate);
    const std::vector<Text> lines = split_lines(source, false);
    Text out;
    if (first != nullptr && is_truthy(*first)) out.append(indention);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (i > 0) out.append("\n", Origin::kTemplate);
        if (i > 0 && (indents_blank || !lines[i].empty())) out.append(indention);
        out.append(lines[i]);
        spend_bytes(indention.size() + lines[i].size());
    }
    return Value::string(std::move(out));
}

Value center(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    CallArgs forwarded = args;
    if (args.positional.empty() && args.named.empty())
        forwarded.positional.push_back(Value::integer(80));
    return find_string_method("center")->function(interpreter, Value::string(to_text(input)),
                                                  forwarded);
}

Value word_count(Interpreter&, const Value& input, const CallArgs& args) {
    no_arguments("wordcount", args);
    const Text text = to_text(input);
    std::int64_t words = 0;
    bool inside = false;
    for (std::size_t pos = 0; pos < text.size();) {
        char32_t c = 0;
        pos += decode_code_point(text.view(), pos, c);
        if (is_word(c) && !inside) ++words;
        inside = is_word(c);
    }
    return Value::integer(words);
}

Value truncate(Interpreter& interpreter, const Value& input, const CallArgs& args) {
    ArgReader reader("truncate", args);
    const Value* length = reader.optional("length");
    const Value* kill_words = reader.optional("killwords");
    const Value* end = reader.optional("end");
    const Value* leeway = reader.optional("leeway");
    reader.finish();
    const Text ending = end == nullptr ? Text("...") : string_argument("truncate", *end);
    const std::int64_t limit = length == nullptr ? 255 : integer_argument(*length);
    const std::int64_t slack =
        leeway == nullptr || leeway->is_none() ? 5 : integer_argument(*leeway);
    const auto ending_size = static_cast<std::int64_t>(count_code_points(ending.view()));
    if (limit < ending_size)
        raise("AssertionError", "expected length >= " + std::to_string(ending_size));
    if (slack < 0) raise("AssertionError", "expected leeway >= 0");
    const Value length_of_input = find_filter("length")(interpreter, input, {});
    if (length_of_input.as_int() <= limit + slack) return input;
    const Text& text = string_argument("truncate", input);
    std::size_t cut = byte_offset(text.view(), static_cast<std::size_t>(limit - ending_size));
    if (kill_words == nullptr || !is_truthy(*kill_words)) {
        const std::size_t space = text.view().substr(0, cut).rfind(' ');
        if (space != std::string_view::npos) cut = space;
    }
    Text out = text.slice(0, cut);
    out.append(ending);
    return Value::string(std::move(out));
}

Value format(Interpreter&, const Value& input, const CallArgs& args) {
    if (!args.positional.empty() && !args.named.empty()) {
        raise("FilterArgumentError",
              "can't handle positional and keyword arguments at the same time");
    }
    if (args.named.empty()) {
        return format_percent(to_text(input), Value::list(args.positional, SequenceKind::kTuple));
    }
    Value mapping = Value::dict();
    for (const auto& [name, value] : args.named) mapping.set(name, value);
    return format_percent(to_text(input), mapping);
}

std::string quote_url(std::string_view text, bool query) {
    std::string out;
    for (const char c : text) {
        const bool plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
            std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !query);
        if (plain) {
            out += c;
        } else if (c == ' ' && query) {
            out += '+';
        } else {
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
        }
    }
    return out;
}

Value url_encode(Interpreter&, const Value& input, const CallArgs& args) {
    no_arguments("urlencode", args);
    if (!input.is_dict()) {
        const Text text = to_text(input);
        return blended(text, quote_url(text.view(), false));
    }
    std::string out;
    bool user = false;
    for (const auto& [key, value] : input.dict_data().entries) {
        const Text name = to_text(key);
        const Text held = to_text(value);
        user |= name.has_user_bytes() || held.has_user_bytes();
        if (!out.empty()) out += '&';
        out += quote_url(name.view(), true) + "=" + quote_url(held.view(), true);
    }
    return Value::string(Text(std::move(out), user ? Origin::kUser : Origin::kTemplate));
}

constexpr auto kFilters = std::to_array<FilterEntry>({
    {"capitalize", mapped<capitalize>},
    {"center", center},
    {"e", escape_filter},
    {"escape", escape_filter},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"lower", mapped<to_lower>},
    {"replace", replace_filter},
    {"safe", safe},
    {"string", string},
    {"title", title},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", mapped<to_upper>},
    {"urlencode", url_encode},
    {"wordcount", word_count},
});

}  // namespace

Filters text_filters() {
    return {kFilters.data(), kFilters.data() + kFilters.size()};
}

}  // namespace taproot::jinja
