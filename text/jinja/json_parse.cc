// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "text/jinja/json.h"
#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja {
namespace {

constexpr int kMaxDepth = 100;

class JsonParser {
public:
    JsonParser(std::string_view text, Origin origin) : text_(text), origin_(origin) {}

    Result<Value> run() {
        TAPROOT_TRY(Value value, parse_value(0));
        skip_space();
        if (pos_ != text_.size()) return fail("unexpected text after the value");
        return value;
    }

private:
    [[nodiscard]] Error fail(std::string message) const {
        return invalid_argument("invalid JSON: " + std::move(message),
                                "offset " + std::to_string(pos_));
    }

    [[nodiscard]] char peek() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }

    void skip_space() {
        while (pos_ < text_.size() &&
               std::string_view(" \t\n\r").find(text_[pos_]) != std::string_view::npos) {
            ++pos_;
        }
    }

    bool skip(char c) {
        if (peek() != c) return false;
        ++pos_;
        return true;
    }

    Value make_string(std::string bytes) const {
        return Value::string(Text(std::move(bytes), origin_));
    }

    Result<Value> parse_value(int depth) {
        if (depth > kMaxDepth) return fail("nested deeper than 100 levels");
        skip_space();
        switch (peek()) {
            case '{':
                return parse_object(depth);
            case '[':
                return parse_array(depth);
            case '"': {
                TAPROOT_TRY(std::string text, parse_string());
                return make_string(std::move(text));
            }
            case 't':
                return parse_word("true", Value::boolean(true));
            case 'f':
                return parse_word("false", Value::boolean(false));
            case 'n':
                return parse_word("null", Value::none());
            default:
                return parse_number();
        }
    }

    Result<Value> parse_word(std::string_view word, Value value) {
        if (text_.substr(pos_, word.size()) != word) return fail("unknown word");
        pos_ += word.size();
        return value;
    }

    Result<Value> parse_array(int depth) {
        ++pos_;
        std::vector<Value> items;
        skip_space();
        if (skip(']')) return Value::list({});
        for (;;) {
            TAPROOT_TRY(Value item, parse_value(depth + 1));
            items.push_back(std::move(item));
            skip_space();
            if (skip(']')) return Value::list(std::move(items));
            if (!skip(',')) return fail("expected ',' or ']'");
        }
    }

    Result<Value> parse_object(int depth) {
        ++pos_;
        Value object = Value::dict();
        skip_space();
        if (skip('}')) return object;
        for (;;) {
            skip_space();
            if (peek() != '"') return fail("expected a key");
            TAPROOT_TRY(std::string key, parse_string());
            skip_space();
            if (!skip(':')) return fail("expected ':'");
            TAPROOT_TRY(Value value, parse_value(depth + 1));
            object.dict_data().set(make_string(std::move(key)), std::move(value));
            skip_space();
            if (skip('}')) return object;
            if (!skip(',')) return fail("expected ',' or '}'");
        }
    }

    Result<std::string> parse_string() {
        ++pos_;
        std::string out;
        for (;;) {
            if (pos_ >= text_.size()) return fail("a string is not closed");
            const char c = text_[pos_];
            if (c == '"') {
                ++pos_;
                return out;
            }
            if (static_cast<unsigned char>(c) < 0x20)
                return fail("a control character in a string");
            if (c == '\\') {
                TAPROOT_CHECK_OK(append_escape(out));
                continue;
            }
            char32_t code_point = 0;
            const std::size_t length = decode_code_point(text_, pos_, code_point);
            if (code_point == kInvalidCodePoint) return fail("invalid UTF-8");
            out.append(text_.substr(pos_, length));
            pos_ += length;
        }
    }

    // Four hex digits at `at`, or -1.
    [[nodiscard]] long hex4(std::size_t at) const {
        if (at + 4 > text_.size()) return -1;
        long value = 0;
        for (std::size_t i = at; i < at + 4; ++i) {
            const int digit = hex_digit(text_[i]);
            if (digit < 0) return -1;
            value = value * 16 + digit;
        }
        return value;
    }

    Result<void> append_escape(std::string& out) {
        static constexpr std::string_view kLetters = "\"\\/bfnrt";
        static constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
        const char escape = pos_ + 1 < text_.size() ? text_[pos_ + 1] : '\0';
        if (const std::size_t known = kLetters.find(escape); known != std::string_view::npos) {
            out += kMeanings[known];
            pos_ += 2;
            return {};
        }
        long value = escape == 'u' ? hex4(pos_ + 2) : -1;
        if (value < 0) return fail("a broken escape in a string");
        pos_ += 6;
        if (value >= 0xD800 && value < 0xE000) {
            const long low = value < 0xDC00 && text_.substr(pos_, 2) == "\\u" ? hex4(pos_ + 2) : -1;
            if (low >= 0xDC00 && low < 0xE000) {
                value = 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00);
                pos_ += 6;
            } else {
                value = 0xFFFD;
            }
        }
        append_utf8(out, static_cast<char32_t>(value));
        return {};
    }

    std::size_t skip_digits() {
        const std::size_t begin = pos_;
        while (peek() >= '0' && peek() <= '9') ++pos_;
        return pos_ - begin;
    }

    Result<Value> parse_number() {
        const std::size_t begin = pos_;
        skip('-');
        const bool zero = peek() == '0';
        const std::size_t whole = skip_digits();
        if (whole == 0) return fail("unexpected character");
        if (zero && whole > 1) return fail("a number starts with 0");
        bool is_float = false;
        if (skip('.')) {
            is_float = true;
            if (skip_digits() == 0) return fail("a number ends with '.'");
        }
        if (skip('e') || skip('E')) {
            is_float = true;
            if (!skip('+')) skip('-');
            if (skip_digits() == 0) return fail("a number has an empty exponent");
        }
        const std::string digits(text_.substr(begin, pos_ - begin));
        if (is_float) return Value::number(std::strtod(digits.c_str(), nullptr));
        std::int64_t value = 0;
        const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (parsed.ec != std::errc()) return Value::big_integer(digits);
        return Value::integer(value);
    }

    std::string_view text_;
    Origin origin_;
    std::size_t pos_ = 0;
};

}  // namespace

Result<Value> parse_json(std::string_view text, Origin origin) {
    return JsonParser(text, origin).run();
}

}  // namespace taproot::jinja
