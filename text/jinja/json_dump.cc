// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/jinja/json.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"
#include "text/jinja/unicode.h"
#include "text/jinja/work.h"

namespace taproot::jinja {
namespace {

class JsonWriter {
public:
    explicit JsonWriter(const JsonFormat& format) : format_(format) {}

    Text run(const Value& value) {
        write(value, 0);
        return Text(std::move(out_), user_ ? Origin::kUser : Origin::kTemplate);
    }

private:
    void write(const Value& value, int depth) {
        if (depth > kMaxNesting) raise_limit("values are nested deeper than 200 levels");
        spend_steps(1);
        switch (value.kind()) {
            case Kind::kNone:
                out_ += "null";
                return;
            case Kind::kBool:
                out_ += value.as_bool() ? "true" : "false";
                return;
            case Kind::kInt:
            case Kind::kBigInt:
                out_ += repr(value);
                return;
            case Kind::kFloat:
                out_ += float_text(value.as_double());
                return;
            case Kind::kString:
                write_string(value.text());
                return;
            case Kind::kDict:
                write_dict(value.dict_data(), depth);
                return;
            case Kind::kList:
                if (allowed(value.list_data().kind)) return write_list(value.list_data(), depth);
                break;
            default:
                break;
        }
        raise("TypeError",
              std::string("Object of type ") + type_name(value) + " is not JSON serializable");
    }

    [[nodiscard]] bool allowed(SequenceKind kind) const {
        return kind == SequenceKind::kList || kind == SequenceKind::kTuple || format_.lenient;
    }

    static std::string float_text(double value) {
        if (std::isnan(value)) return "NaN";
        if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
        return float_repr(value);
    }

    void write_list(const ListData& list, int depth) {
        if (list.size() == 0) {
            out_ += "[]";
            return;
        }
        out_ += '[';
        for (std::size_t i = list.next; i < list.items.size(); ++i) {
            separate(i > list.next, depth + 1);
            write(list.items[i], depth + 1);
        }
        new_line(depth);
        out_ += ']';
    }

    void write_dict(const DictData& dict, int depth) {
        if (dict.entries.empty()) {
            out_ += "{}";
            return;
        }
        std::vector<const DictData::Entry*> order;
        order.reserve(dict.entries.size());
        for (const auto& entry : dict.entries) order.push_back(&entry);
        if (format_.sort_keys) {
            std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
                return compare_values(a->first, b->first, "<") == -1;
            });
        }
        out_ += '{';
        for (std::size_t i = 0; i < order.size(); ++i) {
            separate(i > 0, depth + 1);
            write_key(order[i]->first);
            out_ += format_.key_separator;
            write(order[i]->second, depth + 1);
        }
        new_line(depth);
        out_ += '}';
    }

    void write_key(const Value& key) {
        if (key.is_string()) return write_string(key.text());
        const bool plain = key.is_none() || key.is_number() || key.is(Kind::kBigInt);
        if (!plain) {
            raise("TypeError",
                  std::string("keys must be str, int, float, bool or None, not ") + type_name(key));
        }
        out_ += '"';
        write(key, 0);
        out_ += '"';
    }

    void separate(bool after_item, int depth) {
        if (after_item) out_ += format_.item_separator;
        new_line(depth);
    }

    void new_line(int depth) {
        if (!format_.indent) return;
        out_ += '\n';
        spend_bytes(format_.indent->size() * static_cast<std::size_t>(depth));
        for (int i = 0; i < depth; ++i) out_ += *format_.indent;
    }

    void write_string(const Text& text) {
        user_ |= text.has_user_bytes();
        spend_bytes(text.size());
        const std::string_view view = text.view();
        out_ += '"';
        for (std::size_t pos = 0; pos < view.size();) {
            char32_t c = 0;
            const std::size_t length = decode_code_point(view, pos, c);
            write_character(view.substr(pos, length), c);
            pos += length;
        }
        out_ += '"';
    }

    void write_character(std::string_view bytes, char32_t c) {
        static constexpr std::string_view kSpecial = "\"\\\n\r\t\b\f";
        static constexpr std::string_view kLetters = "\"\\nrtbf";
        if (c < 0x80) {
            if (const std::size_t at = kSpecial.find(static_cast<char>(c));
                at != std::string_view::npos) {
                out_ += '\\';
                out_ += kLetters[at];
                return;
            }
        }
        if (c < 0x20 || (format_.ensure_ascii && c >= 0x7F && c != kInvalidCodePoint)) {
            write_hex(c);
        } else {
            out_.append(bytes);
        }
    }

    void write_hex(char32_t c) {
        if (c >= 0x10000) {
            write_hex(0xD800 + ((c - 0x10000) >> 10));
            write_hex(0xDC00 + ((c - 0x10000) & 0x3FF));
            return;
        }
        out_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    }

    const JsonFormat& format_;
    std::string out_;
    bool user_ = false;
};

}  // namespace

Text dump_json(const Value& value, const JsonFormat& format) {
    return JsonWriter(format).run(value);
}

}  // namespace taproot::jinja
