// SPDX-License-Identifier: Apache-2.0
// str.format: "{} {name} {0[key].attr:>10}".
#include <algorithm>

#include "text/jinja/format_braces.h"
#include "text/jinja/number_format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"
#include "text/jinja/work.h"

namespace taproot::jinja {
namespace {

bool all_digits(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "[[fill]align][sign][#][0][width][,][.precision][type]"
FieldFormat parse_spec(std::string_view spec) {
    FieldFormat field;
    std::size_t pos = 0;
    const auto at = [&spec](std::size_t i) { return i < spec.size() ? spec[i] : '\0'; };
    const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
    if (is_align(at(1))) {
        field.fill = at(0);
        field.align = at(1);
        pos = 2;
    } else if (is_align(at(0))) {
        field.align = at(0);
        pos = 1;
    }
    if (at(pos) == '+' || at(pos) == '-' || at(pos) == ' ') field.sign = at(pos++);
    if (at(pos) == '#') field.alternate = true, ++pos;
    if (at(pos) == '0') {
        ++pos;
        if (field.align == 0) field.fill = '0', field.align = '=';
    }
    const auto number = [&] {
        int value = 0;
        for (; at(pos) >= '0' && at(pos) <= '9'; ++pos)
            value = std::min(value * 10 + (at(pos) - '0'), kMaxFieldWidth + 1);
        if (value > kMaxFieldWidth) raise_limit("a format field is too wide");
        return value;
    };
    field.width = number();
    if (at(pos) == ',') field.grouped = true, ++pos;
    if (at(pos) == '.') {
        ++pos;
        if (at(pos) < '0' || at(pos) > '9')
            raise("ValueError", "Format specifier missing precision");
        field.precision = number();
    }
    if (pos < spec.size()) field.type = spec[pos++];
    if (pos < spec.size())
        raise("ValueError", "Invalid format specifier '" + std::string(spec) + "'");
    return field;
}

[[noreturn]] void raise_code(const FieldFormat& field, const Value& value) {
    raise("ValueError", std::string("Unknown format code '") + field.type +
                            "' for object of type '" + type_name(value) + "'");
}

Text format_number(const Value& value, FieldFormat field) {
    if (value.is_integral() && field.type == 0) field.type = 'd';
    const bool integer_code =
        std::string_view("dxXob").find(field.type) != std::string_view::npos && field.type != 0;
    if (value.is_integral() && (integer_code || field.type == 'c') && field.precision >= 0) {
        raise("ValueError", "Precision not allowed in integer format specifier");
    }
    if (value.is_integral() && integer_code) return Text(format_integer(value.as_int(), field));
    if (value.is_integral() && field.type == 'c') {
        std::string out;
        append_utf8(out,
                    static_cast<char32_t>(std::clamp<std::int64_t>(value.as_int(), 0, 0x10FFFF)));
        return Text(std::move(out));
    }
    if (field.type == 0 && field.precision < 0) {
        const std::string printed = float_repr(value.as_double());
        return Text(field.sign != '-' && printed[0] != '-' ? field.sign + printed : printed);
    }
    if (field.type == 0) field.type = 'g';
    if (std::string_view("eEfFgG%").find(field.type) == std::string_view::npos)
        raise_code(field, value);
    return Text(format_float(value.as_double(), field));
}

Text format_value(const Value& value, std::string_view spec) {
    if (spec.empty()) return to_text(value);
    const FieldFormat field = parse_spec(spec);
    if (value.is_number()) return pad_field(format_number(value, field), field, '>');
    if (!value.is_string()) {
        raise("TypeError", std::string("unsupported format string passed to ") + type_name(value) +
                               ".__format__");
    }
    if (field.grouped) raise("ValueError", "Cannot specify ',' with 's'.");
    if (field.sign != '-') raise("ValueError", "Sign not allowed in string format specifier");
    if (field.type != 0 && field.type != 's') raise_code(field, value);
    if (field.align == '=')
        raise("ValueError", "'=' alignment not allowed in string format specifier");
    Text text = to_text(value);
    if (field.precision >= 0) {
        text = text.slice(0, byte_offset(text.view(), static_cast<std::size_t>(field.precision)));
    }
    return pad_field(std::move(text), field, '<');
}

class BraceFormatter {
public:
    BraceFormatter(const CallArgs& args, bool strict) : args_(args), strict_(strict) {}

    Text run(const Text& format, int depth) {
        if (depth > 2) raise("ValueError", "Max string recursion exceeded");
        Text out;
        const std::string_view view = format.view();
        std::size_t pos = 0;
        while (pos < view.size()) {
            const std::size_t brace = view.find_first_of("{}", pos);
            const std::size_t end = brace == std::string_view::npos ? view.size() : brace;
            out.append(format, pos, end);
            if (brace == std::string_view::npos) break;
            if (brace + 1 < view.size() && view[brace + 1] == view[brace]) {
                out.append(format, brace, brace + 1);
                pos = brace + 2;
                continue;
            }
            if (view[brace] == '}') raise("ValueError", "Single '}' encountered in format string");
            const std::size_t close = field_end(view, brace + 1);
            out.append(field(view.substr(brace + 1, close - brace - 1), depth));
            spend_bytes(out.size() / 8);
            pos = close + 1;
        }
        return out;
    }

private:
    static std::size_t field_end(std::string_view view, std::size_t pos) {
        int open = 1;
        for (; pos < view.size(); ++pos) {
            if (view[pos] == '{') ++open;
            if (view[pos] == '}' && --open == 0) return pos;
        }
        raise("ValueError", "expected '}' before end of string");
    }

    Text field(std::string_view body, int depth) {
        const std::size_t end = body.find_first_of("!:");
        const std::string_view name = body.substr(0, end);
        char conversion = 0;
        std::string_view spec;
        if (end != std::string_view::npos && body[end] == '!') {
            if (end + 1 >= body.size())
                raise("ValueError", "end of string while looking for conversion specifier");
            conversion = body[end + 1];
            const std::string_view after = body.substr(end + 2);
            if (!after.empty() && after[0] != ':')
                raise("ValueError", "expected ':' after conversion specifier");
            if (!after.empty()) spec = after.substr(1);
        } else if (end != std::string_view::npos) {
            spec = body.substr(end + 1);
        }
        Value value = lookup(name);
        if (conversion == 's') value = Value::string(to_text(value));
        if (conversion == 'r' || conversion == 'a') {
            std::string printed;
            bool user = false;
            append_repr(printed, value, user);
            value =
                Value::string(Text(std::move(printed), user ? Origin::kUser : Origin::kTemplate));
        }
        const Text filled = run(Text(std::string(spec)), depth + 1);
        return format_value(value, filled.view());
    }

    Value lookup(std::string_view name) {
        const std::size_t end = std::min(name.find_first_of(".["), name.size());
        Value value = first(name.substr(0, end));
        std::string_view rest = name.substr(end);
        while (!rest.empty()) {
            if (rest[0] == '.') {
                const std::size_t stop = std::min(rest.find_first_of(".[", 1), rest.size());
                value = get_attribute(value, rest.substr(1, stop - 1), strict_);
                rest = rest.substr(stop);
            } else {
                const std::size_t stop = rest.find(']');
                if (stop == std::string_view::npos)
                    raise("ValueError", "Missing ']' in format string");
                const std::string key(rest.substr(1, stop - 1));
                const bool index = all_digits(key) && key.size() < 18;
                value = get_item(
                    value, index ? Value::integer(std::stoll(key)) : Value::template_string(key),
                    strict_);
                rest = rest.substr(stop + 1);
            }
        }
        return value;
    }

    Value first(std::string_view name) {
        std::size_t index = 0;
        if (name.empty()) {
            index = automatic_++;
        } else if (all_digits(name) && name.size() < 9) {
            index = std::stoul(std::string(name));
        } else {
            const Value* named = args_.find_named(name);
            if (named == nullptr) raise("KeyError", repr_string(name));
            return *named;
        }
        if (index >= args_.positional.size()) {
            raise("IndexError", "Replacement index " + std::to_string(index) +
                                    " out of range for positional args tuple");
        }
        return args_.positional[index];
    }

    const CallArgs& args_;
    bool strict_;
    std::size_t automatic_ = 0;
};

}  // namespace

Text format_braces(const Text& format, const CallArgs& args, bool strict_sandbox) {
    return BraceFormatter(args, strict_sandbox).run(format, 0);
}

}  // namespace taproot::jinja
