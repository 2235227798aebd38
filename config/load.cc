// SPDX-License-Identifier: Apache-2.0
#include "config/load.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>

#include "config/api_keys.h"
#include "config/fields.h"
#include "config/quantity.h"
#include "config/validate.h"
#include "config/yaml_tree.h"

namespace taproot::config {
namespace {

constexpr std::size_t kShownBytes = 60;
constexpr std::size_t kTextBytesMax = 4'096;
constexpr std::size_t kItemsMax = 4'096;

std::string shown(std::string_view text) {
    std::string out = "'";
    for (const char c : text.substr(0, kShownBytes))
        out.push_back(static_cast<unsigned char>(c) < 0x20 ? '?' : c);
    return out + (text.size() > kShownBytes ? "...'" : "'");
}

bool has_control_character(std::string_view text) {
    for (const char c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return true;
    return false;
}

// Walks the tree and the tables side by side.
class Binder {
public:
    void bind_group(const YamlNode& node, const Table& table, void* object,
                    const std::string& path) {
        if (node.is_null()) return;
        const auto* entries = node.mapping();
        if (entries == nullptr) {
            wrong_type(node, path, "a mapping");
            return;
        }
        std::map<std::string_view, Place> seen;
        for (const auto& [key, value] : *entries) {
            const std::string& name = key.scalar()->text;
            const auto [first, is_new] = seen.emplace(name, key.place);
            const std::string child = path.empty() ? name : path + "." + name;
            if (!is_new) {
                add(key.place, clip(child),
                    fmt::format("is here twice; the first is in line {}", first->second.line));
                continue;
            }
            if (const Field* field = table.find(name))
                bind(value, *field, object, child);
            else
                unknown_key(key, table, path);
        }
    }

    [[nodiscard]] std::vector<Problem> problems() && { return std::move(problems_); }
    [[nodiscard]] Places places() && { return std::move(places_); }

private:
    static std::string clip(const std::string& path) {
        return path.size() <= 2 * kShownBytes ? path : path.substr(0, 2 * kShownBytes) + "...";
    }
    void add(Place place, std::string key, std::string message) {
        problems_.push_back({std::move(key), std::move(message), place});
    }
    void wrong_type(const YamlNode& node, const std::string& path, std::string_view allowed) {
        add(node.place, path, fmt::format("must be {}, not {}", allowed, node.type_name()));
    }
    void unknown_key(const YamlNode& key, const Table& table, const std::string& path) {
        const std::string& name = key.scalar()->text;
        std::string message = "unknown key";
        const std::string nearest = nearest_key(table, name);
        if (!nearest.empty()) {
            message += fmt::format("; did you mean '{}'?", nearest);
        } else {
            message += "; known here:";
            for (const Field& field : table.fields) message += fmt::format(" {}", field.key);
        }
        add(key.place, clip(path.empty() ? name : path + "." + name), std::move(message));
    }

    void bind(const YamlNode& node, const Field& field, void* object, const std::string& path) {
        if (node.is_null()) return;  // the default, as if the key were absent
        places_[path] = node.place;
        void* member = field.member(object);
        switch (field.kind) {
            case Kind::kGroup:
                bind_group(node, field.group(), member, path);
                return;
            case Kind::kGroupList:
                bind_group_list(node, field, member, path);
                return;
            case Kind::kTextList:
                bind_text_list(node, field, member, path);
                return;
            case Kind::kText:
            case Kind::kChoice:
                bind_text(node, field, path, static_cast<std::string*>(member));
                return;
            case Kind::kFlag:
                bind_flag(node, field, path, static_cast<bool*>(member));
                return;
            case Kind::kCount:
            case Kind::kSize:
            case Kind::kTime:
                bind_number(node, field, object, path);
                return;
        }
    }

    void bind_group_list(const YamlNode& node, const Field& field, void* list,
                         const std::string& path) {
        const auto* items = node.sequence();
        if (items == nullptr) return wrong_type(node, path, field.allowed());
        if (!check_count(node, path, items->size())) return;
        for (std::size_t i = 0; i < items->size(); ++i) {
            const std::string child = fmt::format("{}[{}]", path, i);
            places_[child] = (*items)[i].place;
            bind_group((*items)[i], field.group(), field.list_add(list), child);
        }
    }

    void bind_text_list(const YamlNode& node, const Field& field, void* member,
                        const std::string& path) {
        const auto* items = node.sequence();
        if (items == nullptr) return wrong_type(node, path, field.allowed());
        if (!check_count(node, path, items->size())) return;
        auto* list = static_cast<std::vector<std::string>*>(member);
        list->clear();
        for (std::size_t i = 0; i < items->size(); ++i) {
            const YamlNode& item = (*items)[i];
            const std::string child = fmt::format("{}[{}]", path, i);
            places_[child] = item.place;
            if (item.is_null()) {
                add(item.place, child, "must be text, not null");
                continue;
            }
            bind_text(item, field, child, &list->emplace_back());
        }
    }

    bool check_count(const YamlNode& node, const std::string& path, std::size_t count) {
        if (count <= kItemsMax) return true;
        add(node.place, path, fmt::format("has {} entries; at most {}", count, kItemsMax));
        return false;
    }

    void bind_text(const YamlNode& node, const Field& field, const std::string& path,
                   std::string* out) {
        const auto* scalar = node.scalar();
        if (scalar == nullptr) return wrong_type(node, path, field.allowed());
        const std::string& text = scalar->text;
        if (field.kind == Kind::kChoice) {
            for (const std::string_view known : field.choices)
                if (text == known) {
                    *out = text;
                    return;
                }
            add(node.place, path, fmt::format("{} is not {}", shown(text), field.allowed()));
            return;
        }
        if (!scalar->quoted && (text == "true" || text == "false")) {
            add(node.place, path, "must be text, not true or false; quote it if it is meant");
            return;
        }
        // A key file's or a pasted key's line end is trimmed later, where keys are checked.
        if (text.size() > kTextBytesMax || (!field.secret && has_control_character(text))) {
            add(node.place, path,
                fmt::format("must be at most {} bytes without control characters", kTextBytesMax));
            return;
        }
        *out = text;
    }

    void bind_flag(const YamlNode& node, const Field& field, const std::string& path, bool* out) {
        const auto* scalar = node.scalar();
        if (scalar == nullptr) return wrong_type(node, path, field.allowed());
        const bool is_true = scalar->text == "true";
        if (scalar->quoted || (!is_true && scalar->text != "false")) {
            add(node.place, path,
                fmt::format("{} is not {}", shown(scalar->text), field.allowed()));
            return;
        }
        *out = is_true;
    }

    void bind_number(const YamlNode& node, const Field& field, void* object,
                     const std::string& path) {
        const auto* scalar = node.scalar();
        if (scalar == nullptr) return wrong_type(node, path, field.allowed());
        const auto value = field.kind == Kind::kSize   ? parse_size(scalar->text)
                           : field.kind == Kind::kTime ? parse_time_ms(scalar->text)
                                                       : parse_count(scalar->text);
        if (!value || *value < field.min || *value > field.max) {
            add(node.place, path,
                fmt::format("{} is not {}", shown(scalar->text), field.allowed()));
            return;
        }
        field.set_number(object, *value);
    }

    std::vector<Problem> problems_;
    Places places_;
};

Result<std::string> read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return Error{ErrorCode::kIo, std::strerror(errno), path};
    std::string text;
    // One byte more than allowed is enough to see that it is too much.
    text.resize(kDocumentBytesMax + 1);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    if (in.bad()) return Error{ErrorCode::kIo, "cannot be read", path};
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
}

}  // namespace

Result<Parsed> parse_text(std::string_view yaml, const std::string& name) {
    YamlNode root;
    Problem problem;
    if (!parse_yaml(yaml, &root, &problem)) return to_error({problem}, name);
    Parsed parsed;
    Binder binder;
    binder.bind_group(root, config_table(), &parsed.config, "");
    const std::vector<Problem> problems = std::move(binder).problems();
    if (!problems.empty()) return to_error(problems, name);
    parsed.places = std::move(binder).places();
    return parsed;
}

Result<Config> load_text(std::string_view yaml, const std::string& name) {
    TAPROOT_TRY(Parsed parsed, parse_text(yaml, name));
    std::vector<Problem> problems;
    resolve_api_keys(&parsed.config.gateway, parsed.places, &problems);
    for (Problem& problem : find_problems(parsed.config)) problems.push_back(std::move(problem));
    for (Problem& problem : problems) {
        if (problem.place.line != 0) continue;
        // A rule about an absent key points at the nearest group around it that is there.
        std::string key = problem.key;
        while (true) {
            if (const auto found = parsed.places.find(key); found != parsed.places.end()) {
                problem.place = found->second;
                break;
            }
            const std::size_t dot = key.rfind('.');
            if (dot == std::string::npos) break;
            key.resize(dot);
        }
    }
    if (!problems.empty()) return to_error(problems, name);
    return std::move(parsed.config);
}

Result<Config> load_file(const std::string& path) {
    TAPROOT_TRY(const std::string text, read_file(path));
    return load_text(text, path);
}

}  // namespace taproot::config
