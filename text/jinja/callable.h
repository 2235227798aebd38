// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace taproot::jinja {

class Interpreter;
struct Scope;
struct Stmt;

// Evaluated arguments of a call, filter or test.
struct CallArgs {
    std::vector<Value> positional = {};
    std::vector<std::pair<std::string, Value>> named = {};

    [[nodiscard]] const Value* find_named(std::string_view name) const;
};

using FilterFunction = Value (*)(Interpreter&, const Value& input, const CallArgs& args);
using TestFunction = bool (*)(Interpreter&, const Value& input, const CallArgs& args);
using MethodFunction = Value (*)(Interpreter&, const Value& self, const CallArgs& args);
using GlobalFunction = Value (*)(Interpreter&, const CallArgs& args);

// Anything a template can call.
struct CallableData {
    enum class Kind : std::uint8_t { kGlobal, kMethod, kMacro };

    Kind kind;
    const char* name = "";  // of a global or method; static storage
    GlobalFunction global = nullptr;
    MethodFunction method = nullptr;
    Value self = {};                         // kMethod
    const Stmt* macro = nullptr;             // kMacro: a kMacro or kCallBlock statement
    std::shared_ptr<Scope> scope = nullptr;  // kMacro: where it was defined

    [[nodiscard]] const char* python_type() const;
    [[nodiscard]] const char* python_owner() const;
};

// Hands out a call's arguments by position or name, as Python binds them:
//
//     ArgReader args("replace", call);
//     const Value& old = args.required("old");
//     const Value* count = args.optional("count");
//     args.finish();   // anything left over is a TypeError
class ArgReader {
public:
    ArgReader(std::string_view callee, const CallArgs& args) : callee_(callee), args_(args) {}

    const Value& required(std::string_view name);
    const Value* optional(std::string_view name);
    void finish() const;

private:
    std::string_view callee_;
    const CallArgs& args_;
    std::size_t next_ = 0;  // first positional argument not handed out
    std::size_t named_used_ = 0;
};

}  // namespace taproot::jinja
