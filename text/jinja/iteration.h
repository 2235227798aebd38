// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "text/jinja/value.h"

namespace taproot::jinja {

// Walks what Python's iter() accepts: sequences, views, dict keys, characters of a string, nothing
// for undefined. Throws TypeError for anything else. Items appended to a list meanwhile are seen;
// items of a generator are used up as they are taken.
class Iteration {
public:
    explicit Iteration(Value source);

    // False at the end.
    bool next(Value& item);
    // Items still to come, or SIZE_MAX for a generator (it must be walked to know).
    [[nodiscard]] std::size_t known_size() const;

private:
    Value source_;
    std::size_t position_ = 0;  // item, or byte of a string
};

// All items at once; spends one step per item.
std::vector<Value> collect(const Value& source);
bool is_iterable(const Value& value);

}  // namespace taproot::jinja
