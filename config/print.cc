// SPDX-License-Identifier: Apache-2.0
#include "config/print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "config/fields.h"
#include "config/quantity.h"

namespace taproot::config {
namespace {

constexpr std::size_t kCommentColumn = 40;

// Plain where YAML reads the same text back, else double-quoted with escapes.
std::string quoted(std::string_view text) {
    bool is_plain = !text.empty() && text != "true" && text != "false" && text != "null";
    for (const char c : text)
        is_plain = is_plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                                std::string_view("._/-").find(c) != std::string_view::npos);
    if (is_plain && std::string_view("-.").find(text[0]) == std::string_view::npos)
        return std::string(text);
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\')
            out += fmt::format("\\{}", c);
        else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        else
            out.push_back(c);
    }
    return out + "\"";
}

// allowed() without its first words: "1KiB..1GiB", "keys, none".
std::string range_of(const Field& field) {
    std::string text = field.allowed();
    for (const std::string_view words : {"one of ", "a number in ", "a size in ", "a time in "})
        if (text.starts_with(words)) text.erase(0, words.size());
    return text;
}

// Writes a struct by its table; with comments it is the reference.
class Printer {
public:
    Printer(bool with_comments, bool show_secrets)
        : with_comments_(with_comments), show_secrets_(show_secrets) {}

    void group(const Table& table, const void* object, std::size_t indent) {
        for (const Field& field : table.fields) entry(field, object, indent);
    }
    std::string take() { return std::move(out_); }

private:
    void line(std::size_t indent, std::string_view text, std::string_view comment) {
        const std::size_t begin = out_.size();
        out_.append(indent, ' ');
        if (pending_dash_) out_.replace(out_.size() - 2, 2, "- ");
        pending_dash_ = false;
        out_ += text;
        if (!comment.empty()) {
            const std::size_t used = out_.size() - begin;
            out_.append(used < kCommentColumn ? kCommentColumn - used : 2, ' ');
            out_ += fmt::format("# {}", comment);
        }
        out_ += '\n';
    }

    void entry(const Field& field, const void* object, std::size_t indent) {
        const void* member = field.member_of(object);
        const std::string comment = comment_of(field);
        if (field.kind == Kind::kGroup) {
            if (with_comments_ && indent == 0) out_ += '\n';
            line(indent, fmt::format("{}:", field.key), comment);
            group(field.group(), member, indent + 2);
        } else if (field.kind == Kind::kGroupList) {
            group_list(field, member, indent, comment);
        } else if (field.kind == Kind::kTextList) {
            text_list(field, member, indent, comment);
        } else {
            if (with_comments_ && indent == 0) out_ += '\n';
            line(indent, fmt::format("{}: {}", field.key, scalar(field, object)), comment);
        }
    }

    void group_list(const Field& field, const void* list, std::size_t indent,
                    const std::string& comment) {
        if (with_comments_ && indent == 0) out_ += '\n';
        const std::size_t count = field.list_size(list);
        line(indent, fmt::format("{}:{}", field.key, count == 0 ? " []" : ""), comment);
        for (std::size_t i = 0; i < count; ++i) {
            pending_dash_ = true;
            group(field.group(), field.list_item(const_cast<void*>(list), i), indent + 4);
        }
    }

    // An empty list is null: "present but empty" means something else for keys.
    void text_list(const Field& field, const void* member, std::size_t indent,
                   const std::string& comment) {
        const auto& list = *static_cast<const std::vector<std::string>*>(member);
        if (list.empty() || (field.secret && !show_secrets_)) {
            const std::string hidden =
                list.empty() ? comment : fmt::format("{} present, not shown", list.size());
            line(indent, fmt::format("{}: null", field.key), hidden);
            return;
        }
        line(indent, fmt::format("{}:", field.key), comment);
        for (const std::string& item : list)
            line(indent + 2, fmt::format("- {}", quoted(item)), "");
    }

    [[nodiscard]] std::string scalar(const Field& field, const void* object) const {
        const void* member = field.member_of(object);
        switch (field.kind) {
            case Kind::kCount:
                return fmt::format("{}", field.number(object));
            case Kind::kSize:
                return format_size(field.number(object));
            case Kind::kTime:
                return format_time_ms(field.number(object));
            case Kind::kFlag:
                return *static_cast<const bool*>(member) ? "true" : "false";
            default:
                break;
        }
        const auto& text = *static_cast<const std::string*>(member);
        return text.empty() ? "null" : quoted(text);
    }

    [[nodiscard]] std::string comment_of(const Field& field) const {
        if (!with_comments_) return {};
        switch (field.kind) {
            case Kind::kChoice:
            case Kind::kCount:
            case Kind::kSize:
            case Kind::kTime:
                return fmt::format("{} ({})", field.help, range_of(field));
            default:
                return std::string(field.help);
        }
    }

    bool with_comments_;
    bool show_secrets_;
    bool pending_dash_ = false;
    std::string out_;
};

constexpr std::string_view kReferenceHead =
    "# Every key of a Taproot configuration with its default; all may be left out but model.path\n"
    "# and the workers' names, which show an example here. null means the default. Sizes take B, "
    "KiB,\n"
    "# MiB, GiB, TiB (or kB, MB, GB, TB); times ms, s, min, h, d; a plain number is bytes or ms.\n"
    "# Unknown keys, wrong types and values out of range are errors with line and column.\n"
    "# Written from config/fields.cc; `config_test` fails when the two differ and tells what to "
    "do.\n";

void set_examples(const Table& table, void* object) {
    for (const Field& field : table.fields) {
        if (field.kind == Kind::kGroup) set_examples(field.group(), field.member(object));
        if (field.kind == Kind::kGroupList)
            set_examples(field.group(), field.list_add(field.member(object)));
        if (!field.example.empty())
            *static_cast<std::string*>(field.member(object)) = field.example;
    }
}

}  // namespace

std::string print(const Config& config, const PrintOptions& options) {
    Printer printer(false, options.show_secrets);
    printer.group(config_table(), &config, 0);
    return printer.take();
}

std::string print_reference() {
    Config config;
    set_examples(config_table(), &config);
    Printer printer(true, true);
    printer.group(config_table(), &config, 0);
    return std::string(kReferenceHead) + printer.take();
}

}  // namespace taproot::config
