// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/print.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "text/jinja/ast.h"
#include "text/jinja/callable.h"
#include "text/jinja/loop.h"
#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"
#include "text/jinja/work.h"

namespace taproot::jinja {
namespace {

// Python prints addresses; ours are the same every time so that prompts stay cacheable.
constexpr const char* kAddress = "0x7f0000000000";

void append_escape(std::string& out, char32_t c) {
    if (c <= 0xFF) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    } else if (c <= 0xFFFF) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
        out += fmt::format("\\U{:08x}", static_cast<unsigned>(c));
    }
}

void append_items(std::string& out, const std::vector<Value>& items, bool& user, int depth) {
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i > 0) out += ", ";
        append_repr(out, items[i], user, depth + 1);
    }
}

void append_list(std::string& out, const ListData& list, bool& user, int depth) {
    switch (list.kind) {
        case SequenceKind::kRange:
        case SequenceKind::kGenerator:
            out += list.label;
            return;
        case SequenceKind::kTuple:
            out += '(';
            append_items(out, list.items, user, depth);
            out += list.items.size() == 1 ? ",)" : ")";
            return;
        case SequenceKind::kKeys:
            out += "dict_keys([";
            break;
        case SequenceKind::kValues:
            out += "dict_values([";
            break;
        case SequenceKind::kItems:
            out += "dict_items([";
            break;
        case SequenceKind::kList:
            out += '[';
            break;
    }
    append_items(out, list.items, user, depth);
    out += list.kind == SequenceKind::kList ? "]" : "])";
}

void append_dict(std::string& out, const DictData& dict, bool& user, int depth) {
    out += '{';
    bool first = true;
    for (const auto& [key, value] : dict.entries) {
        if (!first) out += ", ";
        first = false;
        append_repr(out, key, user, depth + 1);
        out += ": ";
        append_repr(out, value, user, depth + 1);
    }
    out += '}';
}

void append_namespace(std::string& out, const NamespaceData& data, bool& user, int depth) {
    out += "<Namespace {";
    bool first = true;
    for (const auto& [key, value] : data.entries) {
        if (!first) out += ", ";
        first = false;
        out += repr_string(key) + ": ";
        append_repr(out, value, user, depth + 1);
    }
    out += "}>";
}

std::string callable_repr(const CallableData& callable) {
    switch (callable.kind) {
        case CallableData::Kind::kGlobal:
            return fmt::format("<function {} at {}>", callable.name, kAddress);
        case CallableData::Kind::kMethod:
            return fmt::format("<built-in method {} of {} object at {}>", callable.name,
                               type_name(callable.self), kAddress);
        case CallableData::Kind::kMacro:
            if (callable.macro->kind == StmtKind::kCallBlock) return "<Macro anonymous>";
            return fmt::format("<Macro {}>", repr_string(callable.macro->signature->name));
    }
    return {};
}

}  // namespace

std::string float_repr(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    char buffer[40];
    const auto end =
        std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
    std::string_view text(buffer, static_cast<std::size_t>(end.ptr - buffer));
    const std::size_t e = text.find('e');
    int exponent = 0;
    const std::size_t digits_of_exponent = e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(text.data() + digits_of_exponent, text.data() + text.size(), exponent);
    std::string sign = text[0] == '-' ? "-" : "";
    std::string digits;
    for (const char c : text.substr(0, e)) {
        if (c >= '0' && c <= '9') digits += c;
    }
    const int count = static_cast<int>(digits.size());
    if (exponent < -4 || exponent >= 16) {
        std::string mantissa = digits.substr(0, 1);
        if (count > 1) mantissa += "." + digits.substr(1);
        return fmt::format("{}{}e{}{:02d}", sign, mantissa, exponent < 0 ? '-' : '+',
                           std::abs(exponent));
    }
    if (exponent < 0)
        return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    if (count <= exponent + 1) {
        return sign + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') +
               ".0";
    }
    const auto whole = static_cast<std::size_t>(exponent + 1);
    return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string repr_string(std::string_view text) {
    const bool single = text.find('\'') != std::string_view::npos;
    const bool twofold = text.find('"') != std::string_view::npos;
    const char quote = single && !twofold ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t pos = 0; pos < text.size();) {
        char32_t c = 0;
        const std::size_t length = decode_code_point(text, pos, c);
        if (c == static_cast<unsigned char>(quote) || c == '\\') {
            out += '\\';
            out += static_cast<char>(c);
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '\r') {
            out += "\\r";
        } else if (c == '\t') {
            out += "\\t";
        } else if (c != kInvalidCodePoint && !is_printable(c)) {
            append_escape(out, c);
        } else {
            out.append(text.substr(pos, length));
        }
        pos += length;
    }
    return out + quote;
}

void append_repr(std::string& out, const Value& value, bool& user, int depth) {
    if (depth > kMaxNesting) raise_limit("values are nested deeper than 200 levels");
    spend_steps(1);
    switch (value.kind()) {
        case Kind::kUndefined:
            out += "Undefined";
            return;
        case Kind::kNone:
            out += "None";
            return;
        case Kind::kBool:
            out += value.as_bool() ? "True" : "False";
            return;
        case Kind::kInt:
            out += std::to_string(value.as_int());
            return;
        case Kind::kBigInt:
            out += value.big_digits();
            return;
        case Kind::kFloat:
            out += float_repr(value.as_double());
            return;
        case Kind::kString:
            user |= value.text().has_user_bytes();
            spend_bytes(value.text().size());
            out += value.text().is_markup() ? "Markup(" + repr_string(value.view()) + ")"
                                            : repr_string(value.view());
            return;
        case Kind::kList:
            append_list(out, value.list_data(), user, depth);
            return;
        case Kind::kDict:
            append_dict(out, value.dict_data(), user, depth);
            return;
        case Kind::kNamespace:
            append_namespace(out, value.namespace_data(), user, depth);
            return;
        case Kind::kCallable:
            out += callable_repr(value.callable());
            return;
        case Kind::kLoop:
            out += value.loop()->describe();
            return;
    }
}

std::string repr(const Value& value) {
    std::string out;
    bool user = false;
    append_repr(out, value, user);
    return out;
}

void append_text(Text& out, const Value& value) {
    if (value.is_string()) {
        out.append(value.text());
    } else if (!value.is_undefined()) {
        std::string printed;
        bool user = false;
        append_repr(printed, value, user);
        out.append(printed, user ? Origin::kUser : Origin::kTemplate);
    }
}

Text to_text(const Value& value) {
    Text out;
    append_text(out, value);
    return out;
}

}  // namespace taproot::jinja
