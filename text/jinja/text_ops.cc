// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/text_ops.h"

#include <algorithm>

#include "text/jinja/print.h"
#include "text/jinja/search.h"
#include "text/jinja/unicode.h"
#include "text/jinja/work.h"

namespace taproot::jinja {
namespace {

bool is_in(std::string_view chars, std::string_view character) {
    for (std::size_t pos = 0; pos < chars.size();) {
        char32_t c = 0;
        const std::size_t length = decode_code_point(chars, pos, c);
        if (chars.substr(pos, length) == character) return true;
        pos += length;
    }
    return false;
}

std::size_t left_end(std::string_view text, const Text* chars) {
    if (chars == nullptr) return skip_space_left(text);
    std::size_t pos = 0;
    while (pos < text.size()) {
        char32_t c = 0;
        const std::size_t length = decode_code_point(text, pos, c);
        if (!is_in(chars->view(), text.substr(pos, length))) break;
        pos += length;
    }
    return pos;
}

std::size_t right_end(std::string_view text, const Text* chars) {
    if (chars == nullptr) return skip_space_right(text);
    std::size_t end = text.size();
    while (end > 0) {
        const std::size_t length = previous_length(text, end);
        if (!is_in(chars->view(), text.substr(end - length, length))) break;
        end -= length;
    }
    return end;
}

void add_piece(std::vector<Text>& pieces, const Text& text, std::size_t begin, std::size_t end) {
    spend_steps(1);
    spend_bytes(end - begin);
    pieces.push_back(text.slice(begin, end));
}

// Length of the line break at `pos`, or 0. "\r\n" is one break.
std::size_t line_break_length(std::string_view text, std::size_t pos) {
    const char c = text[pos];
    if (c == '\r') return pos + 1 < text.size() && text[pos + 1] == '\n' ? 2 : 1;
    if ((c >= '\n' && c <= '\f') || (c >= 0x1C && c <= 0x1E)) return 1;
    if (static_cast<unsigned char>(c) < 0x80) return 0;
    char32_t code_point = 0;
    const std::size_t length = decode_code_point(text, pos, code_point);
    return code_point == 0x85 || code_point == 0x2028 || code_point == 0x2029 ? length : 0;
}

}  // namespace

Text strip(const Text& text, Side side, const Text* chars) {
    const std::string_view view = text.view();
    const std::size_t begin = side == Side::kRight ? 0 : left_end(view, chars);
    const std::size_t end =
        side == Side::kLeft ? view.size() : begin + right_end(view.substr(begin), chars);
    spend_bytes(end - begin);
    return text.slice(begin, end);
}

Text replace(const Text& text, std::string_view old_part, const Text& new_part,
             std::int64_t count) {
    const std::string_view view = text.view();
    Text out;
    out.set_markup(text.is_markup());
    std::size_t done = 0;
    if (old_part.empty()) {
        // Python inserts before each character and at the end.
        for (std::int64_t n = 0; (count < 0 || n < count) && done <= view.size(); ++n) {
            spend_bytes(new_part.size() + 1);
            out.append(new_part);
            if (done == view.size()) return out;
            char32_t c = 0;
            const std::size_t length = decode_code_point(view, done, c);
            out.append(text, done, done + length);
            done += length;
        }
        out.append(text, done, view.size());
        return out;
    }
    for (std::int64_t n = 0; count < 0 || n < count; ++n) {
        const std::size_t at = find_bytes(view, old_part, done);
        if (at == std::string_view::npos) break;
        spend_steps(1);
        spend_bytes(at - done + new_part.size());
        out.append(text, done, at);
        out.append(new_part);
        done = at + old_part.size();
    }
    spend_bytes(view.size() - done);
    out.append(text, done, view.size());
    return out;
}

std::vector<Text> split(const Text& text, std::string_view separator, std::int64_t max_splits) {
    std::vector<Text> pieces;
    std::size_t done = 0;
    for (std::int64_t n = 0; max_splits < 0 || n < max_splits; ++n) {
        const std::size_t at = find_bytes(text.view(), separator, done);
        if (at == std::string_view::npos) break;
        add_piece(pieces, text, done, at);
        done = at + separator.size();
    }
    add_piece(pieces, text, done, text.size());
    return pieces;
}

std::vector<Text> split_right(const Text& text, std::string_view separator,
                              std::int64_t max_splits) {
    // The cuts from the right are the last ones of those found right to left without overlap.
    std::vector<Text> pieces;
    std::size_t end = text.size();
    for (std::int64_t n = 0; max_splits < 0 || n < max_splits; ++n) {
        const std::size_t at = find_last_bytes(text.view().substr(0, end), separator);
        if (at == std::string_view::npos) break;
        add_piece(pieces, text, at + separator.size(), end);
        end = at;
    }
    add_piece(pieces, text, 0, end);
    std::reverse(pieces.begin(), pieces.end());
    return pieces;
}

std::vector<Text> split_space(const Text& text, std::int64_t max_splits) {
    const std::string_view view = text.view();
    std::vector<Text> pieces;
    std::size_t pos = skip_space_left(view);
    while (pos < view.size()) {
        if (max_splits >= 0 && static_cast<std::int64_t>(pieces.size()) == max_splits) {
            add_piece(pieces, text, pos, skip_space_right(view));
            break;
        }
        const std::size_t begin = pos;
        while (pos < view.size()) {
            char32_t c = 0;
            const std::size_t length = decode_code_point(view, pos, c);
            if (is_space(c)) break;
            pos += length;
        }
        add_piece(pieces, text, begin, pos);
        pos += skip_space_left(view.substr(pos));
    }
    return pieces;
}

std::vector<Text> split_space_right(const Text& text, std::int64_t max_splits) {
    const std::string_view view = text.view();
    std::vector<Text> pieces;
    std::size_t end = skip_space_right(view);
    while (end > 0) {
        if (max_splits >= 0 && static_cast<std::int64_t>(pieces.size()) == max_splits) {
            const std::size_t begin = skip_space_left(view);
            add_piece(pieces, text, begin, end);
            break;
        }
        std::size_t begin = end;
        while (begin > 0) {
            const std::size_t length = previous_length(view, begin);
            char32_t c = 0;
            decode_code_point(view, begin - length, c);
            if (is_space(c)) break;
            begin -= length;
        }
        add_piece(pieces, text, begin, end);
        end = skip_space_right(view.substr(0, begin));
    }
    std::reverse(pieces.begin(), pieces.end());
    return pieces;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
    const std::string_view view = text.view();
    std::vector<Text> lines;
    std::size_t begin = 0;
    for (std::size_t pos = 0; pos < view.size();) {
        const std::size_t length = line_break_length(view, pos);
        if (length == 0) {
            ++pos;
            continue;
        }
        add_piece(lines, text, begin, keep_ends ? pos + length : pos);
        pos += length;
        begin = pos;
    }
    if (begin < view.size()) add_piece(lines, text, begin, view.size());
    return lines;
}

Text join(const Text& separator, const std::vector<Value>& items) {
    Text out;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const std::size_t before = out.size();
        if (i > 0) out.append(separator);
        append_text(out, items[i]);
        spend_bytes(out.size() - before);
    }
    return out;
}

std::int64_t count_occurrences(std::string_view text, std::string_view part) {
    if (part.empty()) return static_cast<std::int64_t>(count_code_points(text)) + 1;
    std::int64_t count = 0;
    for (std::size_t at = find_bytes(text, part, 0); at != std::string_view::npos;
         at = find_bytes(text, part, at + part.size())) {
        ++count;
    }
    return count;
}

Value blended(const Text& source, std::string bytes) {
    spend_bytes(bytes.size());
    Text out(std::move(bytes), source.blended_origin());
    out.set_markup(source.is_markup());
    return Value::string(std::move(out));
}

Value string_list(std::vector<Text> pieces, SequenceKind kind) {
    std::vector<Value> items;
    items.reserve(pieces.size());
    for (Text& piece : pieces) items.push_back(Value::string(std::move(piece)));
    Value list = Value::list(std::move(items), kind);
    list.list_data().writable = kind == SequenceKind::kList;
    return list;
}

}  // namespace taproot::jinja
