// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"

namespace taproot::jinja {

// Reads one JSON document (RFC 8259, nothing after it). Strings and keys are marked with `origin`;
// keys keep their order and a repeated key keeps its first place with its last value, as Python
// does. Numbers without '.', 'e' are integers of any size. Errors: kInvalidArgument, where =
// "offset N"; nesting beyond 100 levels and invalid UTF-8 are errors. A lone surrogate escape
// becomes U+FFFD.
Result<Value> parse_json(std::string_view text, Origin origin);

struct JsonFormat {
    bool ensure_ascii = false;
    bool sort_keys = false;
    std::optional<std::string> indent = std::nullopt;  // nullopt: one line
    std::string item_separator = ", ";
    std::string key_separator = ": ";
    bool lenient = true;  // generators and views become arrays (Python refuses them)
};

// Python's json.dumps. Throws TypeError for what JSON cannot hold.
Text dump_json(const Value& value, const JsonFormat& format);

}  // namespace taproot::jinja
