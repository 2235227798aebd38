// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "config/fields.h"

namespace taproot::config {
namespace {

constexpr std::size_t kKeyBytesMax = 64;  // longer unknown keys are near nothing

std::string normalised(std::string_view key) {
    std::string out;
    for (const char c : key) {
        if (c == '-' || c == ' ')
            out.push_back('_');
        else
            out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
    }
    return out;
}

// Optimal string alignment: insertions, deletions, replacements, swaps of neighbours.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i)
        for (std::size_t j = 1; j <= b.size(); ++j) {
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1,
                                d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[a.size()][b.size()];
}

// The key without its unit: "body" is near "body_bytes".
bool differs_by_unit(std::string_view key, std::string_view unknown) {
    return key.starts_with(unknown) && key.size() > unknown.size() && key[unknown.size()] == '_';
}

// The path of the first key of this name in `table` or below it.
std::string find_anywhere(const Table& table, const std::string& prefix, std::string_view key) {
    if (table.find(key) != nullptr) return prefix + std::string(key);
    for (const Field& field : table.fields) {
        if (field.group == nullptr) continue;
        const char* suffix = field.kind == Kind::kGroupList ? "[]." : ".";
        std::string found =
            find_anywhere(field.group(), prefix + std::string(field.key) + suffix, key);
        if (!found.empty()) return found;
    }
    return {};
}

}  // namespace

std::string nearest_key(const Table& table, std::string_view unknown) {
    if (unknown.empty() || unknown.size() > kKeyBytesMax) return {};
    const std::string wanted = normalised(unknown);
    if (table.find(wanted) != nullptr) return wanted;
    if (std::string elsewhere = find_anywhere(config_table(), "", wanted); !elsewhere.empty())
        return elsewhere;
    std::string_view best;
    std::size_t best_distance = std::max<std::size_t>(1, wanted.size() / 3) + 1;
    for (const Field& field : table.fields) {
        const std::size_t distance =
            differs_by_unit(field.key, wanted) ? 1 : edit_distance(wanted, field.key);
        if (distance >= best_distance) continue;
        best = field.key;
        best_distance = distance;
    }
    return std::string(best);
}

}  // namespace taproot::config
