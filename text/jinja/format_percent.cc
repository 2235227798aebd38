// SPDX-License-Identifier: Apache-2.0
// "%s of %d" % values, as Python's printf-style formatting.
#include <algorithm>
#include <optional>

#include "text/jinja/number_format.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"
#include "text/jinja/work.h"

namespace taproot::jinja {
namespace {

class PercentFormatter {
public:
    PercentFormatter(const Text& format, const Value& values)
        : format_(format), view_(format.view()) {
        if (values.is_list() && values.list_data().kind == SequenceKind::kTuple) {
            arguments_ = values.list_data().items;
        } else {
            arguments_.push_back(values);
            mapping_ = values.is_dict() || values.is_undefined() || (values.is_list());
        }
        values_ = values;
    }

    Text run() {
        std::size_t done = 0;
        for (;;) {
            const std::size_t percent = view_.find('%', done);
            const std::size_t end = percent == std::string_view::npos ? view_.size() : percent;
            out_.append(format_, done, end);
            if (percent == std::string_view::npos) break;
            pos_ = percent + 1;
            convert();
            done = pos_;
        }
        if (used_ < arguments_.size() && !mapping_) {
            raise("TypeError", "not all arguments converted during string formatting");
        }
        return std::move(out_);
    }

private:
    char next_char() {
        if (pos_ >= view_.size()) raise("ValueError", "incomplete format");
        return view_[pos_++];
    }

    const Value& next_argument() {
        if (used_ >= arguments_.size())
            raise("TypeError", "not enough arguments for format string");
        return arguments_[used_++];
    }

    // Width or precision: digits, or '*' for the next argument.
    int take_number() {
        if (pos_ < view_.size() && view_[pos_] == '*') {
            ++pos_;
            const Value& value = next_argument();
            if (!value.is_integral()) raise("TypeError", "* wants int");
            return check_width(value.as_int());
        }
        std::int64_t number = 0;
        while (pos_ < view_.size() && view_[pos_] >= '0' && view_[pos_] <= '9') {
            number = std::min<std::int64_t>(number * 10 + (view_[pos_++] - '0'), 1 << 30);
        }
        return check_width(number);
    }

    static int check_width(std::int64_t number) {
        if (number > kMaxFieldWidth || number < -kMaxFieldWidth)
            raise_limit("a format field is too wide");
        return static_cast<int>(number);
    }

    void take_flags(FieldFormat& field) {
        for (;; ++pos_) {
            const char flag = pos_ < view_.size() ? view_[pos_] : '\0';
            if (flag == '-') {
                field.align = '<';
            } else if (flag == '0') {
                if (field.align == 0) field.align = '=';
            } else if (flag == '+' || (flag == ' ' && field.sign != '+')) {
                field.sign = flag;
            } else if (flag == '#') {
                field.alternate = true;
            } else if (flag != ' ') {
                return;
            }
        }
    }

    // %(name)s: the value under that key.
    std::optional<Value> take_key() {
        if (pos_ >= view_.size() || view_[pos_] != '(') return std::nullopt;
        const std::size_t end = view_.find(')', pos_);
        if (end == std::string_view::npos) raise("ValueError", "incomplete format key");
        const std::string_view key = view_.substr(pos_ + 1, end - pos_ - 1);
        pos_ = end + 1;
        if (!values_.is_dict()) raise("TypeError", "format requires a mapping");
        const Value* value = values_.dict_data().find(key);
        if (value == nullptr) raise("KeyError", repr_string(key));
        return *value;
    }

    void convert() {
        const std::optional<Value> keyed = take_key();
        FieldFormat field;
        take_flags(field);
        field.width = take_number();
        if (field.width < 0) {
            field.align = '<';
            field.width = -field.width;
        }
        if (pos_ < view_.size() && view_[pos_] == '.') {
            ++pos_;
            field.precision = std::max(take_number(), 0);
        }
        while (pos_ < view_.size() &&
               std::string_view("hlL").find(view_[pos_]) != std::string_view::npos)
            ++pos_;
        field.type = next_char();
        if (field.type == '%') {
            out_.append("%", Origin::kTemplate);
            return;
        }
        const Value value = keyed ? *keyed : next_argument();
        const bool numeric =
            std::string_view("diuxXoeEfFgG").find(field.type) != std::string_view::npos;
        if (field.align == '=') {
            if (numeric) {
                field.fill = '0';
            } else {
                field.align = 0;
            }
        }
        const Text piece = pad_field(piece_of(value, field), field, '>');
        spend_bytes(piece.size());
        out_.append(piece);
    }

    static Text cut(const Text& text, int precision) {
        if (precision < 0) return text;
        return text.slice(0, byte_offset(text.view(), static_cast<std::size_t>(precision)));
    }

    static Text piece_of(const Value& value, const FieldFormat& field) {
        switch (field.type) {
            case 's':
                return cut(to_text(value), field.precision);
            case 'r':
            case 'a': {
                std::string printed;
                bool user = false;
                append_repr(printed, value, user);
                return cut(Text(std::move(printed), user ? Origin::kUser : Origin::kTemplate),
                           field.precision);
            }
            case 'c':
                return character(value);
            case 'd':
            case 'i':
            case 'u':
                if (value.is(Kind::kBigInt)) return Text(value.big_digits());
                [[fallthrough]];
            case 'x':
            case 'X':
            case 'o':
                return Text(integer_text(integer_of(value, field.type), field));
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G':
                if (value.is_undefined()) raise_undefined(value);
                if (!value.is_number()) {
                    raise("TypeError", std::string("must be real number, not ") + type_name(value));
                }
                return Text(format_float(value.as_double(), field));
            default:
                raise("ValueError",
                      std::string("unsupported format character '") + field.type + "'");
        }
    }

    // A precision gives integers leading zeros.
    static std::string integer_text(std::int64_t value, const FieldFormat& field) {
        std::string text = format_integer(value, field);
        const std::size_t sign =
            !text.empty() && std::string_view("-+ ").find(text[0]) != std::string_view::npos ? 1
                                                                                             : 0;
        const auto digits = static_cast<std::size_t>(std::max(field.precision, 0));
        if (text.size() - sign < digits) text.insert(sign, digits - (text.size() - sign), '0');
        return text;
    }

    static Text character(const Value& value) {
        if (value.is_string() && count_code_points(value.view()) == 1) return value.text();
        if (!value.is_integral()) raise("TypeError", "%c requires int or char");
        const std::int64_t code = value.as_int();
        if (code < 0 || code > 0x10FFFF) raise("OverflowError", "%c arg not in range(0x110000)");
        std::string out;
        append_utf8(out, static_cast<char32_t>(code));
        return Text(std::move(out));
    }

    const Text& format_;
    std::string_view view_;
    Value values_;
    std::vector<Value> arguments_;
    std::size_t used_ = 0;
    bool mapping_ = false;
    std::size_t pos_ = 0;
    Text out_;
};

}  // namespace

Value format_percent(const Text& format, const Value& values) {
    return Value::string(PercentFormatter(format, values).run());
}

}  // namespace taproot::jinja
