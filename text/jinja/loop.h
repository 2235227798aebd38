// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "text/jinja/iteration.h"
#include "text/jinja/value.h"

namespace taproot::jinja {

struct Scope;
struct Stmt;

// One running `for`, and the object `loop` inside of it. Items are taken lazily, as Python does:
// the loop's `if` runs right before its item is needed, and loop.last looks one item ahead.
struct LoopData {
    LoopData(Value iterable, std::function<bool(const Value&)> accept_item)
        : source(std::move(iterable)), accepts(std::move(accept_item)) {}

    bool advance();       // to the next item; false at the end
    const Value* peek();  // the item after the current one, or nullptr
    [[nodiscard]] std::int64_t length();
    [[nodiscard]] std::string describe();  // "<LoopContext 1/3>"

    Iteration source;
    std::function<bool(const Value&)> accepts;  // the loop's `if`; empty: all
    std::deque<Value> ahead;                    // taken but not yet current
    std::optional<std::int64_t> known_length;
    std::int64_t index0 = -1;
    Value current;
    Value previous;
    std::optional<Value> last_changed;

    int depth0 = 0;
    const Stmt* recursive = nullptr;  // the statement when `recursive` was said
    std::shared_ptr<Scope> scope;     // where a recursive loop was entered

private:
    bool pull(Value& item);
};

// loop.index and its kin; nullptr-like empty optional when there is no such attribute.
std::optional<Value> loop_attribute(const std::shared_ptr<LoopData>& loop, std::string_view name);

}  // namespace taproot::jinja
