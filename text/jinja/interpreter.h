// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/callable.h"
#include "text/jinja/loop.h"
#include "text/jinja/scope.h"
#include "text/jinja/work.h"

namespace taproot::jinja {

// Runs one rendering of one program. Owner: the calling thread, for the length of the call.
// Errors: throws Raised.
class Interpreter {
public:
    // `context` is a dict of global variables; it outlives the interpreter and is not changed.
    Interpreter(const Program& program, const Value& context, const RenderOptions& options);
    ~Interpreter();
    Interpreter(const Interpreter&) = delete;
    Interpreter& operator=(const Interpreter&) = delete;

    Text run();
    [[nodiscard]] int line() const { return line_; }  // of what ran last

    // For built-in functions.
    [[nodiscard]] const RenderOptions& options() const { return options_; }
    Value call(const Value& callee, const CallArgs& args);
    // A value whose contents a template may change must be registered, so that cycles die with us.
    void will_mutate(const Value& container);
    Value new_namespace(std::shared_ptr<NamespaceData> data);

private:
    enum class Flow { kNext, kBreak, kContinue };
    struct DepthGuard;
    struct ScopeGuard;

    // Statements (interpreter_stmt.cc).
    Flow execute(const Body& body);
    Flow execute(const Stmt& statement);
    Flow execute_if(const Stmt& statement);
    Flow execute_for(const Stmt& statement);
    Flow run_loop(const Stmt& statement, const std::shared_ptr<LoopData>& loop);
    std::shared_ptr<LoopData> start_loop(const Stmt& statement, Value iterable, int depth0);
    Flow execute_with(const Stmt& statement);
    void execute_call_block(const Stmt& statement);
    void execute_filter_block(const Stmt& statement);
    void assign(const Target& target, Value value);
    void assign_tuple(const Target& target, const Value& value);
    void assign_attribute(const Target& target, Value value);
    Value capture(const Body& body);  // rendered in a scope of its own
    Value make_macro(const Stmt& statement);
    Value call_macro(const CallableData& macro, const CallArgs& args);
    void bind_parameters(const CallableData& macro, const CallArgs& args);
    void bind_rest(const CallableData& macro, const CallArgs& args, std::size_t used_names);
    Value call_loop(const Value& callee, const CallArgs& args);
    void emit(const Value& value);

    // Expressions (interpreter_expr.cc).
    Value evaluate(const Expr& expr);
    Value evaluate_unguarded(const Expr& expr);
    Value lookup(const Expr& name);
    Value evaluate_literal_container(const Expr& expr);
    Value evaluate_conditional(const Expr& expr);
    Value evaluate_arithmetic(const Expr& expr);
    Value evaluate_concat(const Expr& expr);
    Value evaluate_compare(const Expr& expr);
    Value evaluate_slice(const Expr& expr);
    Value evaluate_call(const Expr& expr);
    Value apply_filter(const Expr& expr, const Value& input);
    Value evaluate_filter_chain(const Expr& expr, const Value& block_text);
    CallArgs evaluate_arguments(const Arguments* arguments);

    const Program& program_;
    const Value& context_;
    const RenderOptions& options_;
    WorkMeter meter_;
    std::shared_ptr<Scope> scope_;
    Text* output_ = nullptr;
    int depth_ = 0;
    int line_ = 0;
    // Everything through which values may come to hold themselves.
    std::vector<std::shared_ptr<Scope>> captured_scopes_;
    std::vector<std::shared_ptr<NamespaceData>> namespaces_;
    std::vector<Value> mutated_;
};

}  // namespace taproot::jinja
