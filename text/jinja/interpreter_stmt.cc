// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/depth_guard.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"
#include "text/jinja/raise.h"

namespace taproot::jinja {

// Enters a scope and returns to the one before, also when unwinding.
struct Interpreter::ScopeGuard {
    ScopeGuard(Interpreter& interpreter, std::shared_ptr<Scope> parent)
        : interpreter_(interpreter), before_(std::move(interpreter.scope_)) {
        interpreter_.scope_ = std::make_shared<Scope>(Scope{std::move(parent), {}});
    }
    explicit ScopeGuard(Interpreter& interpreter) : ScopeGuard(interpreter, interpreter.scope_) {}
    ~ScopeGuard() { interpreter_.scope_ = std::move(before_); }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

    // A clean scope for the next iteration; a new one only where a macro holds on to this one.
    void renew() {
        if (interpreter_.scope_.use_count() == 1) {
            interpreter_.scope_->variables.clear();
        } else {
            interpreter_.scope_ = std::make_shared<Scope>(Scope{before_, {}});
        }
    }

    Interpreter& interpreter_;
    std::shared_ptr<Scope> before_;
};

Interpreter::Interpreter(const Program& program, const Value& context, const RenderOptions& options)
    : program_(program),
      context_(context),
      options_(options),
      meter_(options.limits),
      scope_(std::make_shared<Scope>()) {}

// Values may have come to hold themselves (a macro is stored in the scope it keeps alive, a list
// was appended to itself): everything through which that can happen is emptied.
Interpreter::~Interpreter() {
    for (const auto& scope : captured_scopes_) scope->variables.clear();
    for (const auto& data : namespaces_) data->entries.clear();
    for (const Value& container : mutated_) {
        if (container.is_list()) container.list_data().items.clear();
        if (container.is_dict()) container.dict_data().entries.clear();
    }
}

Text Interpreter::run() {
    Text output;
    output_ = &output;
    execute(program_.body);
    return output;
}

void Interpreter::will_mutate(const Value& container) {
    mutated_.push_back(container);
}

Value Interpreter::new_namespace(std::shared_ptr<NamespaceData> data) {
    namespaces_.push_back(data);
    return make_namespace(std::move(data));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
    for (const auto& statement : body) {
        const Flow flow = execute(*statement);
        if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Stmt& statement) {
    const DepthGuard guard(*this);
    spend_steps(1);
    line_ = statement.line;
    switch (statement.kind) {
        case StmtKind::kText:
            output_->append(statement.text, Origin::kTemplate);
            break;
        case StmtKind::kPrint:
            emit(evaluate(*statement.expr));
            break;
        case StmtKind::kIf:
            return execute_if(statement);
        case StmtKind::kFor:
            return execute_for(statement);
        case StmtKind::kSet:
            assign(statement.target, evaluate(*statement.expr));
            break;
        case StmtKind::kSetBlock: {
            Value text = capture(statement.body);
            if (statement.expr != nullptr) text = evaluate_filter_chain(*statement.expr, text);
            assign(statement.target, std::move(text));
            break;
        }
        case StmtKind::kMacro:
            scope_->set(statement.symbol, make_macro(statement));
            break;
        case StmtKind::kCallBlock:
            execute_call_block(statement);
            break;
        case StmtKind::kFilterBlock:
            execute_filter_block(statement);
            break;
        case StmtKind::kScope: {
            const ScopeGuard scope(*this);
            return execute(statement.body);
        }
        case StmtKind::kWith:
            return execute_with(statement);
        case StmtKind::kBreak:
            return Flow::kBreak;
        case StmtKind::kContinue:
            return Flow::kContinue;
    }
    if (output_->size() > options_.limits.output_bytes)
        raise_limit("the rendered text is too long");
    return Flow::kNext;
}

void Interpreter::emit(const Value& value) {
    append_text(*output_, value);
}

Interpreter::Flow Interpreter::execute_if(const Stmt& statement) {
    for (const auto& [test, body] : statement.branches) {
        if (is_truthy(evaluate(*test))) return execute(body);
    }
    return execute(statement.else_body);
}

std::shared_ptr<LoopData> Interpreter::start_loop(const Stmt& statement, Value iterable,
                                                  int depth0) {
    std::function<bool(const Value&)> accepts;
    if (statement.test != nullptr) {
        accepts = [this, &statement, outer = scope_](const Value& item) {
            const ScopeGuard scope(*this, outer);
            assign(statement.target, item);
            return is_truthy(evaluate(*statement.test));
        };
    }
    auto loop = std::make_shared<LoopData>(std::move(iterable), std::move(accepts));
    loop->depth0 = depth0;
    if (statement.recursive) {
        loop->recursive = &statement;
        loop->scope = scope_;
    }
    return loop;
}

Interpreter::Flow Interpreter::execute_for(const Stmt& statement) {
    return run_loop(statement, start_loop(statement, evaluate(*statement.expr), 0));
}

Interpreter::Flow Interpreter::run_loop(const Stmt& statement,
                                        const std::shared_ptr<LoopData>& loop) {
    bool ran = false;
    {
        ScopeGuard scope(*this);
        while (loop->advance()) {
            if (ran) scope.renew();
            ran = true;
            if (statement.uses_loop) scope_->set(kLoopSymbol, make_loop(loop));
            assign(statement.target, loop->current);
            if (execute(statement.body) == Flow::kBreak) break;
        }
    }
    if (!ran && !statement.else_body.empty()) {
        const ScopeGuard scope(*this);
        return execute(statement.else_body);
    }
    return Flow::kNext;
}

// loop(items) inside of a recursive loop renders the same body over other items.
Value Interpreter::call_loop(const Value& callee, const CallArgs& args) {
    const std::shared_ptr<LoopData>& loop = callee.loop();
    if (loop->recursive == nullptr) {
        raise("TypeError", "The loop must have the 'recursive' marker to be called recursively.");
    }
    ArgReader reader("loop", args);
    const Value items = reader.required("iterable");
    reader.finish();
    const DepthGuard depth(*this);
    const Stmt& statement = *loop->recursive;
    Text text;
    Text* const outer = std::exchange(output_, &text);
    const auto entered = std::exchange(scope_, loop->scope);
    struct Restore {
        Interpreter& self;
        Text* output;
        const std::shared_ptr<Scope>& scope;
        ~Restore() {
            self.output_ = output;
            self.scope_ = scope;
        }
    } const restore{*this, outer, entered};
    run_loop(statement, start_loop(statement, items, loop->depth0 + 1));
    return Value::string(std::move(text));
}

Interpreter::Flow Interpreter::execute_with(const Stmt& statement) {
    std::vector<Value> values;
    for (const auto& [target, expr] : statement.bindings) values.push_back(evaluate(*expr));
    const ScopeGuard scope(*this);
    for (std::size_t i = 0; i < values.size(); ++i) assign(statement.bindings[i].first, values[i]);
    return execute(statement.body);
}

Value Interpreter::capture(const Body& body) {
    Text text;
    Text* const outer = std::exchange(output_, &text);
    struct Restore {
        Interpreter& self;
        Text* output;
        ~Restore() { self.output_ = output; }
    } const restore{*this, outer};
    const ScopeGuard scope(*this);
    execute(body);
    spend_bytes(text.size());
    return Value::string(std::move(text));
}

void Interpreter::execute_filter_block(const Stmt& statement) {
    const Value text = capture(statement.body);
    emit(evaluate_filter_chain(*statement.expr, text));
}

void Interpreter::execute_call_block(const Stmt& statement) {
    const Expr& call_expr = *statement.expr;
    const Value callee = evaluate(*call_expr.items[0]);
    CallArgs args = evaluate_arguments(call_expr.arguments.get());
    args.named.emplace_back("caller", make_macro(statement));
    emit(call(callee, args));
}

Value Interpreter::make_macro(const Stmt& statement) {
    auto macro = std::make_shared<CallableData>();
    macro->kind = CallableData::Kind::kMacro;
    macro->macro = &statement;
    macro->scope = scope_;
    captured_scopes_.push_back(scope_);
    return make_callable(std::move(macro));
}

Value Interpreter::call_macro(const CallableData& macro, const CallArgs& args) {
    const DepthGuard depth(*this);
    const int called_from = line_;
    Text text;
    Text* const outer = std::exchange(output_, &text);
    struct Restore {
        Interpreter& self;
        Text* output;
        ~Restore() { self.output_ = output; }
    } const restore{*this, outer};
    const ScopeGuard scope(*this, macro.scope);
    bind_parameters(macro, args);
    execute(macro.macro->body);
    line_ = called_from;
    spend_bytes(text.size());
    return Value::string(std::move(text));
}

// Python's order: positions, then names, then defaults (which see earlier parameters); what is left
// goes to caller, kwargs and varargs where the body names them.
void Interpreter::bind_parameters(const CallableData& macro, const CallArgs& args) {
    const Signature& signature = *macro.macro->signature;
    const std::size_t count = signature.parameters.size();
    std::size_t used_names = 0;
    bool caller_parameter = false;
    for (std::size_t i = 0; i < count; ++i) {
        const Parameter& parameter = signature.parameters[i];
        caller_parameter |= parameter.symbol == kCallerSymbol;
        const Value* named = i < args.positional.size() ? nullptr : args.find_named(parameter.name);
        if (i < args.positional.size()) {
            scope_->set(parameter.symbol, args.positional[i]);
        } else if (named != nullptr) {
            ++used_names;
            scope_->set(parameter.symbol, *named);
        } else if (parameter.fallback != nullptr) {
            scope_->set(parameter.symbol, evaluate(*parameter.fallback));
        } else {
            scope_->set(parameter.symbol, make_undefined({.hint = "parameter '" + parameter.name +
                                                                  "' was not provided"}));
        }
    }
    const Value* caller = caller_parameter ? nullptr : args.find_named("caller");
    if (signature.uses_caller && !caller_parameter) {
        used_names += caller != nullptr ? 1 : 0;
        scope_->set(kCallerSymbol,
                    caller != nullptr ? *caller : make_undefined({.hint = "No caller defined"}));
    }
    bind_rest(macro, args, used_names);
}

void Interpreter::bind_rest(const CallableData& macro, const CallArgs& args,
                            std::size_t used_names) {
    const Signature& signature = *macro.macro->signature;
    const std::size_t count = signature.parameters.size();
    const auto is_parameter = [&signature, &args](std::string_view name) {
        for (std::size_t i = args.positional.size(); i < signature.parameters.size(); ++i) {
            if (signature.parameters[i].name == name) return true;
        }
        return name == "caller" && signature.uses_caller;
    };
    if (signature.uses_kwargs) {
        Value rest = Value::dict();
        for (const auto& [name, value] : args.named) {
            if (!is_parameter(name)) rest.set(name, value);
        }
        scope_->set(kKwargsSymbol, std::move(rest));
    } else if (used_names < args.named.size()) {
        for (const auto& [name, value] : args.named) {
            if (is_parameter(name)) continue;
            raise("TypeError",
                  "macro '" + signature.name + "' takes no keyword argument '" + name + "'");
        }
    }
    if (signature.uses_varargs) {
        const auto from = args.positional.begin() +
                          static_cast<std::ptrdiff_t>(std::min(count, args.positional.size()));
        scope_->set(kVarargsSymbol, Value::list(std::vector<Value>(from, args.positional.end()),
                                                SequenceKind::kTuple));
    } else if (args.positional.size() > count) {
        raise("TypeError", "macro '" + signature.name + "' takes not more than " +
                               std::to_string(count) + " argument(s)");
    }
}

void Interpreter::assign(const Target& target, Value value) {
    switch (target.kind) {
        case Target::Kind::kName:
            scope_->set(target.symbol, std::move(value));
            return;
        case Target::Kind::kAttribute:
            assign_attribute(target, std::move(value));
            return;
        case Target::Kind::kTuple:
            assign_tuple(target, value);
            return;
    }
}

void Interpreter::assign_attribute(const Target& target, Value value) {
    const Value* object = scope_->find(target.symbol);
    if (object == nullptr) object = context_.find(target.name);
    if (object == nullptr || !object->is(Kind::kNamespace)) {
        raise("TemplateRuntimeError", "cannot assign attribute on non-namespace object");
    }
    object->namespace_data().set(target.attribute, std::move(value));
}

void Interpreter::assign_tuple(const Target& target, const Value& value) {
    if (!is_iterable(value)) {
        raise("TypeError",
              std::string("cannot unpack non-iterable ") + type_name(value) + " object");
    }
    const std::vector<Value> items = collect(value);
    const std::size_t wanted = target.parts.size();
    if (items.size() < wanted) {
        raise("ValueError", "not enough values to unpack (expected " + std::to_string(wanted) +
                                ", got " + std::to_string(items.size()) + ")");
    }
    if (items.size() > wanted) {
        raise("ValueError", "too many values to unpack (expected " + std::to_string(wanted) + ")");
    }
    for (std::size_t i = 0; i < wanted; ++i) assign(target.parts[i], items[i]);
}

}  // namespace taproot::jinja
