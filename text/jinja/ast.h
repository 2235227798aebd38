// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/callable.h"
#include "text/jinja/value.h"

// The tree of a parsed template. Built by the parser, never changed afterwards, shared by all
// renderings. Names are numbered (symbols) so that scopes compare integers.
namespace taproot::jinja {

using Symbol = std::uint32_t;

enum class ExprKind : std::uint8_t {
    kLiteral,      // value
    kName,         // symbol, name
    kTuple,        // items
    kList,         // items
    kDict,         // items: key, value, key, value, ...
    kConditional,  // items: test, then, [else]
    kAnd,          // items: left, right
    kOr,           // items: left, right
    kNot,          // items: operand
    kNegate,       // items: operand
    kPlus,         // items: operand
    kArithmetic,   // items: left, right; op
    kConcat,       // items: all operands of a ~ b ~ c
    kCompare,      // items: first, second, ...; compare_ops between them
    kAttribute,    // items: object; name
    kItem,         // items: object, key
    kSlice,        // items: object, start, stop, step (each may be null)
    kCall,         // items: callee; arguments
    kFilter,       // items: operand (null: the text of a filter block); filter, name, arguments
    kTest,         // items: operand; test, name, arguments
};

enum class ArithmeticOp : std::uint8_t { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };
enum class CompareOp : std::uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIn, kNotIn };

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Arguments {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> named;
    ExprPtr star;         // *args
    ExprPtr double_star;  // **kwargs
};

// One node for all expressions: which fields a kind uses stands beside the kind. `height` is the
// longest path to a leaf; the parser bounds it so that evaluation and destruction may recurse.
struct Expr {
    ExprKind kind;
    int line = 0;
    int height = 1;
    std::vector<ExprPtr> items = {};
    Value value = {};  // kLiteral; kName: the undefined value it gives when unset
    std::string name = {};
    Symbol symbol = 0;
    ArithmeticOp op = ArithmeticOp::kAdd;
    std::vector<CompareOp> compare_ops = {};
    FilterFunction filter = nullptr;  // nullptr: unknown name, an error when evaluated
    TestFunction test = nullptr;
    std::unique_ptr<Arguments> arguments = nullptr;  // nullptr: none
};

// Where `set`, `for` and `with` store: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
    enum class Kind : std::uint8_t { kName, kAttribute, kTuple };
    Kind kind = Kind::kName;
    int line = 0;
    Symbol symbol = 0;  // name, or the namespace's name
    std::string name = {};
    std::string attribute = {};
    std::vector<Target> parts = {};
};

enum class StmtKind : std::uint8_t {
    kText,         // text
    kPrint,        // expr
    kIf,           // branches; else_body
    kFor,          // target, expr, test, body, else_body, recursive, uses_loop
    kSet,          // target, expr
    kSetBlock,     // target, expr (filters or null), body
    kMacro,        // signature, symbol, body
    kCallBlock,    // signature, expr (the call), body
    kFilterBlock,  // expr (a chain of kFilter), body
    kScope,        // body: {% generation %}
    kWith,         // bindings, body
    kBreak,
    kContinue,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Parameter {
    std::string name;
    Symbol symbol;
    ExprPtr fallback;  // nullptr: required
};

struct Signature {
    std::string name;  // "caller" for call blocks
    std::vector<Parameter> parameters;
    // Whether the body names these, which makes the macro accept them.
    bool uses_caller = false;
    bool uses_varargs = false;
    bool uses_kwargs = false;
};

struct Stmt {
    StmtKind kind;
    int line = 0;
    std::string text = {};
    ExprPtr expr = nullptr;
    ExprPtr test = nullptr;
    Target target = {};
    Body body = {};
    Body else_body = {};
    std::vector<std::pair<ExprPtr, Body>> branches = {};
    std::vector<std::pair<Target, ExprPtr>> bindings = {};
    std::unique_ptr<Signature> signature = nullptr;
    Symbol symbol = 0;
    bool recursive = false;
    bool uses_loop = false;
};

// Symbols every template has, in this order, before its own.
inline constexpr Symbol kLoopSymbol = 0;
inline constexpr Symbol kCallerSymbol = 1;
inline constexpr Symbol kVarargsSymbol = 2;
inline constexpr Symbol kKwargsSymbol = 3;

struct Program {
    Body body;
    std::vector<std::string> names;  // by symbol
};

}  // namespace taproot::jinja
