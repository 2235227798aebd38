// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"

namespace taproot::jinja {

// Variables of one block. Reading falls through to the parents, writing stays here: what `set` does
// inside a loop body is gone with the iteration. Macros keep the scope they were defined in.
struct Scope {
    std::shared_ptr<Scope> parent;
    std::vector<std::pair<Symbol, Value>> variables;

    [[nodiscard]] const Value* find_here(Symbol symbol) const {
        for (const auto& [name, value] : variables) {
            if (name == symbol) return &value;
        }
        return nullptr;
    }
    [[nodiscard]] const Value* find(Symbol symbol) const {
        for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
            if (const Value* value = scope->find_here(symbol)) return value;
        }
        return nullptr;
    }
    void set(Symbol symbol, Value value) {
        for (auto& [name, held] : variables) {
            if (name == symbol) {
                held = std::move(value);
                return;
            }
        }
        variables.emplace_back(symbol, std::move(value));
    }
};

}  // namespace taproot::jinja
