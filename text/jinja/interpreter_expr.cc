// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/builtins.h"
#include "text/jinja/depth_guard.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"

namespace taproot::jinja {

Value Interpreter::evaluate(const Expr& expr) {
    // The leaves are most of what is evaluated, and need no guard.
    if (expr.kind == ExprKind::kLiteral) return expr.value;
    const DepthGuard guard(*this);
    spend_steps(1);
    return evaluate_unguarded(expr);
}

Value Interpreter::evaluate_unguarded(const Expr& expr) {
    switch (expr.kind) {
        case ExprKind::kLiteral:
            return expr.value;
        case ExprKind::kName:
            return lookup(expr);
        case ExprKind::kTuple:
        case ExprKind::kList:
        case ExprKind::kDict:
            return evaluate_literal_container(expr);
        case ExprKind::kConditional:
            return evaluate_conditional(expr);
        case ExprKind::kAnd: {
            Value left = evaluate(*expr.items[0]);
            return is_truthy(left) ? evaluate(*expr.items[1]) : std::move(left);
        }
        case ExprKind::kOr: {
            Value left = evaluate(*expr.items[0]);
            return is_truthy(left) ? std::move(left) : evaluate(*expr.items[1]);
        }
        case ExprKind::kNot:
            return Value::boolean(!is_truthy(evaluate(*expr.items[0])));
        case ExprKind::kNegate:
            return negate(evaluate(*expr.items[0]));
        case ExprKind::kPlus:
            return plus(evaluate(*expr.items[0]));
        case ExprKind::kArithmetic:
            return evaluate_arithmetic(expr);
        case ExprKind::kConcat:
            return evaluate_concat(expr);
        case ExprKind::kCompare:
            return evaluate_compare(expr);
        case ExprKind::kAttribute:
            return get_attribute(evaluate(*expr.items[0]), expr.name, options_.strict_sandbox);
        case ExprKind::kItem: {
            const Value object = evaluate(*expr.items[0]);
            return get_item(object, evaluate(*expr.items[1]), options_.strict_sandbox);
        }
        case ExprKind::kSlice:
            return evaluate_slice(expr);
        case ExprKind::kCall:
            return evaluate_call(expr);
        case ExprKind::kFilter:
            return apply_filter(expr, evaluate(*expr.items[0]));
        case ExprKind::kTest: {
            if (expr.test == nullptr)
                raise("TemplateAssertionError", "No test named '" + expr.name + "'.");
            const Value operand = evaluate(*expr.items[0]);
            return Value::boolean(
                expr.test(*this, operand, evaluate_arguments(expr.arguments.get())));
        }
    }
    return {};
}

Value Interpreter::lookup(const Expr& name) {
    if (const Value* value = scope_->find(name.symbol)) return *value;
    if (const Value* value = context_.find(name.name)) return *value;
    if (const GlobalFunction function = find_global(name.name)) {
        auto callable = std::make_shared<CallableData>();
        callable->kind = CallableData::Kind::kGlobal;
        callable->name = name.name.c_str();
        callable->global = function;
        return make_callable(std::move(callable));
    }
    return name.value;
}

Value Interpreter::evaluate_literal_container(const Expr& expr) {
    if (expr.kind == ExprKind::kDict) {
        Value dict = Value::dict();
        dict.dict_data().writable = true;
        for (std::size_t i = 0; i + 1 < expr.items.size(); i += 2) {
            Value key = evaluate(*expr.items[i]);
            require_hashable(key);
            dict.dict_data().set(std::move(key), evaluate(*expr.items[i + 1]));
        }
        return dict;
    }
    std::vector<Value> items;
    items.reserve(expr.items.size());
    for (const ExprPtr& item : expr.items) items.push_back(evaluate(*item));
    const bool tuple = expr.kind == ExprKind::kTuple;
    Value list = Value::list(std::move(items), tuple ? SequenceKind::kTuple : SequenceKind::kList);
    list.list_data().writable = !tuple;
    return list;
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
    if (is_truthy(evaluate(*expr.items[0]))) return evaluate(*expr.items[1]);
    if (expr.items.size() > 2) return evaluate(*expr.items[2]);
    return make_undefined({.hint = "the inline if-expression on line " + std::to_string(expr.line) +
                                   " evaluated to false and no else section was defined."});
}

Value Interpreter::evaluate_arithmetic(const Expr& expr) {
    Value left = evaluate(*expr.items[0]);
    const Value right = evaluate(*expr.items[1]);
    return arithmetic(expr.op, std::move(left), right);
}

Value Interpreter::evaluate_concat(const Expr& expr) {
    Text text;
    for (const ExprPtr& item : expr.items) append_text(text, evaluate(*item));
    spend_bytes(text.size());
    return Value::string(std::move(text));
}

Value Interpreter::evaluate_compare(const Expr& expr) {
    Value left = evaluate(*expr.items[0]);
    for (std::size_t i = 0; i < expr.compare_ops.size(); ++i) {
        Value right = evaluate(*expr.items[i + 1]);
        if (!compare(expr.compare_ops[i], left, right)) return Value::boolean(false);
        left = std::move(right);
    }
    return Value::boolean(true);
}

Value Interpreter::evaluate_slice(const Expr& expr) {
    const Value object = evaluate(*expr.items[0]);
    Value bounds[3] = {Value::none(), Value::none(), Value::none()};
    for (std::size_t i = 0; i < 3; ++i) {
        if (expr.items[i + 1] != nullptr) bounds[i] = evaluate(*expr.items[i + 1]);
    }
    return get_slice(object, bounds[0], bounds[1], bounds[2]);
}

// Methods are called without making the bound method a value first.
Value Interpreter::evaluate_call(const Expr& expr) {
    const Expr& callee = *expr.items[0];
    if (callee.kind == ExprKind::kAttribute) {
        const Value object = evaluate(*callee.items[0]);
        const MethodEntry* method = find_method(object, callee.name);
        if (method != nullptr && method->function != nullptr &&
            !(method->mutates && options_.strict_sandbox)) {
            return method->function(*this, object, evaluate_arguments(expr.arguments.get()));
        }
        const Value function = get_attribute(object, callee.name, options_.strict_sandbox);
        return call(function, evaluate_arguments(expr.arguments.get()));
    }
    const Value function = evaluate(callee);
    return call(function, evaluate_arguments(expr.arguments.get()));
}

Value Interpreter::apply_filter(const Expr& expr, const Value& input) {
    if (expr.filter == nullptr)
        raise("TemplateAssertionError", "No filter named '" + expr.name + "'.");
    return expr.filter(*this, input, evaluate_arguments(expr.arguments.get()));
}

// A chain that starts from the text of a block: {% filter a|b %}, {% set x | a %}.
Value Interpreter::evaluate_filter_chain(const Expr& expr, const Value& block_text) {
    if (expr.items[0] == nullptr) return apply_filter(expr, block_text);
    return apply_filter(expr, evaluate_filter_chain(*expr.items[0], block_text));
}

CallArgs Interpreter::evaluate_arguments(const Arguments* arguments) {
    CallArgs args;
    if (arguments == nullptr) return args;
    args.positional.reserve(arguments->positional.size());
    for (const ExprPtr& argument : arguments->positional)
        args.positional.push_back(evaluate(*argument));
    for (const auto& [name, argument] : arguments->named)
        args.named.emplace_back(name, evaluate(*argument));
    if (arguments->star) {
        for (Value& item : collect(evaluate(*arguments->star)))
            args.positional.push_back(std::move(item));
    }
    if (!arguments->double_star) return args;
    const Value more = evaluate(*arguments->double_star);
    if (!more.is_dict())
        raise("TypeError",
              "argument after ** must be a mapping, not " + std::string(type_name(more)));
    for (const auto& [key, value] : more.dict_data().entries) {
        if (!key.is_string()) raise("TypeError", "keywords must be strings");
        if (args.find_named(key.view()) != nullptr) {
            raise("TypeError",
                  "got multiple values for keyword argument '" + std::string(key.view()) + "'");
        }
        args.named.emplace_back(std::string(key.view()), value);
    }
    return args;
}

Value Interpreter::call(const Value& callee, const CallArgs& args) {
    if (callee.is_undefined()) raise_undefined(callee);
    if (callee.is(Kind::kLoop)) return call_loop(callee, args);
    if (!callee.is(Kind::kCallable)) {
        raise("TypeError", std::string("'") + type_name(callee) + "' object is not callable");
    }
    const CallableData& function = callee.callable();
    switch (function.kind) {
        case CallableData::Kind::kGlobal:
            return function.global(*this, args);
        case CallableData::Kind::kMethod:
            return function.method(*this, function.self, args);
        case CallableData::Kind::kMacro:
            return call_macro(function, args);
    }
    return {};
}

}  // namespace taproot::jinja
