// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/problem.h"

namespace taproot::config {

// A YAML document as it was written: every node knows its place, a mapping keeps its order and its
// repeated keys, a scalar keeps its text and whether it was quoted. Made from yaml-cpp's events and
// not from its nodes, which resolve repeated keys and aliases before anybody can object.
struct YamlEntry;

struct YamlNode {
    struct Null {};
    struct Scalar {
        std::string text;
        bool quoted = false;
    };
    using Sequence = std::vector<YamlNode>;
    using Mapping = std::vector<YamlEntry>;

    Place place;
    std::variant<Null, Scalar, Sequence, Mapping> value;

    // The node as one of them, or null.
    [[nodiscard]] const Scalar* scalar() const;
    [[nodiscard]] const Sequence* sequence() const;
    [[nodiscard]] const Mapping* mapping() const;
    [[nodiscard]] bool is_null() const;
    // "a list", "a mapping", "text", "null": for messages.
    [[nodiscard]] const char* type_name() const;
};

struct YamlEntry {
    YamlNode key;  // a scalar
    YamlNode value;
};

// What a file may cost to read. Reaching one is an error, not growth.
inline constexpr std::size_t kDocumentBytesMax = std::size_t{1} << 20;
inline constexpr int kNestingMax = 16;
inline constexpr std::size_t kNodesMax = 50'000;  // aliases count as what they stand for

// One document. Refused, with the place in `problem`: syntax errors, a second document, tabs as
// indentation, explicit tags, keys that are no scalars, and anything past the limits. An empty
// document is null. False when refused. Never throws.
bool parse_yaml(std::string_view text, YamlNode* out, Problem* problem);

}  // namespace taproot::config
