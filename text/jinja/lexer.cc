// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/lexer.h"

#include <algorithm>
#include <array>

#include "text/jinja/string_literal.h"
#include "text/jinja/unicode.h"

namespace taproot::jinja {
namespace {

struct SyntaxFailure {
    std::string message;
    int line;
};

std::string normalize_newlines(std::string_view source) {
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            out += source[i];
        } else {
            out += '\n';
            if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
        }
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

bool is_ascii_digit(char c) {
    return c >= '0' && c <= '9';
}

class Lexer {
public:
    explicit Lexer(std::string source) : source_(std::move(source)) {}

    std::vector<Token> run() {
        while (pos_ < source_.size()) lex_data();
        add(TokenKind::kEnd, "");
        return std::move(tokens_);
    }

private:
    [[nodiscard]] std::string_view rest() const { return std::string_view(source_).substr(pos_); }
    [[nodiscard]] bool at(std::string_view text) const {
        return rest().substr(0, text.size()) == text;
    }

    void add(TokenKind kind, std::string text) {
        tokens_.push_back({kind, std::move(text), line_});
    }

    [[noreturn]] void fail(std::string message) const {
        throw SyntaxFailure{std::move(message), line_};
    }

    void advance(std::size_t bytes) {
        const auto begin = source_.begin() + static_cast<std::ptrdiff_t>(pos_);
        line_ +=
            static_cast<int>(std::count(begin, begin + static_cast<std::ptrdiff_t>(bytes), '\n'));
        pos_ += bytes;
        if (bytes > 0) line_starting_ = source_[pos_ - 1] == '\n';
    }

    void skip_space() { advance(skip_space_left(rest())); }

    // '-', '+' or 0 right after an opening tag.
    char take_sign() {
        if (!at("-") && !at("+")) return 0;
        const char sign = source_[pos_];
        advance(1);
        return sign;
    }

    // What is left of the text before a tag, by the tag's sign and kind.
    std::string_view strip_before_tag(std::string_view text, char sign, bool prints) const {
        if (sign == '-') return text.substr(0, skip_space_right(text));
        if (sign == '+' || prints) return text;
        const std::size_t newline = text.rfind('\n');
        const std::size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
        if (line_begin == 0 && !line_starting_) return text;
        const std::string_view before = text.substr(line_begin);
        return skip_space_left(before) == before.size() ? text.substr(0, line_begin) : text;
    }

    // Consumes the end of a block or comment: "-" eats space, a bare end eats one newline.
    bool take_end(std::string_view end) {
        const bool plus = at("+") && rest().substr(1, end.size()) == end;
        const bool minus = at("-") && rest().substr(1, end.size()) == end;
        if (!plus && !minus && !at(end)) return false;
        advance(end.size() + (plus || minus ? 1 : 0));
        if (minus) skip_space();
        if (!plus && !minus && at("\n")) advance(1);
        return true;
    }

    void lex_data() {
        const std::size_t begin = pos_;
        std::size_t tag = begin;
        for (;; ++tag) {
            tag = source_.find('{', tag);
            if (tag == std::string::npos || tag + 1 >= source_.size()) {
                add(TokenKind::kData, source_.substr(begin));
                advance(source_.size() - begin);
                return;
            }
            const char next = source_[tag + 1];
            if (next == '{' || next == '%' || next == '#') break;
        }
        const std::string_view text = std::string_view(source_).substr(begin, tag - begin);
        const char kind = source_[tag + 1];
        const char mark = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
        const char sign = mark == '-' || mark == '+' ? mark : '\0';
        const std::string_view kept = strip_before_tag(text, sign, kind == '{');
        if (!kept.empty()) add(TokenKind::kData, std::string(kept));
        advance(tag - begin + 2 + (sign != 0 ? 1 : 0));
        if (kind == '#') {
            skip_comment();
        } else if (kind == '{') {
            add(TokenKind::kPrintBegin, "{{");
            lex_tag(false);
        } else if (!take_raw_begin()) {
            add(TokenKind::kBlockBegin, "{%");
            lex_tag(true);
        } else {
            lex_raw();
        }
    }

    void skip_comment() {
        const std::size_t end = source_.find("#}", pos_);
        if (end == std::string::npos) fail("a comment is not closed");
        const bool signed_end = end > pos_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
        advance(end - pos_ - (signed_end ? 1 : 0));
        take_end("#}");
    }

    // Whether the tag that opens here is {% raw %}; if so, consumed to its end.
    bool take_raw_begin() {
        const std::string_view tail = rest();
        std::size_t at_end = skip_space_left(tail);
        if (tail.substr(at_end, 3) != "raw") return false;
        at_end += 3;
        at_end += skip_space_left(tail.substr(at_end));
        const bool minus = tail.substr(at_end, 3) == "-%}";
        if (!minus && tail.substr(at_end, 2) != "%}") return false;
        advance(at_end + (minus ? 3 : 2));
        if (minus) skip_space();
        return true;
    }

    void lex_raw() {
        const std::size_t begin = pos_;
        for (std::size_t tag = begin;; ++tag) {
            tag = source_.find("{%", tag);
            if (tag == std::string::npos) fail("a raw block is not closed");
            std::size_t name = tag + 2;
            const char mark = name < source_.size() ? source_[name] : '\0';
            const char sign = mark == '-' || mark == '+' ? mark : '\0';
            if (sign != 0) ++name;
            const std::string_view tail = std::string_view(source_).substr(name);
            std::size_t end = skip_space_left(tail);
            if (tail.substr(end, 6) != "endraw") continue;
            end += 6;
            end += skip_space_left(tail.substr(end));
            const std::string_view close = tail.substr(end, 3);
            if (close.substr(0, 2) != "%}" && close != "-%}" && close != "+%}") continue;
            const std::string_view text = std::string_view(source_).substr(begin, tag - begin);
            const std::string_view kept = strip_before_tag(text, sign, false);
            if (!kept.empty()) add(TokenKind::kData, std::string(kept));
            advance(name + end - begin);
            take_end("%}");
            return;
        }
    }

    void lex_tag(bool block) {
        open_.clear();
        while (!open_.empty() || !take_tag_end(block)) {
            const std::size_t space = skip_space_left(rest());
            advance(space);
            if (space > 0) continue;
            if (pos_ == source_.size()) fail("a tag is not closed");
            lex_expression_token();
        }
    }

    bool take_tag_end(bool block) {
        if (block) {
            if (!take_end("%}")) return false;
            add(TokenKind::kBlockEnd, "%}");
        } else if (at("-}}")) {
            advance(3);
            skip_space();
            add(TokenKind::kPrintEnd, "}}");
        } else if (at("}}")) {
            advance(2);
            add(TokenKind::kPrintEnd, "}}");
        } else {
            return false;
        }
        return true;
    }

    void lex_expression_token() {
        const char c = source_[pos_];
        char32_t code_point = 0;
        decode_code_point(source_, pos_, code_point);
        if (is_ascii_digit(c)) {
            lex_number();
        } else if (c == '_' || is_letter(code_point)) {
            lex_name();
        } else if (c == '"' || c == '\'') {
            lex_string(c);
        } else {
            lex_operator();
        }
    }

    void lex_name() {
        std::size_t end = pos_;
        while (end < source_.size()) {
            char32_t c = 0;
            const std::size_t length = decode_code_point(source_, end, c);
            if (!is_word(c)) break;
            end += length;
        }
        add(TokenKind::kName, source_.substr(pos_, end - pos_));
        advance(end - pos_);
    }

    void lex_string(char quote) {
        std::size_t end = pos_ + 1;
        while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size()) fail("a string is not closed");
        Result<std::string> text =
            unescape_string(std::string_view(source_).substr(pos_ + 1, end - pos_ - 1));
        if (!text) fail(text.error().message);
        add(TokenKind::kString, std::move(text).value());
        advance(end + 1 - pos_);
    }

    // Digits with single underscores between them, from `from`; returns where they end.
    [[nodiscard]] std::size_t digits_end(std::size_t from, bool (*accept)(char)) const {
        std::size_t end = from;
        while (end < source_.size()) {
            if (accept(source_[end])) {
                ++end;
            } else if (source_[end] == '_' && end > from && end + 1 < source_.size() &&
                       accept(source_[end + 1])) {
                end += 2;
            } else {
                break;
            }
        }
        return end;
    }

    void add_number(TokenKind kind, std::size_t end) {
        std::string text = source_.substr(pos_, end - pos_);
        text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
        add(kind, std::move(text));
        advance(end - pos_);
    }

    // End of a float literal here, or pos_ when the number is an integer.
    [[nodiscard]] std::size_t float_end() const {
        if (pos_ > 0 && source_[pos_ - 1] == '.') return pos_;
        std::size_t end = digits_end(pos_, is_ascii_digit);
        bool is_float = false;
        if (end + 1 < source_.size() && source_[end] == '.' && is_ascii_digit(source_[end + 1])) {
            end = digits_end(end + 1, is_ascii_digit);
            is_float = true;
        }
        if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
            std::size_t digits = end + 1;
            if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-'))
                ++digits;
            if (digits < source_.size() && is_ascii_digit(source_[digits])) {
                end = digits_end(digits, is_ascii_digit);
                is_float = true;
            }
        }
        return is_float ? end : pos_;
    }

    void lex_number() {
        if (const std::size_t end = float_end(); end > pos_)
            return add_number(TokenKind::kFloat, end);
        if (source_[pos_] == '0' && pos_ + 1 < source_.size()) {
            const char base = static_cast<char>(source_[pos_ + 1] | 0x20);
            bool (*accept)(char) = nullptr;
            if (base == 'x') accept = [](char c) { return hex_digit(c) >= 0; };
            if (base == 'o') accept = [](char c) { return c >= '0' && c <= '7'; };
            if (base == 'b') accept = [](char c) { return c == '0' || c == '1'; };
            if (accept != nullptr) {
                const std::size_t from = pos_ + 2;
                const std::size_t skip = from < source_.size() && source_[from] == '_' ? 1 : 0;
                const std::size_t end = digits_end(from + skip, accept);
                if (end > from + skip) return add_number(TokenKind::kInteger, end);
            }
        }
        const bool zero = source_[pos_] == '0';
        add_number(TokenKind::kInteger,
                   digits_end(pos_, zero ? [](char c) { return c == '0'; } : is_ascii_digit));
    }

    void lex_operator() {
        static constexpr std::array<std::string_view, 6> kLong = {
            "//", "**", "==", "!=", ">=", "<="};
        static constexpr std::string_view kShort = "+-/*%~[](){}<>=.:|,;";
        for (const std::string_view text : kLong) {
            if (at(text)) return add_operator(text);
        }
        const char c = source_[pos_];
        if (kShort.find(c) == std::string_view::npos) {
            fail("unexpected character '" + source_.substr(pos_, 1) + "'");
        }
        balance(c);
        add_operator(rest().substr(0, 1));
    }

    void add_operator(std::string_view text) {
        add(TokenKind::kOperator, std::string(text));
        advance(text.size());
    }

    void balance(char c) {
        if (c == '(') open_ += ')';
        if (c == '[') open_ += ']';
        if (c == '{') open_ += '}';
        if (c != ')' && c != ']' && c != '}') return;
        if (open_.empty()) fail(std::string("unexpected '") + c + "'");
        if (open_.back() != c) {
            fail(std::string("unexpected '") + c + "', expected '" + open_.back() + "'");
        }
        open_.pop_back();
    }

    std::string source_;
    std::size_t pos_ = 0;
    int line_ = 1;
    bool line_starting_ = true;  // what was consumed last ended a line
    std::string open_;           // closing brackets that are due
    std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
    try {
        return Lexer(normalize_newlines(source)).run();
    } catch (const SyntaxFailure& failure) {
        return invalid_argument(failure.message, "line " + std::to_string(failure.line));
    }
}

}  // namespace taproot::jinja
