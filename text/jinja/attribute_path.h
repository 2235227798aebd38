// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "text/jinja/value.h"

namespace taproot::jinja {

// "function.name", "0.id" or an integer, as map(attribute=...), selectattr and sort take them.
class AttributePath {
public:
    // Without an attribute (nullptr or none) the item itself. Throws TypeError for other kinds.
    explicit AttributePath(const Value* attribute);

    [[nodiscard]] Value get(const Value& item, bool strict_sandbox,
                            const Value* fallback = nullptr) const;

private:
    std::vector<Value> parts_;
};

// What sort, min, max and unique compare: strings in lower case unless case matters.
Value comparison_key(Value key, bool case_sensitive);

}  // namespace taproot::jinja
